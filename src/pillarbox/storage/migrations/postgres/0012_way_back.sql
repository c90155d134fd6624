ALTER TABLE conversation ADD COLUMN IF NOT EXISTS left_source TEXT;

ALTER TABLE conversation ADD COLUMN IF NOT EXISTS left_head TEXT;

ALTER TABLE conversation ADD COLUMN IF NOT EXISTS left_position BIGINT NOT NULL DEFAULT 0;

ALTER TABLE conversation ADD COLUMN IF NOT EXISTS left_at TIMESTAMPTZ;

ALTER TABLE conversation ADD COLUMN IF NOT EXISTS ending BIGINT NOT NULL DEFAULT 0;

CREATE INDEX IF NOT EXISTS idx_conversation_ending ON conversation (session_id) WHERE ending = 1;

ALTER TABLE conversation_line ADD COLUMN IF NOT EXISTS turn BIGINT NOT NULL DEFAULT 0;

ALTER TABLE conversation_chat ADD COLUMN IF NOT EXISTS joined BIGINT NOT NULL DEFAULT 0;

ALTER TABLE conversation_chat ADD COLUMN IF NOT EXISTS turn BIGINT NOT NULL DEFAULT 0;

ALTER TABLE conversation_chat ADD COLUMN IF NOT EXISTS first_of_turn TEXT;

CREATE TABLE IF NOT EXISTS conversation_preview (
    origin TEXT NOT NULL,
    channel_id TEXT NOT NULL,
    draft TEXT NOT NULL,
    session_id TEXT NOT NULL,
    holder TEXT NOT NULL,
    lease_until TIMESTAMPTZ NOT NULL,
    shown_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (origin, channel_id, draft)
);
