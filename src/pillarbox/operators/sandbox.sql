-- name: arrange
INSERT INTO sandbox_trouble (trouble_id, channel, trouble, remaining, created_at)
VALUES (:trouble_id, :channel, :trouble, :times, :now)

-- name: list
SELECT trouble_id, channel, trouble, remaining, created_at FROM sandbox_trouble ORDER BY trouble_id LIMIT :limit

-- name: take
-- The one that was arranged first; each send uses up one of its times, whichever process sends.
UPDATE sandbox_trouble SET remaining = remaining - 1 WHERE remaining > 0 AND trouble_id = (
    SELECT min(t.trouble_id) FROM sandbox_trouble t WHERE t.channel IN (:channel, 'all') AND t.remaining > 0)
RETURNING trouble

-- name: remove_used
DELETE FROM sandbox_trouble WHERE remaining = 0

-- name: clear
DELETE FROM sandbox_trouble

-- name: any
SELECT 1 FROM sandbox_trouble LIMIT 1

-- name: count
SELECT count(*) FROM sandbox_trouble
