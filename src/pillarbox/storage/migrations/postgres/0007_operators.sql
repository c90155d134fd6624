CREATE TABLE IF NOT EXISTS operator_action (
    action_id TEXT PRIMARY KEY,
    at TIMESTAMPTZ NOT NULL,
    who TEXT NOT NULL,
    action TEXT NOT NULL,
    subject_kind TEXT NOT NULL,
    subject_id TEXT NOT NULL,
    tenant_id TEXT,
    outcome TEXT NOT NULL
);

CREATE INDEX IF NOT EXISTS idx_operator_action_subject ON operator_action (subject_kind, subject_id, action_id);

CREATE TABLE IF NOT EXISTS operation (
    operation_id TEXT PRIMARY KEY,
    action TEXT NOT NULL CHECK (action IN ('retry', 'cancel', 'expire')),
    filter TEXT NOT NULL,
    who TEXT,
    state TEXT NOT NULL CHECK (state IN ('running', 'done', 'stopped')),
    total BIGINT NOT NULL,
    exact BIGINT NOT NULL,
    done BIGINT NOT NULL DEFAULT 0,
    refused BIGINT NOT NULL DEFAULT 0,
    refusals TEXT NOT NULL DEFAULT '{}',
    reached TEXT NOT NULL DEFAULT '',
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    ended_at TIMESTAMPTZ,
    holder TEXT,
    lease_until TIMESTAMPTZ,
    token BIGINT NOT NULL DEFAULT 0
);

CREATE INDEX IF NOT EXISTS idx_operation_running ON operation (operation_id) WHERE state = 'running';

CREATE TABLE IF NOT EXISTS node (
    holder TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    process BIGINT NOT NULL,
    role TEXT NOT NULL,
    version TEXT NOT NULL,
    concurrency BIGINT NOT NULL,
    in_flight BIGINT NOT NULL,
    totals TEXT NOT NULL DEFAULT '{}',
    started_at TIMESTAMPTZ NOT NULL,
    last_seen TIMESTAMPTZ NOT NULL,
    stopped_at TIMESTAMPTZ
);

CREATE TABLE IF NOT EXISTS sandbox_trouble (
    trouble_id TEXT PRIMARY KEY,
    channel TEXT NOT NULL,
    trouble TEXT NOT NULL,
    remaining BIGINT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL
);

CREATE TABLE IF NOT EXISTS embed_epoch (
    tenant_id TEXT PRIMARY KEY,
    epoch BIGINT NOT NULL
);

CREATE INDEX IF NOT EXISTS idx_message_history_unsent ON message_history (trouble, message_id) WHERE trouble IS NOT NULL;

CREATE INDEX IF NOT EXISTS idx_message_queue_retrying
    ON message_queue (next_attempt_at) WHERE state = 'scheduled' AND attempt_count > 0;

CREATE INDEX IF NOT EXISTS idx_inbound_strand_failing ON inbound_strand (session_id) WHERE failing = 1;

CREATE INDEX IF NOT EXISTS idx_hook_strand_failing ON hook_strand (session_id) WHERE failing = 1;
