-- name: inbound_at
SELECT id, created_at FROM inbound_queue WHERE id <= :id ORDER BY id DESC LIMIT 1

-- name: hooks_at
SELECT id, created_at FROM hook_outbox WHERE id <= :id ORDER BY id DESC LIMIT 1

-- name: inbound_heads
-- On idx_inbound_strand_failing.
SELECT session_id FROM inbound_strand WHERE failing = 1 AND session_id > :after ORDER BY session_id LIMIT 1 OFFSET :most - 1

-- name: hooks_heads
SELECT session_id FROM hook_strand WHERE failing = 1 AND session_id > :after ORDER BY session_id LIMIT 1 OFFSET :most - 1
