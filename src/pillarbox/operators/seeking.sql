-- name: inbound_at
SELECT id, created_at FROM inbound_queue WHERE id <= :id ORDER BY id DESC LIMIT 1

-- name: hooks_at
SELECT id, created_at FROM hook_outbox WHERE id <= :id ORDER BY id DESC LIMIT 1
