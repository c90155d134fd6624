-- As on SQLite, so that the schemas stay alike; on PostgreSQL nobody offers anything (ADR 0022).
CREATE TABLE IF NOT EXISTS hook_offer (
    holder TEXT PRIMARY KEY,
    until TIMESTAMPTZ NOT NULL,
    lease_until TIMESTAMPTZ NOT NULL
);

ALTER TABLE hook_offer ALTER COLUMN holder TYPE TEXT COLLATE "C";
