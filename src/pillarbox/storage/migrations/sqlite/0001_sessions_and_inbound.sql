CREATE TABLE IF NOT EXISTS sessions (
    session_id TEXT PRIMARY KEY,
    title TEXT,
    lifecycle_status TEXT NOT NULL CHECK (lifecycle_status IN ('initializing', 'active', 'headless', 'closed')),
    target TEXT NOT NULL,
    node TEXT,
    agent TEXT,
    native_session_id TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    closed_at TEXT
) STRICT;

CREATE INDEX IF NOT EXISTS idx_sessions_native ON sessions (native_session_id) WHERE native_session_id IS NOT NULL;

CREATE TABLE IF NOT EXISTS session_channels (
    origin TEXT NOT NULL,
    channel_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    PRIMARY KEY (origin, channel_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS idx_session_channels_session ON session_channels (session_id);

CREATE TABLE IF NOT EXISTS inbound_strand (
    session_id TEXT PRIMARY KEY,
    destination TEXT NOT NULL,
    served_by TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('starting', 'open', 'closed')),
    next_seq INTEGER NOT NULL,
    head_seq INTEGER,
    open_count INTEGER NOT NULL DEFAULT 0,
    failing INTEGER NOT NULL DEFAULT 0,
    due_at TEXT,
    lease_until TEXT,
    holder TEXT,
    token INTEGER NOT NULL,
    last_message_sent TEXT,
    last_input_origin TEXT,
    last_activity TEXT,
    CHECK (due_at IS NULL OR lease_until IS NULL),
    CHECK ((head_seq IS NULL) = (due_at IS NULL AND lease_until IS NULL))
) STRICT;

CREATE INDEX IF NOT EXISTS idx_inbound_strand_due ON inbound_strand (served_by, due_at) WHERE due_at IS NOT NULL;

CREATE INDEX IF NOT EXISTS idx_inbound_strand_destination
    ON inbound_strand (served_by, destination, due_at) WHERE due_at IS NOT NULL;

CREATE INDEX IF NOT EXISTS idx_inbound_strand_lease ON inbound_strand (lease_until) WHERE lease_until IS NOT NULL;

CREATE TABLE IF NOT EXISTS inbound_queue (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    origin TEXT NOT NULL,
    message_type TEXT NOT NULL DEFAULT 'text' CHECK (message_type IN ('text', 'voice', 'file')),
    content TEXT NOT NULL DEFAULT '',
    payload_json TEXT,
    actor_id TEXT,
    actor_name TEXT,
    actor_avatar_url TEXT,
    status TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'processing', 'delivered', 'failed', 'expired')),
    created_at TEXT NOT NULL,
    processed_at TEXT,
    attempt_count INTEGER NOT NULL DEFAULT 0,
    death_count INTEGER NOT NULL DEFAULT 0,
    next_retry_at TEXT,
    last_error TEXT,
    locked_at TEXT,
    source_message_id TEXT,
    source_channel_id TEXT,
    token INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE UNIQUE INDEX IF NOT EXISTS idx_inbound_queue_order ON inbound_queue (session_id, seq);

CREATE UNIQUE INDEX IF NOT EXISTS idx_inbound_queue_source_dedup
    ON inbound_queue (origin, source_message_id) WHERE source_message_id IS NOT NULL;

CREATE TABLE IF NOT EXISTS api_keys (
    key_id TEXT PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    tenant TEXT,
    name TEXT,
    created_at TEXT NOT NULL,
    expires_at TEXT,
    revoked_at TEXT
) STRICT;
