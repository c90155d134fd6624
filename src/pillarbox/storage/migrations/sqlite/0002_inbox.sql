CREATE TABLE IF NOT EXISTS inbox (
    digest TEXT PRIMARY KEY,
    key TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('free', 'leased', 'processed')),
    lease_id TEXT NOT NULL,
    owner TEXT,
    lease_until TEXT,
    fingerprint TEXT,
    result TEXT,
    attempts INTEGER NOT NULL,
    first_seen TEXT NOT NULL,
    last_seen TEXT NOT NULL,
    processed_at TEXT,
    CHECK ((status = 'leased') = (lease_until IS NOT NULL)),
    CHECK ((status = 'processed') = (processed_at IS NOT NULL))
) STRICT;

CREATE INDEX IF NOT EXISTS idx_inbox_processed ON inbox (processed_at) WHERE status = 'processed';

CREATE INDEX IF NOT EXISTS idx_inbox_open ON inbox (last_seen) WHERE status <> 'processed';
