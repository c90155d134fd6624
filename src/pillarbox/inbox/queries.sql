-- name: begin
-- A key is leased to one caller at a time, and a processed key is never leased again. Takes what is free, and a lease that is
-- over unless it stands for another request; everything else stays as it is but for having been seen. On the primary key.
-- A given-up lease is not taken again under its own name: a repeated call that was late must not hold what nobody works on.
INSERT INTO inbox (digest, key, status, lease_id, owner, lease_until, fingerprint, attempts, first_seen, last_seen)
SELECT rows.digest, rows.key, 'leased', rows.lease_id, rows.owner, rows.lease_until, rows.fingerprint, 1, :now, :now
FROM :rows(digest text, key text, lease_id text, owner text, lease_until instant, fingerprint text) WHERE true
ON CONFLICT (digest) DO UPDATE
SET (status, lease_id, owner, lease_until, fingerprint, attempts, last_seen) = (
    SELECT CASE WHEN taken.yes THEN 'leased' ELSE inbox.status END,
           CASE WHEN taken.yes THEN excluded.lease_id ELSE inbox.lease_id END,
           CASE WHEN taken.yes THEN excluded.owner ELSE inbox.owner END,
           CASE WHEN taken.yes THEN excluded.lease_until ELSE inbox.lease_until END,
           CASE WHEN NOT taken.yes THEN inbox.fingerprint
                WHEN inbox.status = 'free' THEN excluded.fingerprint
                ELSE COALESCE(excluded.fingerprint, inbox.fingerprint) END,
           CASE WHEN taken.yes THEN inbox.attempts + 1 ELSE inbox.attempts END,
           CASE WHEN excluded.last_seen > inbox.last_seen THEN excluded.last_seen ELSE inbox.last_seen END
    FROM (SELECT (inbox.status = 'free' AND inbox.lease_id <> excluded.lease_id)
              OR (inbox.status = 'leased' AND inbox.lease_until <= excluded.last_seen
                  AND (inbox.fingerprint IS NULL OR excluded.fingerprint IS NULL
                       OR inbox.fingerprint = excluded.fingerprint)) AS yes) AS taken
)
RETURNING digest, status, lease_id, lease_until, fingerprint, result

-- name: hold
-- Whoever changes several keys holds them first, in the order of their digests, so that nobody deadlocks.
SELECT digest FROM inbox WHERE digest :in(digests text) ORDER BY digest :lock(inbox)

-- name: extend
-- Only the holder, in time or not, and only until it is processed. One that was held up on its way here does not take back
-- what a later one has promised.
UPDATE inbox
SET lease_until = CASE WHEN rows.seen < inbox.last_seen AND rows.lease_until < inbox.lease_until
                       THEN inbox.lease_until ELSE rows.lease_until END,
    last_seen = CASE WHEN rows.seen > inbox.last_seen THEN rows.seen ELSE inbox.last_seen END
FROM :rows(digest text, lease_id text, lease_until instant, seen instant)
WHERE inbox.digest = rows.digest AND inbox.lease_id = rows.lease_id AND inbox.status = 'leased'
RETURNING inbox.digest, inbox.lease_id, inbox.lease_until

-- name: mark
-- Only the holder, in time or not; the first mark counts, with its result and its time.
UPDATE inbox
SET status = 'processed', lease_until = NULL, processed_at = COALESCE(inbox.processed_at, :now),
    result = CASE WHEN inbox.status = 'processed' THEN inbox.result ELSE rows.result END
FROM :rows(digest text, lease_id text, result text)
WHERE inbox.digest = rows.digest AND inbox.lease_id = rows.lease_id AND inbox.status <> 'free'
RETURNING inbox.digest, inbox.lease_id

-- name: release
-- Only the holder; the lease keeps its name, so that releasing it again is the same.
UPDATE inbox SET status = 'free', lease_until = NULL
FROM :rows(digest text, lease_id text)
WHERE inbox.digest = rows.digest AND inbox.lease_id = rows.lease_id AND inbox.status <> 'processed'
RETURNING inbox.digest, inbox.lease_id

-- name: look
SELECT status, attempts, first_seen, last_seen, lease_until FROM inbox WHERE digest = :digest

-- name: remove_processed
-- Counted from the mark, the oldest first, on idx_inbox_processed; a row that somebody holds waits for the next time.
DELETE FROM inbox WHERE digest IN (
    SELECT digest FROM inbox WHERE status = 'processed' AND processed_at < :before
    ORDER BY processed_at LIMIT :limit :skip_locked(inbox)
) RETURNING digest

-- name: remove_abandoned
-- Keys that were given up and that nobody has asked for since; never one whose lease still runs. On idx_inbox_open.
DELETE FROM inbox WHERE digest IN (
    SELECT digest FROM inbox
    WHERE status <> 'processed' AND last_seen < :before AND (lease_until IS NULL OR lease_until < :before)
    ORDER BY last_seen LIMIT :limit :skip_locked(inbox)
) RETURNING digest

-- name: status
-- Leased and free keys are few; processed ones are counted on idx_inbox_processed alone.
SELECT (SELECT count(*) FROM inbox WHERE status <> 'processed' AND lease_until > :now),
       (SELECT count(*) FROM inbox WHERE status <> 'processed' AND (lease_until IS NULL OR lease_until <= :now)),
       (SELECT count(*) FROM inbox WHERE status = 'processed')
