-- name: begin
-- A session has one conversation; whatever was said to it before is known to its chats already.
INSERT INTO conversation (session_id, heard_seq, source)
VALUES (:session_id, COALESCE((SELECT next_seq - 1 FROM inbound_strand WHERE session_id = :session_id), 0), :source)
ON CONFLICT (session_id) DO NOTHING

-- name: lock
-- Whoever adds lines or chats to a conversation holds its row.
SELECT next_seq, heard_seq, shared, source, head, position, told_until, left_source, left_head, left_position, left_at
FROM conversation
WHERE session_id = :session_id :lock(conversation)

-- name: share
-- Whether more than one chat listens, so that each is told what people say in the others, from now on.
UPDATE conversation SET shared = :shared,
    heard_seq = CASE WHEN shared = :shared THEN heard_seq
        ELSE COALESCE((SELECT next_seq - 1 FROM inbound_strand WHERE session_id = :session_id), 0) END
WHERE session_id = :session_id

-- name: watch_pane
UPDATE conversation SET source = :source, head = NULL, position = 0,
    left_source = NULL, left_head = NULL, left_position = 0, left_at = NULL
WHERE session_id = :session_id AND COALESCE(source, '') <> COALESCE(:source, '')

-- name: add_chats
-- A chat is told what is said from now on. One that has joined is not among the session's channels, but has written to it as
-- the default session: joined is 1 for a guest, who is told its own answers, and 2 for one that is told everything.
INSERT INTO conversation_chat (session_id, origin, channel_id, seq, joined)
SELECT rows.session_id, rows.origin, rows.channel_id, rows.seq, :joined
FROM :rows(session_id text, origin text, channel_id text, seq bigint) WHERE true
ON CONFLICT (session_id, origin, channel_id) DO NOTHING

-- name: own_chat
-- A chat that had joined is among the session's channels now; what a guest was not told before is not told now.
UPDATE conversation_chat SET joined = 0, seq = CASE WHEN joined = 1 AND behind = 0
        THEN (SELECT next_seq FROM conversation WHERE session_id = :session_id) ELSE seq END,
    position = CASE WHEN joined = 1 AND behind = 0 THEN 0 ELSE position END
WHERE session_id = :session_id AND origin = :origin AND channel_id = :channel_id

-- name: how_joined
SELECT joined FROM conversation_chat WHERE session_id = :session_id AND origin = :origin AND channel_id = :channel_id

-- name: change_joined
-- A chat that has joined is told more, or less, from now on.
UPDATE conversation_chat SET joined = :joined, seq = CASE WHEN behind = 1 THEN seq ELSE :seq END,
    position = CASE WHEN behind = 1 THEN position ELSE 0 END
WHERE session_id = :session_id AND origin = :origin AND channel_id = :channel_id AND joined NOT IN (0, :joined)

-- name: forget_guest
-- The guest that was told something longest ago gives up its place, unless it waits for an answer.
DELETE FROM conversation_chat WHERE (session_id, origin, channel_id) IN (
    SELECT session_id, origin, channel_id FROM conversation_chat
    WHERE session_id = :session_id AND joined = 1 AND behind = 0 AND (origin, channel_id) NOT IN (
        SELECT q.origin, q.source_channel_id FROM inbound_queue q WHERE q.session_id = :session_id
            AND q.seq >= (SELECT COALESCE(head_seq, next_seq) - 1 FROM inbound_strand WHERE session_id = :session_id)
            AND q.source_channel_id IS NOT NULL)
    ORDER BY seq LIMIT 1)
RETURNING seq

-- name: asked
-- What the agent was given last, in order, up to that message; on idx_inbound_queue_order.
SELECT seq, origin, source_channel_id, confirmed_at FROM inbound_queue
WHERE session_id = :session_id AND seq > :turn - 50 AND seq <= :turn AND status <> 'expired' ORDER BY session_id, seq

-- name: own_turns
-- Which of these messages came from a chat; on idx_inbound_queue_order.
SELECT seq FROM inbound_queue
WHERE session_id = :session_id AND seq :in(turns bigint) AND origin = :origin AND source_channel_id = :channel_id

-- name: chats
SELECT origin, channel_id, joined FROM conversation_chat WHERE session_id = :session_id

-- name: listens_elsewhere
-- On idx_conversation_chat_listening.
SELECT session_id FROM conversation_chat
WHERE origin = :origin AND channel_id = :channel_id AND joined = 2 AND session_id <> :session_id

-- name: leave_others
-- A chat listens where it has written last. Elsewhere it is a guest from then on, and is still told the answers to its own
-- messages; on idx_conversation_chat_listening.
UPDATE conversation_chat SET joined = 1
WHERE origin = :origin AND channel_id = :channel_id AND joined = 2 AND session_id <> :session_id

-- name: is_open
SELECT session_id FROM sessions WHERE session_id = :session_id AND lifecycle_status <> 'closed'

-- name: remove_chat
DELETE FROM conversation_chat WHERE session_id = :session_id AND origin = :origin AND channel_id = :channel_id

-- name: leave
DELETE FROM conversation_chat
WHERE session_id = :session_id AND origin = :origin AND channel_id = :channel_id AND joined > 0

-- name: followed
-- The agents of this node whose words are in a file or in their last summary, the busiest first; walks idx_sessions_open.
SELECT s.session_id, a.transcript_path, a.turn, s.created_at, c.source, c.head, c.position, c.told_until,
    a.last_summary, a.last_turn_completed_at, c.left_source, c.left_head, c.left_position, c.left_at, s.closed_at
FROM sessions s JOIN agent_state a ON a.session_id = s.session_id
JOIN inbound_strand i ON i.session_id = s.session_id
LEFT JOIN conversation c ON c.session_id = s.session_id
WHERE s.lifecycle_status <> 'closed' AND (i.served_by NOT LIKE 'node:%' OR i.served_by = :served_by)
ORDER BY a.last_activity DESC LIMIT :limit

-- name: ending
-- Those whose sessions were closed, whose last words may not have been read; on idx_conversation_ending. After a long time
-- they are any node's: their own will not come back.
SELECT s.session_id, a.transcript_path, a.turn, s.created_at, c.source, c.head, c.position, c.told_until,
    a.last_summary, a.last_turn_completed_at, c.left_source, c.left_head, c.left_position, c.left_at, s.closed_at
FROM conversation c JOIN sessions s ON s.session_id = c.session_id
LEFT JOIN agent_state a ON a.session_id = c.session_id
JOIN inbound_strand i ON i.session_id = c.session_id
WHERE c.ending = 1 AND (i.served_by NOT LIKE 'node:%' OR i.served_by = :served_by OR s.closed_at < :closed_before)
ORDER BY c.session_id LIMIT :limit

-- name: begin_ending
-- A close leaves the last words of an agent to be read, also of one that had said nothing before.
INSERT INTO conversation (session_id, ending)
SELECT session_id, 1 FROM agent_state WHERE session_id = :session_id
ON CONFLICT (session_id) DO UPDATE SET ending = 1

-- name: begin_ending_of_pane
UPDATE conversation SET ending = 1 WHERE session_id = :session_id AND source = 'pane'

-- name: leave_moved_chats
-- What a chat is told after the close of its session was said to it; one that belongs elsewhere by then was not spoken to.
DELETE FROM conversation_chat WHERE session_id = :session_id AND COALESCE((
    SELECT s.session_id FROM session_channels s
    WHERE s.origin = conversation_chat.origin AND s.channel_id = conversation_chat.channel_id),
    CASE WHEN joined > 0 THEN conversation_chat.session_id END, '') <> :session_id

-- name: end
UPDATE conversation SET ending = 0 WHERE session_id = :session_id

-- name: watched_panes
-- On idx_conversation_pane.
SELECT s.session_id, s.target, s.created_at, c.source, c.head, c.position, c.told_until
FROM conversation c JOIN sessions s ON s.session_id = c.session_id
JOIN inbound_strand i ON i.session_id = s.session_id
WHERE c.source = 'pane' AND (s.lifecycle_status <> 'closed' OR c.ending = 1) AND i.served_by = :served_by
ORDER BY c.session_id LIMIT :limit

-- name: unheard
-- Shared conversations with messages that the other chats are to know of; on idx_conversation_shared. While the next one
-- waits for its delivery there is nothing to be done.
SELECT c.session_id FROM conversation c JOIN inbound_strand s ON s.session_id = c.session_id
WHERE c.shared = 1 AND c.heard_seq < s.next_seq - 1 AND (
    SELECT q.status FROM inbound_queue q WHERE q.session_id = c.session_id AND q.seq > c.heard_seq
    ORDER BY q.session_id, q.seq LIMIT 1) IN ('delivered', 'expired')
ORDER BY c.session_id LIMIT :limit

-- name: said_by_people
-- In order, from the first that was not heard. One that was never claimed, whose token is 0, has reached nobody.
SELECT seq, status, origin, source_channel_id, actor_name, message_type, content, payload_json, token FROM inbound_queue
WHERE session_id = :session_id AND seq > :heard_seq ORDER BY session_id, seq LIMIT :limit

-- name: turn
-- By which of its messages a session's agent was last spoken to: one that was tried may have reached it.
SELECT COALESCE(CASE WHEN q.status = 'processing' OR q.attempt_count > 0 THEN s.head_seq ELSE s.head_seq - 1 END, s.next_seq - 1)
FROM inbound_strand s LEFT JOIN inbound_queue q ON q.session_id = s.session_id AND q.seq = s.head_seq
WHERE s.session_id = :session_id

-- name: add_lines
-- `turn` is by which message of the session the agent was last spoken to, of a person's words that message itself; `way` is
-- where an answer goes if not where its chat has written last.
INSERT INTO conversation_line (session_id, seq, kind, content, origin, channel_id, source_id, turn, way, said_at)
SELECT rows.session_id, rows.seq, rows.kind, rows.content, rows.origin, rows.channel_id, rows.source_id, rows.turn, rows.way, :now
FROM :rows(session_id text, seq bigint, kind text, content text, origin text, channel_id text, source_id text, turn bigint, way text)

-- name: answered
-- A command is obeyed once, however often its platform tells it; on idx_conversation_line_source.
SELECT seq FROM conversation_line WHERE origin = :origin AND source_id = :source_id

-- name: move
UPDATE conversation SET next_seq = :next_seq, heard_seq = :heard_seq, source = :source, head = :head, position = :position,
    told_until = :told_until, left_source = :left_source, left_head = :left_head, left_position = :left_position,
    left_at = :left_at
WHERE session_id = :session_id

-- name: fall_behind
UPDATE conversation_chat SET behind = 1 WHERE session_id = :session_id AND behind = 0 AND joined <> 1

-- name: guest_falls_behind
-- A guest is told of these lines; those before were not for it.
UPDATE conversation_chat SET behind = 1, seq = :seq, position = 0
WHERE session_id = :session_id AND origin = :origin AND channel_id = :channel_id AND behind = 0 AND joined = 1

-- name: due_chats
-- Chats with something to be told whose last message has left the queue, however it ended; on idx_conversation_chat_behind.
SELECT c.session_id, c.origin, c.channel_id FROM conversation_chat c
LEFT JOIN message_queue q ON q.message_id = c.message_id
WHERE c.behind = 1 AND q.message_id IS NULL ORDER BY c.session_id, c.origin, c.channel_id LIMIT :limit

-- name: lock_chat
-- A chat belongs to the session that has it among its channels, else to the one that it has joined. One that went to
-- another's channels is told no more, but for the last words of a session that was closed before.
SELECT c.seq, c.position, c.message_id, c.turn, c.first_of_turn, c.joined, c.way, c.way_seq,
    CASE WHEN COALESCE((SELECT s.session_id FROM session_channels s WHERE s.origin = c.origin AND s.channel_id = c.channel_id),
        CASE WHEN c.joined > 0 THEN c.session_id END, '') = c.session_id THEN 1
    WHEN EXISTS (SELECT 1 FROM sessions s WHERE s.session_id = c.session_id AND s.lifecycle_status = 'closed') THEN 1
    ELSE 0 END
FROM conversation_chat c
WHERE c.session_id = :session_id AND c.origin = :origin AND c.channel_id = :channel_id AND c.behind = 1 :lock(c)

-- name: on_its_way
SELECT message_id FROM message_queue WHERE message_id = :message_id

-- name: lines
SELECT session_id, seq, kind, content, origin, channel_id, said_at, turn, way FROM conversation_line
WHERE session_id = :session_id AND seq >= :seq ORDER BY session_id, seq LIMIT :limit

-- name: tell
UPDATE conversation_chat
SET seq = :seq, position = :position, message_id = :message_id, behind = :behind, turn = :turn, first_of_turn = :first_of_turn,
    way = :way, way_seq = :way_seq
WHERE session_id = :session_id AND origin = :origin AND channel_id = :channel_id

-- name: platform_id
-- What a platform calls a message that was sent to it.
SELECT provider_msg_id FROM message_history WHERE message_id = :message_id AND provider_msg_id IS NOT NULL

-- name: next_seq
SELECT next_seq FROM conversation WHERE session_id = :session_id

-- name: kept_way
SELECT way, way_seq FROM conversation_chat
WHERE session_id = :session_id AND origin = :origin AND channel_id = :channel_id

-- name: last_way
-- What the newest message of a chat that its agent was given, up to that one, says about the way to the chat. What was said
-- before `after` is known from earlier; on idx_inbound_queue_order.
SELECT payload_json FROM inbound_queue
WHERE session_id = :session_id AND seq > :after AND seq <= :until AND origin = :origin AND source_channel_id = :channel_id
    AND (status IN ('processing', 'delivered') OR attempt_count > 0)
ORDER BY session_id DESC, seq DESC LIMIT 1

-- name: any_way
-- The same of the newest message of all, where the agent was given none.
SELECT payload_json FROM inbound_queue
WHERE session_id = :session_id AND seq > :after AND origin = :origin AND source_channel_id = :channel_id
ORDER BY session_id DESC, seq DESC LIMIT 1

-- name: later_ways
-- The same of each message after that one.
SELECT seq, payload_json FROM inbound_queue
WHERE session_id = :session_id AND seq > :after AND seq <= :until AND origin = :origin AND source_channel_id = :channel_id
    AND (status IN ('processing', 'delivered') OR attempt_count > 0)
ORDER BY session_id, seq LIMIT :limit

-- name: prune
-- What every chat was told long ago, on idx_conversation_line_age.
DELETE FROM conversation_line WHERE (session_id, seq) IN (
    SELECT l.session_id, l.seq FROM conversation_line l WHERE l.said_at < :before AND NOT EXISTS (
        SELECT 1 FROM conversation_chat c WHERE c.session_id = l.session_id AND c.behind = 1 AND c.seq <= l.seq)
    ORDER BY l.said_at LIMIT :limit)
RETURNING seq

-- name: chats_and_words
-- The chats of a session that is open, but for guests; whether each is being told something, for words go before what an
-- agent is doing, whether the agent is at work by what its hooks told, to whichever process, and the last prompt of which one was shown.
SELECT c.origin, c.channel_id, CASE WHEN c.behind = 1 OR q.message_id IS NOT NULL THEN 1 ELSE 0 END, a.turn, t.prompt_id
FROM conversation_chat c JOIN sessions s ON s.session_id = c.session_id
JOIN conversation t ON t.session_id = c.session_id
LEFT JOIN agent_state a ON a.session_id = c.session_id
LEFT JOIN message_queue q ON q.message_id = c.message_id
WHERE c.session_id = :session_id AND s.lifecycle_status <> 'closed' AND c.joined <> 1
    AND COALESCE((SELECT o.session_id FROM session_channels o WHERE o.origin = c.origin AND o.channel_id = c.channel_id),
        CASE WHEN c.joined > 0 THEN c.session_id END, '') = c.session_id

-- name: show_prompt
-- Of a session's prompts the last one is shown, whichever process was told of it.
UPDATE conversation SET prompt_id = :prompt_id WHERE session_id = :session_id AND prompt_id < :prompt_id

-- name: previews
-- What is shown of turns, by whichever process.
SELECT origin, channel_id, draft, session_id, place, holder, lease_until, shown_at FROM conversation_preview
ORDER BY shown_at LIMIT :limit

-- name: note_preview
-- `place` is where it stands, where that is not the chat itself but a thread of it.
INSERT INTO conversation_preview (origin, channel_id, draft, session_id, place, holder, lease_until, shown_at)
VALUES (:origin, :channel_id, :draft, :session_id, :place, :holder, :lease_until, :now)
ON CONFLICT (origin, channel_id, draft) DO UPDATE SET holder = :holder, lease_until = :lease_until

-- name: renew_previews
UPDATE conversation_preview SET lease_until = :lease_until WHERE holder = :holder

-- name: take_preview
-- Of several that find a preview forgotten, one takes it.
UPDATE conversation_preview SET holder = :holder, lease_until = :lease_until
WHERE origin = :origin AND channel_id = :channel_id AND draft = :draft AND holder = :forgotten_by
RETURNING draft

-- name: forget_preview
DELETE FROM conversation_preview WHERE origin = :origin AND channel_id = :channel_id AND draft = :draft
