-- name: begin
-- A session has one conversation; whatever was said to it before is known to its chats already.
INSERT INTO conversation (session_id, heard_seq, source)
VALUES (:session_id, COALESCE((SELECT next_seq - 1 FROM inbound_strand WHERE session_id = :session_id), 0), :source)
ON CONFLICT (session_id) DO NOTHING

-- name: lock
-- Whoever adds lines or chats to a conversation holds its row.
SELECT next_seq, heard_seq, shared, source, head, position, told_until FROM conversation
WHERE session_id = :session_id :lock(conversation)

-- name: share
-- Whether more than one chat listens, so that each is told what people say in the others, from now on.
UPDATE conversation SET shared = :shared,
    heard_seq = CASE WHEN shared = :shared THEN heard_seq
        ELSE COALESCE((SELECT next_seq - 1 FROM inbound_strand WHERE session_id = :session_id), 0) END
WHERE session_id = :session_id

-- name: watch_pane
UPDATE conversation SET source = :source, head = NULL, position = 0
WHERE session_id = :session_id AND COALESCE(source, '') <> COALESCE(:source, '')

-- name: add_chats
-- A chat is told what is said from now on.
INSERT INTO conversation_chat (session_id, origin, channel_id, seq)
SELECT rows.session_id, rows.origin, rows.channel_id, rows.seq
FROM :rows(session_id text, origin text, channel_id text, seq bigint) WHERE true
ON CONFLICT (session_id, origin, channel_id) DO NOTHING

-- name: chats
SELECT origin, channel_id FROM conversation_chat WHERE session_id = :session_id

-- name: remove_chat
DELETE FROM conversation_chat WHERE session_id = :session_id AND origin = :origin AND channel_id = :channel_id

-- name: followed
-- The agents of this node whose words are in a file or in their last summary, the busiest first; walks idx_sessions_open.
SELECT s.session_id, a.transcript_path, a.turn, s.created_at, c.source, c.head, c.position, c.told_until,
    a.last_summary, a.last_turn_completed_at
FROM sessions s JOIN agent_state a ON a.session_id = s.session_id
JOIN inbound_strand i ON i.session_id = s.session_id
LEFT JOIN conversation c ON c.session_id = s.session_id
WHERE s.lifecycle_status <> 'closed' AND (i.served_by NOT LIKE 'node:%' OR i.served_by = :served_by)
ORDER BY a.last_activity DESC LIMIT :limit

-- name: watched_panes
-- On idx_conversation_pane.
SELECT s.session_id, s.target, s.created_at, c.source, c.head, c.position, c.told_until
FROM conversation c JOIN sessions s ON s.session_id = c.session_id
JOIN inbound_strand i ON i.session_id = s.session_id
WHERE c.source = 'pane' AND s.lifecycle_status <> 'closed' AND i.served_by = :served_by
ORDER BY c.session_id LIMIT :limit

-- name: unheard
-- Shared conversations with messages that the other chats may not know of; on idx_conversation_shared.
SELECT c.session_id FROM conversation c JOIN inbound_strand s ON s.session_id = c.session_id
WHERE c.shared = 1 AND c.heard_seq < s.next_seq - 1 ORDER BY c.session_id LIMIT :limit

-- name: said_by_people
-- In order, from the first that was not heard; one that has not ended holds back those behind it.
SELECT seq, status, origin, source_channel_id, actor_name, message_type, content, payload_json FROM inbound_queue
WHERE session_id = :session_id AND seq > :heard_seq ORDER BY session_id, seq LIMIT :limit

-- name: add_lines
INSERT INTO conversation_line (session_id, seq, kind, content, origin, channel_id, source_id, said_at)
SELECT rows.session_id, rows.seq, rows.kind, rows.content, rows.origin, rows.channel_id, rows.source_id, :now
FROM :rows(session_id text, seq bigint, kind text, content text, origin text, channel_id text, source_id text)

-- name: answered
-- A command is obeyed once, however often its platform tells it; on idx_conversation_line_source.
SELECT seq FROM conversation_line WHERE origin = :origin AND source_id = :source_id

-- name: move
UPDATE conversation SET next_seq = :next_seq, heard_seq = :heard_seq, source = :source, head = :head, position = :position,
    told_until = :told_until
WHERE session_id = :session_id

-- name: fall_behind
UPDATE conversation_chat SET behind = 1 WHERE session_id = :session_id AND behind = 0

-- name: due_chats
-- Chats with something to be told whose last message has left the queue, however it ended; on idx_conversation_chat_behind.
SELECT c.session_id, c.origin, c.channel_id FROM conversation_chat c
LEFT JOIN message_queue q ON q.message_id = c.message_id
WHERE c.behind = 1 AND q.message_id IS NULL ORDER BY c.session_id, c.origin, c.channel_id LIMIT :limit

-- name: lock_chat
SELECT c.seq, c.position, c.message_id,
    CASE WHEN EXISTS (SELECT 1 FROM session_channels s
        WHERE s.origin = c.origin AND s.channel_id = c.channel_id AND s.session_id = c.session_id) THEN 1 ELSE 0 END
FROM conversation_chat c
WHERE c.session_id = :session_id AND c.origin = :origin AND c.channel_id = :channel_id AND c.behind = 1 :lock(c)

-- name: on_its_way
SELECT message_id FROM message_queue WHERE message_id = :message_id

-- name: lines
SELECT session_id, seq, kind, content, origin, channel_id, said_at FROM conversation_line
WHERE session_id = :session_id AND seq >= :seq ORDER BY session_id, seq LIMIT :limit

-- name: tell
UPDATE conversation_chat SET seq = :seq, position = :position, message_id = :message_id, behind = :behind
WHERE session_id = :session_id AND origin = :origin AND channel_id = :channel_id

-- name: next_seq
SELECT next_seq FROM conversation WHERE session_id = :session_id

-- name: last_route
-- What the newest of a chat's messages says about the way to it, among the last of its session; on idx_inbound_queue_order.
SELECT payload_json FROM inbound_queue
WHERE session_id = :session_id AND seq >= (SELECT next_seq - 200 FROM inbound_strand WHERE session_id = :session_id)
    AND origin = :origin AND source_channel_id = :channel_id
ORDER BY session_id DESC, seq DESC LIMIT 1

-- name: prune
-- What every chat was told long ago, on idx_conversation_line_age.
DELETE FROM conversation_line WHERE (session_id, seq) IN (
    SELECT l.session_id, l.seq FROM conversation_line l WHERE l.said_at < :before AND NOT EXISTS (
        SELECT 1 FROM conversation_chat c WHERE c.session_id = l.session_id AND c.behind = 1 AND c.seq <= l.seq)
    ORDER BY l.said_at LIMIT :limit)
RETURNING seq

-- name: quiet_chats
-- Chats that were told everything: what an agent says goes before what it is doing.
SELECT c.origin, c.channel_id FROM conversation_chat c LEFT JOIN message_queue q ON q.message_id = c.message_id
WHERE c.session_id = :session_id AND c.behind = 0 AND q.message_id IS NULL
