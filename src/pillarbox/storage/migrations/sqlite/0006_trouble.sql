ALTER TABLE message_history ADD COLUMN trouble TEXT
    GENERATED ALWAYS AS (CASE WHEN status IN ('failed', 'bounced', 'canceled', 'expired') THEN status END) VIRTUAL;

DROP INDEX IF EXISTS idx_message_history_trouble;

CREATE INDEX IF NOT EXISTS idx_message_history_trouble
    ON message_history (tenant_id, trouble, message_id) WHERE trouble IS NOT NULL;
