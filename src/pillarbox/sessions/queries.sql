-- name: insert
-- A session id is taken once and never given to another session.
INSERT INTO sessions (session_id, title, lifecycle_status, target, node, agent, native_session_id, created_at, updated_at)
VALUES (:session_id, :title, :lifecycle_status, :target, :node, :agent, :native_session_id, :now, :now)
ON CONFLICT (session_id) DO NOTHING
RETURNING session_id

-- name: get
SELECT session_id, title, lifecycle_status, target, node, agent, native_session_id, created_at, updated_at, closed_at
FROM sessions WHERE session_id = :session_id

-- name: lock
-- Whoever changes a session holds its row first, then what its followers keep for it.
SELECT session_id, title, lifecycle_status, target, node, agent, native_session_id, created_at, updated_at, closed_at
FROM sessions WHERE session_id = :session_id :lock(sessions)

-- name: list
-- Pages by session id, on the primary key.
SELECT session_id, title, lifecycle_status, target, node, agent, native_session_id, created_at, updated_at, closed_at
FROM sessions
WHERE session_id > :after AND (:lifecycle_status = '' OR lifecycle_status = :lifecycle_status)
ORDER BY session_id LIMIT :limit

-- name: update
UPDATE sessions
SET title = :title, lifecycle_status = :lifecycle_status, target = :target, node = :node, agent = :agent,
    native_session_id = :native_session_id, updated_at = :now
WHERE session_id = :session_id

-- name: close
UPDATE sessions SET lifecycle_status = 'closed', closed_at = :now, updated_at = :now
WHERE session_id = :session_id AND lifecycle_status <> 'closed'

-- name: channels
SELECT session_id, origin, channel_id FROM session_channels
WHERE session_id :in(session_ids text) ORDER BY session_id, origin, channel_id

-- name: clear_channels
DELETE FROM session_channels WHERE session_id = :session_id

-- name: add_channels
-- A channel belongs to one session at a time: the last one to claim it.
INSERT INTO session_channels (origin, channel_id, session_id)
SELECT rows.origin, rows.channel_id, rows.session_id FROM :rows(origin text, channel_id text, session_id text) WHERE true
ON CONFLICT (origin, channel_id) DO UPDATE SET session_id = excluded.session_id

-- name: by_channel
SELECT session_id FROM session_channels WHERE origin = :origin AND channel_id = :channel_id

-- name: by_native_id
-- On idx_sessions_native.
SELECT session_id FROM sessions WHERE native_session_id = :native_session_id
ORDER BY CASE WHEN lifecycle_status = 'closed' THEN 1 ELSE 0 END, created_at DESC, session_id DESC LIMIT 1
