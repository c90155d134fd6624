ALTER TABLE conversation ADD COLUMN prompt_id INTEGER NOT NULL DEFAULT 0;

ALTER TABLE conversation_line ADD COLUMN way TEXT;

ALTER TABLE conversation_chat ADD COLUMN way TEXT;

ALTER TABLE conversation_chat ADD COLUMN way_seq INTEGER NOT NULL DEFAULT 0;

CREATE INDEX IF NOT EXISTS idx_conversation_chat_listening ON conversation_chat (origin, channel_id) WHERE joined = 2;

ALTER TABLE conversation_preview ADD COLUMN place TEXT;
