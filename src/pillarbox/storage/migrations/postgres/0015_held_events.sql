ALTER TABLE hook_strand ADD COLUMN IF NOT EXISTS locked_at TIMESTAMPTZ;

-- The outbox as it is looked at: a claim marks its strand alone, and what stands there from head_seq to held_seq is held.
CREATE OR REPLACE VIEW hook_event AS
SELECT o.id, o.session_id, o.seq, o.event_type,
    CASE WHEN s.session_id IS NULL THEN o.status ELSE 'processing' END AS status,
    o.created_at,
    CASE WHEN s.session_id IS NULL THEN o.next_attempt_at END AS next_attempt_at,
    COALESCE(s.locked_at, o.locked_at) AS locked_at,
    o.delivered_at,
    CASE WHEN s.session_id IS NULL THEN o.attempt_count ELSE o.attempt_count + 1 END AS attempt_count,
    o.superseded_by, o.superseded_by_type, o.last_error, o.payload
FROM hook_outbox o
LEFT JOIN hook_strand s ON s.session_id = o.session_id AND s.lease_until IS NOT NULL
    AND o.seq >= s.head_seq AND o.seq <= s.held_seq AND o.status IN ('pending', 'failed');
