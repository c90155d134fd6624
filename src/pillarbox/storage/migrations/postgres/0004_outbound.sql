CREATE TABLE IF NOT EXISTS tenants (
    tenant_id TEXT PRIMARY KEY,
    name TEXT,
    providers TEXT NOT NULL,
    settings TEXT NOT NULL,
    rate_per_minute BIGINT,
    rate_until TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL
);

CREATE TABLE IF NOT EXISTS message_queue (
    message_id TEXT PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    channel TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('scheduled', 'ready', 'sending')),
    priority BIGINT NOT NULL,
    next_attempt_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ,
    attempt_count BIGINT NOT NULL DEFAULT 0,
    last_attempt BIGINT NOT NULL,
    contacts TEXT NOT NULL,
    claimed_at TIMESTAMPTZ,
    lease_until TIMESTAMPTZ,
    holder TEXT,
    token BIGINT NOT NULL DEFAULT 0,
    CHECK ((state = 'sending') = (lease_until IS NOT NULL))
) WITH (fillfactor = 70);

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
    attempt_count BIGINT NOT NULL DEFAULT 0,
    max_attempts BIGINT NOT NULL,
    priority BIGINT NOT NULL,
    category TEXT NOT NULL,
    next_attempt_at TIMESTAMPTZ,
    last_attempt_at TIMESTAMPTZ,
    sent_at TIMESTAMPTZ,
    delivered_at TIMESTAMPTZ,
    failed_at TIMESTAMPTZ,
    expires_at TIMESTAMPTZ,
    error_message TEXT,
    provider TEXT,
    provider_msg_id TEXT,
    contact TEXT,
    to_address TEXT,
    tags TEXT NOT NULL,
    trace TEXT,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    subject TEXT,
    body_text TEXT,
    body_html TEXT,
    options TEXT NOT NULL,
    sealed TEXT,
    attachments TEXT
) WITH (fillfactor = 85);

CREATE INDEX IF NOT EXISTS idx_message_history_tenant ON message_history (tenant_id, message_id);

CREATE INDEX IF NOT EXISTS idx_message_history_contact ON message_history (tenant_id, contact) WHERE contact IS NOT NULL;

CREATE INDEX IF NOT EXISTS idx_message_history_trouble
    ON message_history (tenant_id, status, message_id) WHERE status IN ('failed', 'bounced', 'canceled', 'expired');

CREATE TABLE IF NOT EXISTS message_copy (
    tenant_id TEXT NOT NULL,
    contact TEXT NOT NULL,
    message_id TEXT NOT NULL,
    PRIMARY KEY (tenant_id, contact, message_id)
);

CREATE INDEX IF NOT EXISTS idx_message_copy_message ON message_copy (message_id);

CREATE TABLE IF NOT EXISTS message_attempt (
    message_id TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    started_at TIMESTAMPTZ NOT NULL,
    finished_at TIMESTAMPTZ NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('accepted', 'rejected', 'transient', 'unknown')),
    status_code BIGINT,
    error TEXT,
    provider TEXT,
    PRIMARY KEY (message_id, attempt)
);

CREATE TABLE IF NOT EXISTS message_event (
    message_id TEXT NOT NULL,
    event_id TEXT NOT NULL,
    type TEXT NOT NULL,
    at TIMESTAMPTZ NOT NULL,
    detail TEXT,
    PRIMARY KEY (message_id, event_id)
);

CREATE TABLE IF NOT EXISTS message_opt_out (
    opt_out_id TEXT PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    contact TEXT NOT NULL,
    channel TEXT NOT NULL,
    address TEXT,
    reason TEXT,
    created_at TIMESTAMPTZ NOT NULL
);

CREATE UNIQUE INDEX IF NOT EXISTS idx_message_opt_out_contact ON message_opt_out (tenant_id, contact, channel);

CREATE TABLE IF NOT EXISTS idempotency_key (
    tenant_id TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    message_id TEXT NOT NULL,
    answer TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (tenant_id, key)
);

CREATE INDEX IF NOT EXISTS idx_idempotency_key_age ON idempotency_key (created_at);

CREATE TABLE IF NOT EXISTS sealing_key (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    key_id TEXT NOT NULL
);
