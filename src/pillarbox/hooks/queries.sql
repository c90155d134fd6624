-- name: lock_strands bears_damage
-- Whoever writes a strand or its rows holds the strand first, several in the order of their ids, so that nobody deadlocks.
SELECT session_id, next_seq, head_seq, token, CASE WHEN lease_until IS NULL THEN 0 ELSE 1 END
FROM hook_strand WHERE session_id :in(session_ids text)
ORDER BY session_id :lock(hook_strand)

-- name: known_sessions
SELECT session_id FROM sessions WHERE session_id :in(session_ids text)

-- name: open_strands
-- A session gets its strand with its first event, if there is such a session; another node may be as quick.
INSERT INTO hook_strand (session_id, next_seq)
SELECT session_id, 1 FROM sessions
WHERE session_id :in(session_ids text) AND NOT EXISTS (SELECT 1 FROM hook_strand s WHERE s.session_id = sessions.session_id)
ORDER BY session_id
ON CONFLICT (session_id) DO NOTHING

-- name: insert
-- `seq` was taken under the strand's lock; only an event that came before by the same key is refused without a word.
INSERT INTO hook_outbox (session_id, seq, event_type, event_key, created_at, next_attempt_at, payload, checksum, trace)
SELECT rows.session_id, rows.seq, rows.event_type, rows.event_key, rows.created_at, :now, rows.payload, rows.checksum,
       rows.trace
FROM :rows(session_id text, seq bigint, event_type text, event_key text, created_at instant, payload text, checksum bigint, trace text)
WHERE true
ON CONFLICT (event_key) WHERE event_key IS NOT NULL DO NOTHING
RETURNING session_id, seq, id

-- name: stored
-- What stands at these places, where an insert took effect and nobody heard its answer; on idx_hook_outbox_order.
SELECT q.session_id, q.seq, q.id FROM :rows(session_id text, seq bigint)
JOIN hook_outbox q ON q.session_id = rows.session_id AND q.seq = rows.seq

-- name: by_keys
SELECT event_key, id FROM hook_outbox WHERE event_key :in(keys text)

-- name: lengthen
-- An empty strand gets its first row as head; any other keeps the head it has.
UPDATE hook_strand
SET next_seq = rows.next_seq,
    open_count = hook_strand.open_count + rows.added,
    head_seq = COALESCE(hook_strand.head_seq, rows.head_seq),
    due_at = CASE WHEN hook_strand.head_seq IS NULL THEN :now ELSE hook_strand.due_at END
FROM :rows(session_id text, next_seq bigint, added bigint, head_seq bigint)
WHERE hook_strand.session_id = rows.session_id

-- name: outlived
-- Which of these rows have outlived too many workers; asked before `rescue_rows`, and answered by the names in the question, for
-- those in the rows may have been damaged on disk.
SELECT rows.session_id FROM :rows(session_id text, seq bigint)
JOIN hook_outbox q ON q.session_id = rows.session_id AND q.seq = rows.seq
WHERE q.status IN ('pending', 'failed', 'processing') AND q.death_count + 1 >= :deaths

-- name: rescue_rows
-- The first row a worker left behind waits like any failed one, and the longest step once it has outlived too many workers.
-- Its attempt counts, so that an event which kills its worker every time is still counted. (Nodes of an older version, which may
-- work beside this one for a while, mark the rows they hold, and count their attempts then.)
UPDATE hook_outbox
SET status = 'failed', locked_at = NULL,
    attempt_count = hook_outbox.attempt_count + CASE WHEN hook_outbox.status = 'processing' THEN 0 ELSE 1 END,
    death_count = hook_outbox.death_count + 1,
    last_error = 'The process that was delivering it went away; deaths so far: ' || (hook_outbox.death_count + 1) || '.',
    next_attempt_at = CASE WHEN hook_outbox.death_count + 1 >= :deaths THEN :later ELSE :now END
FROM :rows(session_id text, seq bigint)
WHERE hook_outbox.session_id = rows.session_id AND hook_outbox.seq = rows.seq
    AND hook_outbox.status IN ('pending', 'failed', 'processing')

-- name: rescue_behind
-- The worker may have come to these too, for a row begins before the one in front is settled: their attempt counts.
UPDATE hook_outbox
SET status = 'pending', locked_at = NULL, next_attempt_at = :now,
    attempt_count = hook_outbox.attempt_count + CASE WHEN hook_outbox.status = 'processing' THEN 0 ELSE 1 END
FROM :rows(session_id text, seq bigint) JOIN hook_strand s ON s.session_id = rows.session_id
WHERE hook_outbox.session_id = rows.session_id AND hook_outbox.seq > rows.seq AND hook_outbox.seq <= s.held_seq
    AND hook_outbox.status IN ('pending', 'failed', 'processing')

-- name: rescue_behind postgres
-- From the strands to their rows, so that no planner walks what was delivered before.
UPDATE hook_outbox
SET status = 'pending', locked_at = NULL, next_attempt_at = :now,
    attempt_count = hook_outbox.attempt_count + CASE WHEN hook_outbox.status = 'processing' THEN 0 ELSE 1 END
FROM :rows(session_id text, seq bigint) JOIN hook_strand s ON s.session_id = rows.session_id
CROSS JOIN LATERAL (
    SELECT q.id FROM hook_outbox q
    WHERE q.session_id = rows.session_id AND q.seq > rows.seq AND q.seq <= s.held_seq
        AND q.status IN ('pending', 'failed', 'processing') OFFSET 0
) AS behind
WHERE hook_outbox.id = behind.id

-- name: rescue_strands
UPDATE hook_strand
SET lease_until = NULL, holder = NULL, failing = 1, failing_since = COALESCE(hook_strand.failing_since, :now), held_count = 0,
    due_at = rows.due_at
FROM :rows(session_id text, due_at instant) WHERE hook_strand.session_id = rows.session_id

-- name: due_strands bears_damage
-- The longest due first, on idx_hook_strand_due: a session has one place here, however much it has waiting.
SELECT session_id, token, head_seq, next_seq, open_count FROM hook_strand
WHERE due_at <= :now ORDER BY due_at LIMIT :limit :skip_locked(hook_strand)

-- name: lone_heads bears_damage
-- The events of those first due strands that have one alone; read behind the strands' locks, and whole, for it needs no second look.
-- Strands that others hold are passed over here too: a database that is strict about what it reads would wait for them.
SELECT q.id, due.session_id, q.seq, q.event_type, q.created_at, q.attempt_count + 1, q.last_error, q.payload, q.took_effect,
    q.checksum, q.trace
FROM (
    SELECT session_id, head_seq, next_seq FROM hook_strand
    WHERE due_at <= :now ORDER BY due_at LIMIT :limit :skip_locked(hook_strand)
) AS due
JOIN hook_outbox q ON q.session_id = due.session_id AND q.seq = due.head_seq
WHERE due.next_seq = due.head_seq + 1 AND q.status IN ('pending', 'failed')

-- name: heads bears_damage
-- The first open rows of each strand, on idx_hook_outbox_order, and how large they are; a large one's payload is not read before
-- it is taken. Read after the strands' locks.
SELECT q.id, rows.session_id, q.seq, q.event_type, q.created_at, q.attempt_count + 1, q.last_error,
    CASE WHEN octet_length(q.payload) <= :small THEN q.payload END, q.took_effect, q.checksum, q.trace, octet_length(q.payload)
FROM :rows(session_id text, from_seq bigint, to_seq bigint)
JOIN hook_outbox q ON q.session_id = rows.session_id AND q.seq >= rows.from_seq AND q.seq <= rows.to_seq
WHERE q.status IN ('pending', 'failed')
ORDER BY rows.session_id, q.seq

-- name: window bears_damage
-- The open rows of a further stretch of each strand, as much of them as says what supersedes what.
SELECT rows.session_id, q.id, q.seq, q.event_type, octet_length(q.payload)
FROM :rows(session_id text, from_seq bigint, to_seq bigint)
JOIN hook_outbox q ON q.session_id = rows.session_id AND q.seq >= rows.from_seq AND q.seq <= rows.to_seq
WHERE q.status IN ('pending', 'failed')
ORDER BY rows.session_id, q.seq

-- name: supersede
UPDATE hook_outbox
SET status = 'superseded', delivered_at = :now, next_attempt_at = NULL, superseded_by = rows.superseded_by,
    superseded_by_type = rows.superseded_by_type
FROM :rows(id bigint, superseded_by bigint, superseded_by_type text)
WHERE hook_outbox.id = rows.id AND hook_outbox.status IN ('pending', 'failed')

-- name: take_rows bears_damage
-- What was too large, or too far behind, to be read in `heads`. Rows are read under the strands' locks and not marked: the strand
-- says which are held, and each counts an attempt when it ends.
SELECT q.id, q.session_id, q.seq, q.event_type, q.created_at, q.attempt_count + 1, q.last_error, q.payload, q.took_effect,
    q.checksum, q.trace
FROM hook_outbox q WHERE q.id :in(ids bigint)

-- name: take_strands
UPDATE hook_strand
SET token = rows.token, due_at = NULL, locked_at = :now, lease_until = :lease_until, holder = :holder,
    head_seq = rows.head_seq, held_seq = rows.held_seq, held_count = rows.held, open_count = hook_strand.open_count - rows.superseded
FROM :rows(session_id text, token bigint, head_seq bigint, held_seq bigint, held bigint, superseded bigint)
WHERE hook_strand.session_id = rows.session_id

-- name: empty_strands
UPDATE hook_strand SET head_seq = NULL, due_at = NULL, open_count = 0, failing = 0, failing_since = NULL
WHERE session_id :in(session_ids text)

-- name: held_by bears_damage
-- What one holder has in flight: its strands first, whatever was delivered before.
SELECT q.id, s.session_id, q.seq, q.event_type, q.created_at, q.attempt_count + 1, q.last_error, q.payload, q.took_effect,
    q.checksum, q.trace, s.token
FROM hook_strand s
CROSS JOIN hook_outbox q
WHERE q.session_id = s.session_id AND q.seq >= s.head_seq AND q.seq <= s.held_seq
    AND s.lease_until IS NOT NULL AND s.holder = :holder AND q.status IN ('pending', 'failed')

-- name: settle_rows
-- Fenced by the strand, which is locked and still held under the token of the claim.
UPDATE hook_outbox
SET status = rows.status, delivered_at = rows.delivered_at, last_error = rows.last_error,
    next_attempt_at = rows.next_attempt_at, attempt_count = hook_outbox.attempt_count + rows.counted,
    took_effect = CASE WHEN rows.delivered_at IS NULL THEN hook_outbox.took_effect ELSE 1 END
FROM :rows(id bigint, status text, delivered_at instant, next_attempt_at instant, last_error text, counted bigint)
WHERE hook_outbox.id = rows.id

-- name: deliver_rows
-- The same where each of them was delivered: far less to say, and to read, than six columns.
UPDATE hook_outbox
SET status = 'delivered', delivered_at = :now, last_error = NULL, next_attempt_at = NULL,
    attempt_count = attempt_count + 1, took_effect = 1
WHERE id :in(ids bigint)

-- name: open_rows
-- Which of these rows are still open, on idx_hook_outbox_order; read after the strands' locks, as in `window`.
SELECT q.session_id FROM :rows(session_id text, seq bigint)
JOIN hook_outbox q ON q.session_id = rows.session_id AND q.seq = rows.seq
WHERE q.status IN ('pending', 'failed')

-- name: first_open
-- The oldest open row behind one that ended, where rows between them have ended too; on idx_hook_outbox_order.
SELECT seq FROM hook_outbox
WHERE session_id = :session_id AND seq > :seq AND status IN ('pending', 'failed')
ORDER BY session_id, seq LIMIT 1

-- name: settle_strands
UPDATE hook_strand
SET head_seq = rows.head_seq, due_at = rows.due_at, open_count = hook_strand.open_count - rows.ended,
    lease_until = CASE WHEN rows.ends = 1 THEN NULL ELSE hook_strand.lease_until END,
    holder = CASE WHEN rows.ends = 1 THEN NULL ELSE hook_strand.holder END,
    held_count = CASE WHEN rows.ends = 1 THEN 0 ELSE hook_strand.held_count - rows.ended END,
    failing = rows.failing, failing_since = CASE WHEN rows.failing = 1 THEN COALESCE(hook_strand.failing_since, :now) END
FROM :rows(session_id text, head_seq bigint, due_at instant, ends bigint, ended bigint, failing bigint)
WHERE hook_strand.session_id = rows.session_id

-- name: advance_agents
-- What the events said; what they did not mention stays.
INSERT INTO agent_state (session_id, turn, last_activity, last_user_input, last_user_input_at, last_turn_completed_at,
    last_summary, last_notification, last_error, transcript_path)
SELECT rows.session_id, rows.turn, rows.last_activity, rows.last_user_input, rows.last_user_input_at,
    rows.last_turn_completed_at, rows.last_summary, rows.last_notification, rows.last_error, rows.transcript_path
FROM :rows(session_id text, turn text, last_activity instant, last_user_input text, last_user_input_at instant, last_turn_completed_at instant, last_summary text, last_notification text, last_error text, transcript_path text)
WHERE true
ON CONFLICT (session_id) DO UPDATE SET
    turn = COALESCE(excluded.turn, agent_state.turn),
    last_activity = CASE WHEN excluded.last_activity > agent_state.last_activity THEN excluded.last_activity
        ELSE agent_state.last_activity END,
    last_user_input = COALESCE(excluded.last_user_input, agent_state.last_user_input),
    last_user_input_at = COALESCE(excluded.last_user_input_at, agent_state.last_user_input_at),
    last_turn_completed_at = COALESCE(excluded.last_turn_completed_at, agent_state.last_turn_completed_at),
    last_summary = COALESCE(excluded.last_summary, agent_state.last_summary),
    last_notification = COALESCE(excluded.last_notification, agent_state.last_notification),
    last_error = COALESCE(excluded.last_error, agent_state.last_error),
    transcript_path = COALESCE(excluded.transcript_path, agent_state.transcript_path)

-- name: agent_state
SELECT turn, last_activity, last_user_input, last_user_input_at, last_turn_completed_at, last_summary,
    last_notification, last_error, transcript_path
FROM agent_state WHERE session_id = :session_id

-- name: earliest_due bears_damage
SELECT due_at FROM hook_strand WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1

-- name: pull_in
-- A due time further away than the longest wait comes from a clock that was set: it is cut to that wait.
UPDATE hook_strand SET due_at = :horizon WHERE due_at > :horizon RETURNING session_id, head_seq

-- name: pull_in_rows
UPDATE hook_outbox SET next_attempt_at = :horizon FROM :rows(session_id text, seq bigint)
WHERE hook_outbox.session_id = rows.session_id AND hook_outbox.seq = rows.seq AND hook_outbox.next_attempt_at > :horizon

-- name: hasten
UPDATE hook_strand SET due_at = :now WHERE session_id = :session_id AND due_at > :now

-- name: hasten_row
UPDATE hook_outbox SET next_attempt_at = :now WHERE id = :id AND next_attempt_at > :now

-- name: revive
-- A dead event goes again behind all that its session has waiting: those in front of it have been delivered long ago.
UPDATE hook_outbox SET status = 'pending', seq = :seq, delivered_at = NULL, next_attempt_at = :now WHERE id = :id

-- name: oldest_rows bears_damage
-- A stretch of the table by age, on its primary key: ids grow with time.
SELECT id, created_at, delivered_at FROM hook_outbox WHERE id > :after ORDER BY id LIMIT :limit

-- name: prune
-- Only what has ended.
DELETE FROM hook_outbox WHERE id :in(ids bigint) AND status IN ('delivered', 'superseded', 'dead') RETURNING id

-- name: get bears_damage
SELECT id, session_id, seq, event_type, status, created_at, next_attempt_at, locked_at, delivered_at, attempt_count,
    superseded_by, superseded_by_type, last_error, payload
FROM hook_event WHERE id = :id

-- name: list bears_damage
SELECT id, session_id, seq, event_type, status, created_at, next_attempt_at, locked_at, delivered_at, attempt_count,
    superseded_by, superseded_by_type, last_error, payload
FROM hook_event WHERE id > :after AND (:status = '' OR status = :status) ORDER BY id LIMIT :limit

-- name: list_dead bears_damage
SELECT id, session_id, seq, event_type, status, created_at, next_attempt_at, locked_at, delivered_at, attempt_count,
    superseded_by, superseded_by_type, last_error, payload
FROM hook_outbox WHERE status = 'dead' AND id > :after ORDER BY id LIMIT :limit

-- name: list_open bears_damage
-- What has not ended stands from the heads on: found there, however much has ended before. The sum keeps it off the ids.
SELECT q.id, q.session_id, q.seq, q.event_type, q.status, q.created_at, q.next_attempt_at, q.locked_at, q.delivered_at,
    q.attempt_count, q.superseded_by, q.superseded_by_type, q.last_error, q.payload
FROM hook_strand s CROSS JOIN hook_event q
WHERE s.head_seq IS NOT NULL AND q.session_id = s.session_id AND q.seq >= s.head_seq AND q.id + 0 > :after
    AND q.status = :status
ORDER BY q.id + 0 LIMIT :limit

-- name: list_open postgres bears_damage
SELECT q.id, q.session_id, q.seq, q.event_type, q.status, q.created_at, q.next_attempt_at, q.locked_at, q.delivered_at,
    q.attempt_count, q.superseded_by, q.superseded_by_type, q.last_error, q.payload
FROM hook_strand s
CROSS JOIN LATERAL (
    SELECT * FROM hook_event o
    WHERE o.session_id = s.session_id AND o.seq >= s.head_seq AND o.id > :after AND o.status = :status OFFSET 0
) AS q
WHERE s.head_seq IS NOT NULL
ORDER BY q.id LIMIT :limit

-- name: list_session bears_damage
SELECT id, session_id, seq, event_type, status, created_at, next_attempt_at, locked_at, delivered_at, attempt_count,
    superseded_by, superseded_by_type, last_error, payload
FROM hook_event
WHERE session_id = :session_id AND seq > :after AND (:status = '' OR status = :status)
ORDER BY seq LIMIT :limit

-- name: all_counts
SELECT COALESCE(sum(open_count), 0), COALESCE(sum(held_count), 0),
    COALESCE(sum(CASE WHEN lease_until IS NULL THEN failing ELSE 0 END), 0)
FROM hook_strand WHERE head_seq IS NOT NULL

-- name: count_dead
SELECT count(*) FROM hook_outbox WHERE status = 'dead'

-- name: oldest sqlite bears_damage
-- The oldest open event is the head of some strand; a time that was damaged on disk is none.
SELECT min((SELECT q.created_at FROM hook_outbox q WHERE q.session_id = s.session_id AND q.seq = s.head_seq
    AND q.created_at GLOB '????-??-??T*[0-9]Z' AND date(q.created_at) = substr(q.created_at, 1, 10)))
FROM hook_strand s WHERE s.head_seq IS NOT NULL

-- name: oldest postgres
SELECT min((SELECT q.created_at FROM hook_outbox q WHERE q.session_id = s.session_id AND q.seq = s.head_seq))
FROM hook_strand s WHERE s.head_seq IS NOT NULL

-- name: delivered_since bears_damage
-- Ids alone, on idx_hook_outbox_delivered.
SELECT id, delivered_at FROM hook_outbox
WHERE status = 'delivered' AND delivered_at >= :since ORDER BY delivered_at, id LIMIT :limit

-- name: delivered bears_damage
SELECT id, session_id, event_type, payload, attempt_count, checksum, delivered_at, seq FROM hook_outbox WHERE id :in(ids bigint)
ORDER BY delivered_at, seq, id
