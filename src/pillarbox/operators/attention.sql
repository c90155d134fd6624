-- name: stuck_inbound
-- Sessions whose head fails, on idx_inbound_strand_failing.
SELECT m.id, s.session_id, m.created_at, m.last_error, m.attempt_count, s.open_count
FROM (SELECT f.session_id, f.head_seq, f.open_count FROM inbound_strand f WHERE f.failing = 1 LIMIT :most) s
CROSS JOIN inbound_queue m WHERE m.session_id = s.session_id AND m.seq = s.head_seq

-- name: stuck_hooks
SELECT m.id, s.session_id, m.created_at, m.last_error, m.attempt_count, s.open_count
FROM (SELECT f.session_id, f.head_seq, f.open_count FROM hook_strand f WHERE f.failing = 1 LIMIT :most) s
CROSS JOIN hook_outbox m WHERE m.session_id = s.session_id AND m.seq = s.head_seq

-- name: dead
-- The newest, on idx_hook_outbox_dead.
SELECT id, session_id, created_at, last_error FROM hook_outbox WHERE status = 'dead' ORDER BY id DESC LIMIT :most

-- name: unsent
-- What failed for good lately, the newest first, on idx_message_history_unsent.
SELECT message_id, tenant_id, channel, provider, created_at, error_message FROM message_history
WHERE trouble = 'failed' AND message_id >= :since
ORDER BY message_id DESC LIMIT :most

-- name: retrying
-- What waits after a failed attempt, the soonest due first, on idx_message_queue_retrying.
SELECT h.message_id, h.tenant_id, h.channel, h.provider, h.created_at, h.error_message, h.last_attempt_at
FROM (SELECT q.message_id FROM message_queue q WHERE q.state = 'scheduled' AND q.attempt_count > 0
    ORDER BY q.next_attempt_at LIMIT :most) s
CROSS JOIN message_history h WHERE h.message_id = s.message_id
