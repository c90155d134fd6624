-- name: move
-- A place is only ever left behind, never gone back to.
INSERT INTO adapter_position (origin, place, position)
SELECT rows.origin, rows.place, rows.position FROM :rows(origin text, place text, position bigint) WHERE true
ON CONFLICT (origin, place) DO UPDATE SET position = excluded.position
WHERE adapter_position.position < excluded.position

-- name: known
SELECT place, position FROM adapter_position WHERE origin = :origin ORDER BY place LIMIT :limit

-- name: forget
DELETE FROM adapter_position WHERE origin = :origin AND place = :place

-- name: hold
-- One holder at a time: a lease that is over, or that was ours, may be taken.
INSERT INTO adapter_lease (name, holder, lease_until) VALUES (:name, :holder, :until)
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, lease_until = excluded.lease_until
WHERE adapter_lease.holder = :holder OR adapter_lease.holder = :dead OR adapter_lease.lease_until <= :now
RETURNING holder

-- name: holder_of
SELECT holder FROM adapter_lease WHERE name = :name

-- name: let_go
DELETE FROM adapter_lease WHERE name = :name AND holder = :holder
