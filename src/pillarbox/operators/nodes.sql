-- name: beat
INSERT INTO node (holder, name, process, role, version, concurrency, in_flight, totals, started_at, last_seen)
VALUES (:holder, :name, :process, :role, :version, :concurrency, :in_flight, :totals, :now, :now)
ON CONFLICT (holder) DO UPDATE SET last_seen = excluded.last_seen, in_flight = excluded.in_flight, totals = excluded.totals,
    stopped_at = NULL

-- name: leave
UPDATE node SET stopped_at = :now, last_seen = :now, in_flight = 0 WHERE holder = :holder

-- name: list
SELECT name, process, role, version, concurrency, in_flight, started_at, last_seen, stopped_at, holder FROM node
ORDER BY name, started_at LIMIT :limit

-- name: totals
SELECT holder, last_seen, totals FROM node WHERE last_seen > :since AND stopped_at IS NULL ORDER BY holder LIMIT :limit

-- name: forget
DELETE FROM node WHERE last_seen < :before
