ALTER TABLE conversation ADD COLUMN left_source TEXT;

ALTER TABLE conversation ADD COLUMN left_head TEXT;

ALTER TABLE conversation ADD COLUMN left_position INTEGER NOT NULL DEFAULT 0;

ALTER TABLE conversation ADD COLUMN left_at TEXT;

ALTER TABLE conversation ADD COLUMN ending INTEGER NOT NULL DEFAULT 0;

CREATE INDEX IF NOT EXISTS idx_conversation_ending ON conversation (session_id) WHERE ending = 1;

ALTER TABLE conversation_line ADD COLUMN turn INTEGER NOT NULL DEFAULT 0;

ALTER TABLE conversation_chat ADD COLUMN joined INTEGER NOT NULL DEFAULT 0;

ALTER TABLE conversation_chat ADD COLUMN turn INTEGER NOT NULL DEFAULT 0;

ALTER TABLE conversation_chat ADD COLUMN first_of_turn TEXT;

CREATE TABLE IF NOT EXISTS conversation_preview (
    origin TEXT NOT NULL,
    channel_id TEXT NOT NULL,
    draft TEXT NOT NULL,
    session_id TEXT NOT NULL,
    holder TEXT NOT NULL,
    lease_until TEXT NOT NULL,
    shown_at TEXT NOT NULL,
    PRIMARY KEY (origin, channel_id, draft)
) STRICT;
