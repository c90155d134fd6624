ALTER TABLE inbound_queue ADD COLUMN confirmed_at TEXT;

CREATE TABLE IF NOT EXISTS hook_strand (
    session_id TEXT PRIMARY KEY,
    next_seq INTEGER NOT NULL,
    head_seq INTEGER,
    open_count INTEGER NOT NULL DEFAULT 0,
    held_count INTEGER NOT NULL DEFAULT 0,
    held_seq INTEGER NOT NULL DEFAULT 0,
    failing INTEGER NOT NULL DEFAULT 0,
    due_at TEXT,
    lease_until TEXT,
    holder TEXT,
    token INTEGER NOT NULL DEFAULT 0,
    CHECK (due_at IS NULL OR lease_until IS NULL),
    CHECK ((head_seq IS NULL) = (due_at IS NULL AND lease_until IS NULL))
) STRICT;

CREATE INDEX IF NOT EXISTS idx_hook_strand_due ON hook_strand (due_at) WHERE due_at IS NOT NULL;

CREATE INDEX IF NOT EXISTS idx_hook_strand_lease ON hook_strand (lease_until) WHERE lease_until IS NOT NULL;

CREATE TABLE IF NOT EXISTS hook_outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    event_type TEXT NOT NULL,
    event_key TEXT,
    status TEXT NOT NULL DEFAULT 'pending'
        CHECK (status IN ('pending', 'processing', 'delivered', 'failed', 'superseded', 'dead')),
    created_at TEXT NOT NULL,
    next_attempt_at TEXT,
    locked_at TEXT,
    delivered_at TEXT,
    attempt_count INTEGER NOT NULL DEFAULT 0,
    death_count INTEGER NOT NULL DEFAULT 0,
    token INTEGER NOT NULL DEFAULT 0,
    took_effect INTEGER NOT NULL DEFAULT 0,
    superseded_by INTEGER,
    superseded_by_type TEXT,
    last_error TEXT,
    payload TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX IF NOT EXISTS idx_hook_outbox_order ON hook_outbox (session_id, seq);

CREATE UNIQUE INDEX IF NOT EXISTS idx_hook_outbox_key ON hook_outbox (event_key) WHERE event_key IS NOT NULL;

CREATE INDEX IF NOT EXISTS idx_hook_outbox_delivered ON hook_outbox (delivered_at, id) WHERE status = 'delivered';

CREATE INDEX IF NOT EXISTS idx_hook_outbox_dead ON hook_outbox (id) WHERE status = 'dead';

CREATE TABLE IF NOT EXISTS agent_state (
    session_id TEXT PRIMARY KEY,
    turn TEXT CHECK (turn IN ('idle', 'working', 'waiting')),
    last_activity TEXT NOT NULL,
    last_user_input TEXT,
    last_user_input_at TEXT,
    last_turn_completed_at TEXT,
    last_summary TEXT,
    last_notification TEXT,
    last_error TEXT,
    transcript_path TEXT
) STRICT;
