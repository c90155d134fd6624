ALTER TABLE inbound_queue ADD COLUMN IF NOT EXISTS confirmed_at TIMESTAMPTZ;

CREATE TABLE IF NOT EXISTS hook_strand (
    session_id TEXT PRIMARY KEY,
    next_seq BIGINT NOT NULL,
    head_seq BIGINT,
    open_count BIGINT NOT NULL DEFAULT 0,
    held_count BIGINT NOT NULL DEFAULT 0,
    held_seq BIGINT NOT NULL DEFAULT 0,
    failing BIGINT NOT NULL DEFAULT 0,
    due_at TIMESTAMPTZ,
    lease_until TIMESTAMPTZ,
    holder TEXT,
    token BIGINT NOT NULL DEFAULT 0,
    CHECK (due_at IS NULL OR lease_until IS NULL),
    CHECK ((head_seq IS NULL) = (due_at IS NULL AND lease_until IS NULL))
) WITH (fillfactor = 70);

CREATE INDEX IF NOT EXISTS idx_hook_strand_due ON hook_strand (due_at) WHERE due_at IS NOT NULL;

CREATE INDEX IF NOT EXISTS idx_hook_strand_lease ON hook_strand (lease_until) WHERE lease_until IS NOT NULL;

CREATE SEQUENCE IF NOT EXISTS hook_outbox_id;

CREATE TABLE IF NOT EXISTS hook_outbox (
    id BIGINT PRIMARY KEY DEFAULT nextval('hook_outbox_id'),
    session_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    event_type TEXT NOT NULL,
    event_key TEXT,
    status TEXT NOT NULL DEFAULT 'pending'
        CHECK (status IN ('pending', 'processing', 'delivered', 'failed', 'superseded', 'dead')),
    created_at TIMESTAMPTZ NOT NULL,
    next_attempt_at TIMESTAMPTZ,
    locked_at TIMESTAMPTZ,
    delivered_at TIMESTAMPTZ,
    attempt_count BIGINT NOT NULL DEFAULT 0,
    death_count BIGINT NOT NULL DEFAULT 0,
    token BIGINT NOT NULL DEFAULT 0,
    took_effect BIGINT NOT NULL DEFAULT 0,
    superseded_by BIGINT,
    superseded_by_type TEXT,
    last_error TEXT,
    payload TEXT NOT NULL
) WITH (fillfactor = 75);

CREATE UNIQUE INDEX IF NOT EXISTS idx_hook_outbox_order ON hook_outbox (session_id, seq);

CREATE UNIQUE INDEX IF NOT EXISTS idx_hook_outbox_key ON hook_outbox (event_key) WHERE event_key IS NOT NULL;

CREATE INDEX IF NOT EXISTS idx_hook_outbox_delivered ON hook_outbox (delivered_at, id) WHERE status = 'delivered';

CREATE INDEX IF NOT EXISTS idx_hook_outbox_dead ON hook_outbox (id) WHERE status = 'dead';

CREATE TABLE IF NOT EXISTS agent_state (
    session_id TEXT PRIMARY KEY,
    turn TEXT CHECK (turn IN ('idle', 'working', 'waiting')),
    last_activity TIMESTAMPTZ NOT NULL,
    last_user_input TEXT,
    last_user_input_at TIMESTAMPTZ,
    last_turn_completed_at TIMESTAMPTZ,
    last_summary TEXT,
    last_notification TEXT,
    last_error TEXT,
    transcript_path TEXT
);
