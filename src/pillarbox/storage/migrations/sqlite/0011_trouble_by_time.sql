ALTER TABLE message_attempt ADD COLUMN request TEXT;

ALTER TABLE message_attempt ADD COLUMN response TEXT;

CREATE INDEX IF NOT EXISTS idx_message_history_failed ON message_history (trouble, failed_at) WHERE failed_at IS NOT NULL;

ALTER TABLE message_queue ADD COLUMN tried_at TEXT;

UPDATE message_queue SET tried_at = (SELECT h.last_attempt_at FROM message_history h WHERE h.message_id = message_queue.message_id)
WHERE state = 'scheduled' AND attempt_count > 0;

CREATE INDEX IF NOT EXISTS idx_message_queue_tried
    ON message_queue (tried_at) WHERE state = 'scheduled' AND attempt_count > 0;

DROP INDEX IF EXISTS idx_message_queue_retrying;

ALTER TABLE inbound_strand ADD COLUMN failing_since TEXT;

UPDATE inbound_strand SET failing_since = (
    SELECT m.created_at FROM inbound_queue m WHERE m.session_id = inbound_strand.session_id AND m.seq = inbound_strand.head_seq)
WHERE failing = 1;

CREATE INDEX IF NOT EXISTS idx_inbound_strand_failing_since ON inbound_strand (failing_since) WHERE failing_since IS NOT NULL;

ALTER TABLE hook_strand ADD COLUMN failing_since TEXT;

UPDATE hook_strand SET failing_since = (
    SELECT m.created_at FROM hook_outbox m WHERE m.session_id = hook_strand.session_id AND m.seq = hook_strand.head_seq)
WHERE failing = 1;

CREATE INDEX IF NOT EXISTS idx_hook_strand_failing_since ON hook_strand (failing_since) WHERE failing_since IS NOT NULL;
