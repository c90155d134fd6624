-- name: waiting_inbound
-- What a database would deliver, by state, with the oldest and the newest of each; so do the next two.
SELECT status, count(*), min(created_at), max(created_at)
FROM inbound_queue WHERE status NOT IN ('delivered', 'expired') GROUP BY status ORDER BY status

-- name: waiting_hooks
SELECT status, count(*), min(created_at), max(created_at)
FROM hook_outbox WHERE status NOT IN ('delivered', 'superseded', 'dead') GROUP BY status ORDER BY status

-- name: waiting_outbound
SELECT q.state, count(*), min(h.created_at), max(h.created_at)
FROM message_queue q JOIN message_history h ON h.message_id = q.message_id GROUP BY q.state ORDER BY q.state

-- name: remembers_key
SELECT count(*) FROM sealing_key

-- name: version
SELECT max(version) FROM schema_migration
