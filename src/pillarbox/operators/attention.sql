-- name: stuck_inbound bears_damage
-- Sessions whose head fails, the longest first, on idx_inbound_strand_failing_since. Nodes of an older version, which may work
-- beside this one for a while, know `failing` alone; the sum keeps it off their index.
SELECT m.id, s.session_id, s.failing_since, m.last_error, m.attempt_count, s.open_count
FROM (SELECT f.session_id, f.head_seq, f.open_count, f.failing_since FROM inbound_strand f
    WHERE f.failing_since <= :before AND f.failing + 0 = 1 ORDER BY f.failing_since LIMIT :most) s
CROSS JOIN inbound_queue m WHERE m.session_id = s.session_id AND m.seq = s.head_seq

-- name: stuck_hooks bears_damage
SELECT m.id, s.session_id, s.failing_since, m.last_error, m.attempt_count, s.open_count
FROM (SELECT f.session_id, f.head_seq, f.open_count, f.failing_since FROM hook_strand f
    WHERE f.failing_since <= :before AND f.failing + 0 = 1 ORDER BY f.failing_since LIMIT :most) s
CROSS JOIN hook_event m WHERE m.session_id = s.session_id AND m.seq = s.head_seq

-- name: dead bears_damage
-- The newest, on idx_hook_outbox_dead.
SELECT id, session_id, created_at, last_error FROM hook_outbox WHERE status = 'dead' ORDER BY id DESC LIMIT :most

-- name: failed bears_damage
-- What failed for good since then, the first first, on idx_message_history_failed.
SELECT message_id, tenant_id, failed_at, error_message, channel, subject FROM message_history
WHERE trouble = 'failed' AND failed_at >= :since ORDER BY failed_at LIMIT :most

-- name: failing bears_damage
-- What failed for good of late, the last first, on the same index.
SELECT tenant_id, channel, provider, failed_at, error_message FROM message_history
WHERE trouble = 'failed' AND failed_at >= :since ORDER BY failed_at DESC LIMIT :most

-- name: accepted bears_damage
-- When each of a tenant's providers last took something, among its newest messages, on idx_message_history_tenant.
SELECT COALESCE(newest.provider, newest.channel), max(newest.sent_at)
FROM (SELECT m.provider, m.channel, m.sent_at FROM message_history m
    WHERE m.tenant_id = :tenant_id ORDER BY m.message_id DESC LIMIT :most) newest
WHERE newest.sent_at IS NOT NULL GROUP BY COALESCE(newest.provider, newest.channel)

-- name: retrying bears_damage
-- What waits after an attempt that failed of late, the last first, on idx_message_queue_tried.
SELECT h.tenant_id, h.channel, h.provider, s.tried_at, h.error_message
FROM (SELECT q.message_id, q.tried_at FROM message_queue q
    WHERE q.state = 'scheduled' AND q.attempt_count > 0 AND q.tried_at >= :since ORDER BY q.tried_at DESC LIMIT :most) s
CROSS JOIN message_history h WHERE h.message_id = s.message_id
