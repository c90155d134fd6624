-- name: lengthen sqlite
-- Opens the strand or lengthens it by the place of the one event that is inserted behind this; nothing if there is no such session.
INSERT INTO hook_strand (session_id, next_seq, head_seq, open_count, due_at)
SELECT session_id, 2, 1, 1, :now FROM sessions WHERE session_id = :session_id
ON CONFLICT (session_id) DO UPDATE
SET next_seq = hook_strand.next_seq + 1, open_count = hook_strand.open_count + 1,
    head_seq = COALESCE(hook_strand.head_seq, hook_strand.next_seq),
    due_at = CASE WHEN hook_strand.head_seq IS NULL THEN excluded.due_at ELSE hook_strand.due_at END

-- name: hand_over sqlite
-- The same where the strand is empty and a node has offered to take what comes: then that node holds the event from the beginning.
-- Only one whose death would be seen, and no offer of another boot, whose clock may have been ahead of this one's.
INSERT INTO hook_strand (session_id, next_seq, head_seq, open_count, token, locked_at, lease_until, holder, held_seq, held_count)
SELECT sessions.session_id, 2, 1, 1, 1, :now, offer.lease_until, offer.holder, 1, 1
FROM (SELECT holder, lease_until FROM hook_offer
    WHERE until > :now AND until <= :latest AND instr(holder, :near) > 0 ORDER BY until DESC LIMIT 1) AS offer
CROSS JOIN sessions WHERE sessions.session_id = :session_id
ON CONFLICT (session_id) DO UPDATE
SET next_seq = hook_strand.next_seq + 1, open_count = hook_strand.open_count + 1, head_seq = hook_strand.next_seq,
    token = hook_strand.token + 1, due_at = NULL, locked_at = excluded.locked_at, lease_until = excluded.lease_until,
    holder = excluded.holder, held_seq = hook_strand.next_seq, held_count = 1
WHERE hook_strand.head_seq IS NULL
RETURNING holder

-- name: accept sqlite
-- An offer is for one event.
DELETE FROM hook_offer WHERE holder = :holder

-- name: insert sqlite
INSERT INTO hook_outbox (session_id, seq, event_type, created_at, next_attempt_at, payload, checksum, trace)
SELECT s.session_id, s.next_seq - 1, :event_type, :created_at, :now, :payload, :checksum, :trace
FROM hook_strand s JOIN sessions ON sessions.session_id = s.session_id WHERE s.session_id = :session_id
RETURNING id

-- name: insert postgres once
-- Both as one, and locking the strand: a second statement could see one that another node has opened meanwhile.
WITH lengthened AS (
    INSERT INTO hook_strand (session_id, next_seq, head_seq, open_count, due_at)
    SELECT session_id, 2, 1, 1, :now FROM sessions WHERE session_id = :session_id
    ON CONFLICT (session_id) DO UPDATE
    SET next_seq = hook_strand.next_seq + 1, open_count = hook_strand.open_count + 1,
        head_seq = COALESCE(hook_strand.head_seq, hook_strand.next_seq),
        due_at = CASE WHEN hook_strand.head_seq IS NULL THEN excluded.due_at ELSE hook_strand.due_at END
    RETURNING session_id, next_seq
)
INSERT INTO hook_outbox (session_id, seq, event_type, created_at, next_attempt_at, payload, checksum, trace)
SELECT session_id, next_seq - 1, :event_type, :created_at, :now, :payload, :checksum, :trace FROM lengthened
RETURNING id

-- name: inserted
-- The event that `insert` stored, where nobody heard its answer: the last that is the same in all that was said.
SELECT id FROM hook_outbox
WHERE session_id = :session_id AND created_at = :created_at AND event_type = :event_type AND checksum = :checksum
ORDER BY seq DESC LIMIT 1

-- name: take sqlite
-- Holds those of the first due strands that have one event alone, which needs no look at what it would be coalesced with.
UPDATE hook_strand
SET token = token + 1, due_at = NULL, locked_at = :now, lease_until = :lease_until, holder = :holder,
    held_seq = head_seq, held_count = 1
WHERE session_id IN (
    SELECT due.session_id FROM (SELECT * FROM hook_strand WHERE due_at <= :now ORDER BY due_at LIMIT :limit) AS due
    JOIN hook_outbox q ON q.session_id = due.session_id AND q.seq = due.head_seq
    WHERE due.next_seq = due.head_seq + 1 AND due.token >= 0 AND q.status IN ('pending', 'failed'))
RETURNING session_id, token

-- name: take postgres once
-- An array, because it is made once; a subquery that is run again would lock others.
UPDATE hook_strand
SET token = token + 1, due_at = NULL, locked_at = :now, lease_until = :lease_until, holder = :holder,
    held_seq = head_seq, held_count = 1
WHERE session_id = ANY(ARRAY(
    SELECT due.session_id FROM (
        SELECT session_id, head_seq, next_seq FROM hook_strand
        WHERE due_at <= :now ORDER BY due_at LIMIT :limit :skip_locked(hook_strand)
    ) AS due
    JOIN hook_outbox q ON q.session_id = due.session_id AND q.seq = due.head_seq
    WHERE due.next_seq = due.head_seq + 1 AND q.status IN ('pending', 'failed')))
RETURNING session_id, token

-- name: rows_taken once bears_damage
-- What `take` holds, and whatever else was claimed at that very time; on idx_hook_strand_lease.
SELECT q.id, s.session_id, q.seq, q.event_type, q.created_at, q.attempt_count + 1, q.last_error, q.payload, q.took_effect,
    q.checksum, q.trace
FROM hook_strand s JOIN hook_outbox q ON q.session_id = s.session_id AND q.seq = s.head_seq
WHERE s.lease_until = :lease_until AND s.locked_at = :now AND s.holder = :holder

-- name: taken
-- The strands of those, where nobody heard the answer to `take`.
SELECT session_id, token FROM hook_strand WHERE lease_until = :lease_until AND locked_at = :now AND holder = :holder
