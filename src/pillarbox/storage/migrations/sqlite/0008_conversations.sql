CREATE TABLE IF NOT EXISTS conversation (
    session_id TEXT PRIMARY KEY,
    next_seq INTEGER NOT NULL DEFAULT 1,
    heard_seq INTEGER NOT NULL DEFAULT 0,
    shared INTEGER NOT NULL DEFAULT 0,
    source TEXT,
    head TEXT,
    position INTEGER NOT NULL DEFAULT 0,
    told_until TEXT
) STRICT;

CREATE TABLE IF NOT EXISTS conversation_line (
    session_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('agent', 'user', 'answer')),
    content TEXT NOT NULL,
    origin TEXT,
    channel_id TEXT,
    source_id TEXT,
    said_at TEXT NOT NULL,
    PRIMARY KEY (session_id, seq)
) STRICT;

CREATE UNIQUE INDEX IF NOT EXISTS idx_conversation_line_source
    ON conversation_line (origin, source_id) WHERE source_id IS NOT NULL;

CREATE INDEX IF NOT EXISTS idx_conversation_line_age ON conversation_line (said_at);

CREATE TABLE IF NOT EXISTS conversation_chat (
    origin TEXT NOT NULL,
    channel_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    position INTEGER NOT NULL DEFAULT 0,
    message_id TEXT,
    behind INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (session_id, origin, channel_id)
) STRICT;

CREATE INDEX IF NOT EXISTS idx_conversation_chat_behind ON conversation_chat (session_id, origin, channel_id) WHERE behind = 1;

CREATE INDEX IF NOT EXISTS idx_conversation_shared ON conversation (session_id) WHERE shared = 1;

CREATE INDEX IF NOT EXISTS idx_conversation_pane ON conversation (session_id) WHERE source = 'pane';

CREATE INDEX IF NOT EXISTS idx_sessions_open ON sessions (session_id) WHERE lifecycle_status <> 'closed';
