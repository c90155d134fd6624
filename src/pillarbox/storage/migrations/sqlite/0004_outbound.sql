CREATE TABLE IF NOT EXISTS tenants (
    tenant_id TEXT PRIMARY KEY,
    name TEXT,
    providers TEXT NOT NULL,
    settings TEXT NOT NULL,
    rate_per_minute INTEGER,
    rate_until TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS message_queue (
    message_id TEXT PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    channel TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('scheduled', 'ready', 'sending')),
    priority INTEGER NOT NULL,
    next_attempt_at TEXT NOT NULL,
    expires_at TEXT,
    attempt_count INTEGER NOT NULL DEFAULT 0,
    last_attempt INTEGER NOT NULL,
    contacts TEXT NOT NULL,
    claimed_at TEXT,
    lease_until TEXT,
    holder TEXT,
    token INTEGER NOT NULL DEFAULT 0,
    CHECK ((state = 'sending') = (lease_until IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS idx_message_queue_ready
    ON message_queue (tenant_id, priority, next_attempt_at, message_id) WHERE state = 'ready';

CREATE INDEX IF NOT EXISTS idx_message_queue_scheduled ON message_queue (next_attempt_at) WHERE state = 'scheduled';

CREATE INDEX IF NOT EXISTS idx_message_queue_lease ON message_queue (lease_until) WHERE lease_until IS NOT NULL;

CREATE INDEX IF NOT EXISTS idx_message_queue_expiry ON message_queue (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS message_history (
    message_id TEXT PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    channel TEXT NOT NULL,
    status TEXT NOT NULL
        CHECK (status IN ('pending', 'retrying', 'sent', 'delivered', 'bounced', 'failed', 'canceled', 'expired')),
    attempt_count INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    category TEXT NOT NULL,
    next_attempt_at TEXT,
    last_attempt_at TEXT,
    sent_at TEXT,
    delivered_at TEXT,
    failed_at TEXT,
    expires_at TEXT,
    error_message TEXT,
    provider TEXT,
    provider_msg_id TEXT,
    contact TEXT,
    to_address TEXT,
    tags TEXT NOT NULL,
    trace TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    subject TEXT,
    body_text TEXT,
    body_html TEXT,
    options TEXT NOT NULL,
    sealed TEXT,
    attachments TEXT
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS idx_message_history_tenant ON message_history (tenant_id, message_id);

CREATE INDEX IF NOT EXISTS idx_message_history_contact ON message_history (tenant_id, contact) WHERE contact IS NOT NULL;

CREATE INDEX IF NOT EXISTS idx_message_history_trouble
    ON message_history (tenant_id, status, message_id) WHERE status IN ('failed', 'bounced', 'canceled', 'expired');

CREATE TABLE IF NOT EXISTS message_copy (
    tenant_id TEXT NOT NULL,
    contact TEXT NOT NULL,
    message_id TEXT NOT NULL,
    PRIMARY KEY (tenant_id, contact, message_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS idx_message_copy_message ON message_copy (message_id);

CREATE TABLE IF NOT EXISTS message_attempt (
    message_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    started_at TEXT NOT NULL,
    finished_at TEXT NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('accepted', 'rejected', 'transient', 'unknown')),
    status_code INTEGER,
    error TEXT,
    provider TEXT,
    PRIMARY KEY (message_id, attempt)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS message_event (
    message_id TEXT NOT NULL,
    event_id TEXT NOT NULL,
    type TEXT NOT NULL,
    at TEXT NOT NULL,
    detail TEXT,
    PRIMARY KEY (message_id, event_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS message_opt_out (
    opt_out_id TEXT PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    contact TEXT NOT NULL,
    channel TEXT NOT NULL,
    address TEXT,
    reason TEXT,
    created_at TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX IF NOT EXISTS idx_message_opt_out_contact ON message_opt_out (tenant_id, contact, channel);

CREATE TABLE IF NOT EXISTS idempotency_key (
    tenant_id TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    message_id TEXT NOT NULL,
    answer TEXT NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (tenant_id, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS idx_idempotency_key_age ON idempotency_key (created_at);

CREATE TABLE IF NOT EXISTS sealing_key (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    key_id TEXT NOT NULL
) STRICT;
