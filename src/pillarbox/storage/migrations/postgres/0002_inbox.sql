CREATE TABLE IF NOT EXISTS inbox (
    digest TEXT PRIMARY KEY,
    key TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('free', 'leased', 'processed')),
    lease_id TEXT NOT NULL,
    owner TEXT,
    lease_until TIMESTAMPTZ,
    fingerprint TEXT,
    result TEXT,
    attempts BIGINT NOT NULL,
    first_seen TIMESTAMPTZ NOT NULL,
    last_seen TIMESTAMPTZ NOT NULL,
    processed_at TIMESTAMPTZ,
    CHECK ((status = 'leased') = (lease_until IS NOT NULL)),
    CHECK ((status = 'processed') = (processed_at IS NOT NULL))
);

CREATE INDEX IF NOT EXISTS idx_inbox_processed ON inbox (processed_at) WHERE status = 'processed';

CREATE INDEX IF NOT EXISTS idx_inbox_open ON inbox (last_seen) WHERE status <> 'processed';
