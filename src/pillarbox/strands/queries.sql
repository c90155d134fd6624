-- name: overdue bears_damage
-- Strands whose lease is over, on idx_{strand}_lease.
SELECT session_id, head_seq FROM {strand}
WHERE lease_until <= :now ORDER BY lease_until LIMIT :limit :skip_locked({strand})

-- name: holders
SELECT DISTINCT holder FROM {strand} WHERE lease_until IS NOT NULL

-- name: end_leases
UPDATE {strand} SET lease_until = :now WHERE lease_until > :now AND holder :in(holders text)

-- name: overlong bears_damage
SELECT lease_until FROM {strand} WHERE lease_until > :horizon ORDER BY lease_until LIMIT 1

-- name: cut_leases
UPDATE {strand} SET lease_until = :lease_until WHERE lease_until > :horizon

-- name: renew
-- Only what is still held under the same token; locked in the order of ids first.
UPDATE {strand} SET lease_until = :lease_until
WHERE session_id IN (
    SELECT s.session_id FROM {strand} s JOIN :rows(session_id text, token bigint)
    ON s.session_id = rows.session_id AND s.token = rows.token
    WHERE s.lease_until IS NOT NULL ORDER BY s.session_id :lock(s))
RETURNING session_id, token

-- name: held
SELECT s.session_id, s.token FROM {strand} s
JOIN :rows(session_id text, token bigint) ON s.session_id = rows.session_id AND s.token = rows.token
WHERE s.lease_until IS NOT NULL

-- name: earliest_lease bears_damage
SELECT lease_until FROM {strand} WHERE lease_until IS NOT NULL ORDER BY lease_until LIMIT 1
