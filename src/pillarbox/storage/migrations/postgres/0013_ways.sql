ALTER TABLE conversation ADD COLUMN IF NOT EXISTS prompt_id BIGINT NOT NULL DEFAULT 0;

ALTER TABLE conversation_line ADD COLUMN IF NOT EXISTS way TEXT;

ALTER TABLE conversation_chat ADD COLUMN IF NOT EXISTS way TEXT;

ALTER TABLE conversation_chat ADD COLUMN IF NOT EXISTS way_seq BIGINT NOT NULL DEFAULT 0;

CREATE INDEX IF NOT EXISTS idx_conversation_chat_listening ON conversation_chat (origin, channel_id) WHERE joined = 2;

ALTER TABLE conversation_preview ADD COLUMN IF NOT EXISTS place TEXT;
