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

-- name: compare_inbound
-- How much that waits in the backup has ended in `main`, the database to be replaced, and how much came in there afterwards;
-- so do the next two.
SELECT (SELECT count(*) FROM backup.inbound_queue b JOIN main.inbound_queue o ON o.id = b.id
        WHERE b.status NOT IN ('delivered', 'expired') AND o.status IN ('delivered', 'expired')),
       (SELECT count(*) FROM main.inbound_queue o WHERE NOT EXISTS (SELECT 1 FROM backup.inbound_queue b WHERE b.id = o.id))

-- name: compare_hooks
SELECT (SELECT count(*) FROM backup.hook_outbox b JOIN main.hook_outbox o ON o.id = b.id
        WHERE b.status NOT IN ('delivered', 'superseded', 'dead') AND o.status IN ('delivered', 'superseded', 'dead')),
       (SELECT count(*) FROM main.hook_outbox o WHERE NOT EXISTS (SELECT 1 FROM backup.hook_outbox b WHERE b.id = o.id))

-- name: compare_outbound
SELECT (SELECT count(*) FROM backup.message_queue b JOIN main.message_history o ON o.message_id = b.message_id
        WHERE o.status NOT IN ('pending', 'retrying')),
       (SELECT count(*) FROM main.message_history o
        WHERE NOT EXISTS (SELECT 1 FROM backup.message_history b WHERE b.message_id = o.message_id))

-- name: version
SELECT max(version) FROM schema_migration
