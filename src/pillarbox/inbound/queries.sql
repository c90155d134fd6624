-- name: open_strand
-- A session has one strand for its whole life.
INSERT INTO inbound_strand (session_id, destination, served_by, state, next_seq, token)
VALUES (:session_id, :destination, :served_by, :state, 1, 0)

-- name: change_strand
UPDATE inbound_strand SET destination = :destination, served_by = :served_by, state = :state WHERE session_id = :session_id

-- name: change_state
UPDATE inbound_strand SET state = :state WHERE session_id = :session_id

-- name: lock_strands bears_damage
-- Whoever writes a strand or its rows holds the strand first, several in the order of their ids, so that nobody deadlocks.
SELECT session_id, state, next_seq, head_seq, token, CASE WHEN lease_until IS NULL THEN 0 ELSE 1 END, open_count
FROM inbound_strand WHERE session_id :in(session_ids text)
ORDER BY session_id :lock(inbound_strand)

-- name: duplicates
-- A source id names one message of its origin for ever; on idx_inbound_queue_source_dedup.
SELECT q.origin, q.source_message_id, q.id, q.seq, q.status, q.session_id, q.message_type, q.content
FROM :rows(origin text, source_message_id text)
JOIN inbound_queue q ON q.origin = rows.origin AND q.source_message_id = rows.source_message_id

-- name: insert
-- `seq` was taken under the strand's lock; only the dedup index may refuse a row without a word.
INSERT INTO inbound_queue
    (session_id, seq, origin, message_type, content, payload_json, actor_id, actor_name, actor_avatar_url,
     source_message_id, source_channel_id, created_at, checksum, trace)
SELECT rows.session_id, rows.seq, rows.origin, rows.message_type, rows.content, rows.payload_json, rows.actor_id,
       rows.actor_name, rows.actor_avatar_url, rows.source_message_id, rows.source_channel_id, rows.created_at, rows.checksum,
       rows.trace
FROM :rows(session_id text, seq bigint, origin text, message_type text, content text, payload_json text, actor_id text, actor_name text, actor_avatar_url text, source_message_id text, source_channel_id text, created_at instant, checksum bigint, trace text)
WHERE true
ON CONFLICT (origin, source_message_id) WHERE source_message_id IS NOT NULL DO NOTHING
RETURNING session_id, seq, id

-- name: stored
-- What stands at these places, where an insert took effect and nobody heard its answer; on idx_inbound_queue_order.
SELECT q.session_id, q.seq, q.id FROM :rows(session_id text, seq bigint)
JOIN inbound_queue q ON q.session_id = rows.session_id AND q.seq = rows.seq

-- name: lengthen
-- An empty strand gets its first row as head; any other keeps the head it has.
UPDATE inbound_strand
SET next_seq = rows.next_seq,
    open_count = inbound_strand.open_count + rows.added,
    head_seq = COALESCE(inbound_strand.head_seq, rows.head_seq),
    due_at = CASE WHEN inbound_strand.head_seq IS NULL THEN rows.due_at ELSE inbound_strand.due_at END
FROM :rows(session_id text, next_seq bigint, added bigint, head_seq bigint, due_at instant)
WHERE inbound_strand.session_id = rows.session_id

-- name: outlived
-- Which of these rows have outlived too many workers; asked before `rescue_rows`, and answered by the names in the question, for
-- those in the rows may have been damaged on disk.
SELECT rows.session_id FROM :rows(session_id text, seq bigint)
JOIN inbound_queue q ON q.session_id = rows.session_id AND q.seq = rows.seq
WHERE q.status IN ('processing') AND q.death_count + 1 >= :deaths

-- name: rescue_rows
-- A row whose worker went away waits like any failed one, and the longest step once it has outlived too many workers.
UPDATE inbound_queue
SET status = 'failed', locked_at = NULL, death_count = inbound_queue.death_count + 1,
    last_error = 'The process that was delivering it went away; deaths so far: ' || (inbound_queue.death_count + 1) || '.',
    next_retry_at = CASE WHEN inbound_queue.death_count + 1 >= :deaths THEN :later ELSE :now END
FROM :rows(session_id text, seq bigint)
WHERE inbound_queue.session_id = rows.session_id AND inbound_queue.seq = rows.seq AND inbound_queue.status = 'processing'

-- name: rescue_strands
UPDATE inbound_strand
SET lease_until = NULL, holder = NULL, failing = 1, failing_since = COALESCE(inbound_strand.failing_since, :now),
    due_at = rows.due_at
FROM :rows(session_id text, due_at instant) WHERE inbound_strand.session_id = rows.session_id

-- name: due_heads bears_damage
-- Heads only, the longest due first, on idx_inbound_strand_due.
SELECT s.session_id, s.destination, s.token, s.head_seq, sessions.target, s.state, s.next_seq, s.open_count
FROM inbound_strand s JOIN sessions ON sessions.session_id = s.session_id
WHERE s.served_by = :served_by AND s.due_at <= :now AND s.destination :not_in(full text)
ORDER BY s.due_at LIMIT :limit :skip_locked(s)

-- name: due_destinations bears_damage
-- When a destination is full its heads must not be waded through: skips from destination to destination, a bounded number of
-- them from where the last look ended, on idx_inbound_strand_destination.
WITH RECURSIVE walk(destination, steps) AS (
    SELECT (SELECT min(s.destination) FROM inbound_strand s
            WHERE s.served_by = :served_by AND s.due_at IS NOT NULL AND s.destination > :after), 1
    UNION ALL
    SELECT (SELECT min(s.destination) FROM inbound_strand s
            WHERE s.served_by = :served_by AND s.due_at IS NOT NULL AND s.destination > walk.destination), walk.steps + 1
    FROM walk WHERE walk.destination IS NOT NULL AND walk.steps < :steps
)
SELECT walk.destination, CASE WHEN walk.destination :not_in(full text) AND EXISTS (
    SELECT 1 FROM inbound_strand s
    WHERE s.served_by = :served_by AND s.destination = walk.destination AND s.due_at <= :now) THEN 1 ELSE 0 END
FROM walk WHERE walk.destination IS NOT NULL

-- name: due_heads_of bears_damage
SELECT s.session_id, s.destination, s.token, s.head_seq, sessions.target, s.state, s.next_seq, s.open_count
FROM inbound_strand s JOIN sessions ON sessions.session_id = s.session_id
WHERE s.served_by = :served_by AND s.destination = :destination AND s.due_at <= :now
ORDER BY s.due_at LIMIT :limit :skip_locked(s)

-- name: take_strands
UPDATE inbound_strand SET token = rows.token, due_at = NULL, lease_until = :lease_until, holder = :holder
FROM :rows(session_id text, token bigint) WHERE inbound_strand.session_id = rows.session_id

-- name: take_rows
-- The attempt is counted now, so that a message which kills its worker every time is still counted.
UPDATE inbound_queue
SET status = 'processing', locked_at = :now, next_retry_at = NULL, token = rows.token,
    attempt_count = inbound_queue.attempt_count + 1
FROM :rows(session_id text, seq bigint, token bigint)
WHERE inbound_queue.session_id = rows.session_id AND inbound_queue.seq = rows.seq
RETURNING inbound_queue.id, inbound_queue.session_id, inbound_queue.seq, inbound_queue.origin, inbound_queue.message_type,
    inbound_queue.content, inbound_queue.payload_json, inbound_queue.actor_id, inbound_queue.actor_name,
    inbound_queue.actor_avatar_url, inbound_queue.status, inbound_queue.created_at, inbound_queue.processed_at,
    inbound_queue.attempt_count, inbound_queue.death_count, inbound_queue.next_retry_at, inbound_queue.last_error,
    inbound_queue.locked_at, inbound_queue.source_message_id, inbound_queue.source_channel_id, inbound_queue.token,
    inbound_queue.confirmed_at, inbound_queue.checksum, inbound_queue.trace

-- name: taken_rows bears_damage
-- The same of rows that were taken, where nobody heard the answer to that; as they are by now.
SELECT q.id, rows.session_id, q.seq, q.origin, q.message_type,
    q.content, q.payload_json, q.actor_id, q.actor_name,
    q.actor_avatar_url, q.status, q.created_at, q.processed_at,
    q.attempt_count, q.death_count, q.next_retry_at, q.last_error,
    q.locked_at, q.source_message_id, q.source_channel_id, q.token,
    q.confirmed_at, q.checksum, q.trace
FROM :rows(session_id text, seq bigint)
JOIN inbound_queue q ON q.session_id = rows.session_id AND q.seq = rows.seq

-- name: held_by bears_damage
-- What one holder has in flight, on idx_inbound_strand_lease.
SELECT q.id, s.session_id, q.seq, q.origin, q.message_type,
    q.content, q.payload_json, q.actor_id, q.actor_name,
    q.actor_avatar_url, q.status, q.created_at, q.processed_at,
    q.attempt_count, q.death_count, q.next_retry_at, q.last_error,
    q.locked_at, q.source_message_id, q.source_channel_id, q.token, q.confirmed_at,
    s.destination, s.token
FROM inbound_strand s JOIN inbound_queue q ON q.session_id = s.session_id AND q.seq = s.head_seq
WHERE s.lease_until IS NOT NULL AND s.holder = :holder

-- name: settle_rows
-- Fenced: the token must still be the one the row was claimed under.
UPDATE inbound_queue
SET status = rows.status, processed_at = rows.processed_at, next_retry_at = rows.next_retry_at,
    last_error = rows.last_error, locked_at = NULL, attempt_count = inbound_queue.attempt_count - rows.given_back
FROM :rows(id bigint, token bigint, status text, processed_at instant, next_retry_at instant, last_error text, given_back bigint)
WHERE inbound_queue.id = rows.id AND inbound_queue.token = rows.token

-- name: open_rows
-- Which of these rows are still open, on idx_inbound_queue_order; read after the strand's lock, never in the same statement,
-- whose snapshot could miss a row that was enqueued while it waited.
SELECT q.session_id FROM :rows(session_id text, seq bigint)
JOIN inbound_queue q ON q.session_id = rows.session_id AND q.seq = rows.seq
WHERE q.status IN ('pending', 'failed')

-- name: first_open
-- The oldest open row behind one that ended, where rows between them have ended too; on idx_inbound_queue_order.
SELECT seq FROM inbound_queue
WHERE session_id = :session_id AND seq > :seq AND status IN ('pending', 'failed')
ORDER BY session_id, seq LIMIT 1

-- name: settle_strands
UPDATE inbound_strand
SET lease_until = NULL, holder = NULL, head_seq = rows.head_seq, due_at = rows.due_at, failing = rows.failing,
    failing_since = CASE WHEN rows.failing = 1 THEN COALESCE(inbound_strand.failing_since, :now) END,
    open_count = inbound_strand.open_count - rows.ended,
    last_message_sent = COALESCE(rows.sent, inbound_strand.last_message_sent),
    last_input_origin = COALESCE(rows.origin, inbound_strand.last_input_origin),
    last_activity = COALESCE(rows.active_at, inbound_strand.last_activity)
FROM :rows(session_id text, head_seq bigint, due_at instant, failing bigint, ended bigint, sent text, origin text, active_at instant)
WHERE inbound_strand.session_id = rows.session_id

-- name: expire_open
-- Open rows stand from the head on, on idx_inbound_queue_order.
UPDATE inbound_queue
SET status = 'expired', processed_at = :now, locked_at = NULL, next_retry_at = NULL,
    last_error = COALESCE(:reason, last_error)
WHERE session_id = :session_id AND seq >= :head_seq AND status IN ('pending', 'processing', 'failed')

-- name: close_strand
-- The token grows, so that whoever still delivers can no longer report anything.
UPDATE inbound_strand
SET state = 'closed', head_seq = NULL, due_at = NULL, lease_until = NULL, holder = NULL, token = token + 1,
    open_count = 0, failing = 0, failing_since = NULL
WHERE session_id = :session_id

-- name: hasten
-- Makes a waiting head due; one in flight is left alone.
UPDATE inbound_strand SET due_at = :now WHERE session_id = :session_id AND due_at > :now

-- name: postpone
-- A session that is starting gets its time before its head counts as failed; one in flight is left alone.
UPDATE inbound_strand SET due_at = :due_at WHERE session_id = :session_id AND due_at < :due_at

-- name: hasten_row
UPDATE inbound_queue SET next_retry_at = :now
WHERE session_id = :session_id AND seq = :seq AND status IN ('pending', 'failed') AND next_retry_at > :now

-- name: expire_row
UPDATE inbound_queue
SET status = 'expired', processed_at = :now, locked_at = NULL, next_retry_at = NULL,
    last_error = COALESCE(last_error, 'Expired by an operator.')
WHERE id = :id

-- name: replace_head
-- The token grows: a delivery under way can no longer report anything.
UPDATE inbound_strand
SET head_seq = :head_seq, due_at = :due_at, lease_until = NULL, holder = NULL, token = token + 1,
    open_count = open_count - 1, failing = 0, failing_since = NULL
WHERE session_id = :session_id

-- name: shorten
-- A row behind the head was given up.
UPDATE inbound_strand SET open_count = open_count - 1 WHERE session_id = :session_id

-- name: earliest_due bears_damage
SELECT due_at FROM inbound_strand WHERE served_by = :served_by AND due_at IS NOT NULL ORDER BY due_at LIMIT 1

-- name: pull_in
-- A due time further away than the longest wait comes from a clock that was set: it is cut to that wait.
UPDATE inbound_strand SET due_at = :horizon WHERE served_by = :served_by AND due_at > :horizon
RETURNING session_id, head_seq

-- name: pull_in_rows
UPDATE inbound_queue SET next_retry_at = :horizon FROM :rows(session_id text, seq bigint)
WHERE inbound_queue.session_id = rows.session_id AND inbound_queue.seq = rows.seq
    AND inbound_queue.next_retry_at > :horizon

-- name: served bears_damage
SELECT DISTINCT served_by FROM inbound_strand WHERE due_at IS NOT NULL

-- name: oldest_rows bears_damage
-- A stretch of the table by age, on its primary key: ids grow with time.
SELECT id, origin, created_at, processed_at FROM inbound_queue WHERE id > :after ORDER BY id LIMIT :limit

-- name: prune
-- Only what has ended.
DELETE FROM inbound_queue WHERE id :in(ids bigint) AND status IN ('delivered', 'expired') RETURNING id

-- name: get bears_damage
SELECT id, session_id, seq, origin, message_type, content, payload_json, actor_id, actor_name, actor_avatar_url, status,
    created_at, processed_at, attempt_count, death_count, next_retry_at, last_error, locked_at, source_message_id,
    source_channel_id, token, confirmed_at
FROM inbound_queue WHERE id = :id

-- name: list bears_damage
SELECT id, session_id, seq, origin, message_type, content, payload_json, actor_id, actor_name, actor_avatar_url, status,
    created_at, processed_at, attempt_count, death_count, next_retry_at, last_error, locked_at, source_message_id,
    source_channel_id, token, confirmed_at
FROM inbound_queue
WHERE id > :after AND (:status = '' OR status = :status)
ORDER BY id LIMIT :limit

-- name: list_open bears_damage
-- What has not ended stands from the heads on: found there, however much has ended before. The sum keeps it off the ids.
SELECT q.id, q.session_id, q.seq, q.origin, q.message_type, q.content, q.payload_json, q.actor_id, q.actor_name,
    q.actor_avatar_url, q.status, q.created_at, q.processed_at, q.attempt_count, q.death_count, q.next_retry_at,
    q.last_error, q.locked_at, q.source_message_id, q.source_channel_id, q.token, q.confirmed_at
FROM inbound_strand s CROSS JOIN inbound_queue q
WHERE s.head_seq IS NOT NULL AND q.session_id = s.session_id AND q.seq >= s.head_seq AND q.id + 0 > :after
    AND q.status = :status
ORDER BY q.id + 0 LIMIT :limit

-- name: list_open postgres bears_damage
SELECT q.id, q.session_id, q.seq, q.origin, q.message_type, q.content, q.payload_json, q.actor_id, q.actor_name,
    q.actor_avatar_url, q.status, q.created_at, q.processed_at, q.attempt_count, q.death_count, q.next_retry_at,
    q.last_error, q.locked_at, q.source_message_id, q.source_channel_id, q.token, q.confirmed_at
FROM inbound_strand s
CROSS JOIN LATERAL (
    SELECT * FROM inbound_queue o
    WHERE o.session_id = s.session_id AND o.seq >= s.head_seq AND o.id > :after AND o.status = :status OFFSET 0
) AS q
WHERE s.head_seq IS NOT NULL
ORDER BY q.id LIMIT :limit

-- name: list_heads bears_damage
-- Only a head can be in flight or failing.
SELECT q.id, q.session_id, q.seq, q.origin, q.message_type, q.content, q.payload_json, q.actor_id, q.actor_name,
    q.actor_avatar_url, q.status, q.created_at, q.processed_at, q.attempt_count, q.death_count, q.next_retry_at,
    q.last_error, q.locked_at, q.source_message_id, q.source_channel_id, q.token, q.confirmed_at
FROM inbound_strand s JOIN inbound_queue q ON q.session_id = s.session_id AND q.seq = s.head_seq
WHERE s.head_seq IS NOT NULL AND q.id > :after AND q.status = :status
ORDER BY q.id LIMIT :limit

-- name: list_session bears_damage
SELECT id, session_id, seq, origin, message_type, content, payload_json, actor_id, actor_name, actor_avatar_url, status,
    created_at, processed_at, attempt_count, death_count, next_retry_at, last_error, locked_at, source_message_id,
    source_channel_id, token, confirmed_at
FROM inbound_queue
WHERE session_id = :session_id AND seq > :after AND (:status = '' OR status = :status)
ORDER BY seq LIMIT :limit

-- name: strand
SELECT head_seq, open_count, failing, CASE WHEN lease_until IS NULL THEN 0 ELSE 1 END,
    last_message_sent, last_input_origin, last_activity
FROM inbound_strand WHERE session_id = :session_id

-- name: head
SELECT id, seq, status, attempt_count, last_error, next_retry_at FROM inbound_queue
WHERE session_id = :session_id AND seq = :seq

-- name: all_counts
-- Only a head can be in flight or failing, so that the strands know it all.
SELECT COALESCE(sum(open_count), 0), count(lease_until), COALESCE(sum(CASE WHEN lease_until IS NULL THEN failing ELSE 0 END), 0)
FROM inbound_strand WHERE head_seq IS NOT NULL

-- name: oldest sqlite bears_damage
-- The oldest open message is the head of some strand; a time that was damaged on disk is none.
SELECT min((SELECT q.created_at FROM inbound_queue q WHERE q.session_id = s.session_id AND q.seq = s.head_seq
    AND q.created_at GLOB '????-??-??T*[0-9]Z' AND date(q.created_at) = substr(q.created_at, 1, 10)))
FROM inbound_strand s WHERE s.head_seq IS NOT NULL

-- name: oldest postgres
SELECT min((SELECT q.created_at FROM inbound_queue q WHERE q.session_id = s.session_id AND q.seq = s.head_seq))
FROM inbound_strand s WHERE s.head_seq IS NOT NULL

-- name: unconfirmed
-- What a session was given last and nobody has confirmed, newest first, on idx_inbound_queue_order.
SELECT id, content FROM inbound_queue
WHERE session_id = :session_id AND seq >= :from_seq AND status IN ('processing', 'delivered') AND confirmed_at IS NULL
ORDER BY session_id DESC, seq DESC

-- name: confirm
UPDATE inbound_queue SET confirmed_at = :now WHERE id :in(ids bigint)

-- name: enrich
-- Fenced: only whoever delivers a message learns more about it.
UPDATE inbound_queue SET message_type = :message_type, content = :content, payload_json = :payload_json, checksum = :checksum
WHERE id = :id AND token = :token AND status = 'processing'

-- name: endings
SELECT id, status, processed_at FROM inbound_queue WHERE id :in(ids bigint)
