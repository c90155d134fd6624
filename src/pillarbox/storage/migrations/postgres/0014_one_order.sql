-- Ids and keys are ordered by their bytes, as Python and SQLite order them, whatever the database's locale is.
ALTER TABLE adapter_lease ALTER COLUMN name TYPE TEXT COLLATE "C";

ALTER TABLE adapter_position
    ALTER COLUMN origin TYPE TEXT COLLATE "C",
    ALTER COLUMN place TYPE TEXT COLLATE "C";

ALTER TABLE agent_state ALTER COLUMN session_id TYPE TEXT COLLATE "C";

ALTER TABLE api_keys
    ALTER COLUMN key_id TYPE TEXT COLLATE "C",
    ALTER COLUMN digest TYPE TEXT COLLATE "C";

ALTER TABLE conversation ALTER COLUMN session_id TYPE TEXT COLLATE "C";

ALTER TABLE conversation_chat
    ALTER COLUMN origin TYPE TEXT COLLATE "C",
    ALTER COLUMN channel_id TYPE TEXT COLLATE "C",
    ALTER COLUMN session_id TYPE TEXT COLLATE "C";

ALTER TABLE conversation_line
    ALTER COLUMN session_id TYPE TEXT COLLATE "C",
    ALTER COLUMN origin TYPE TEXT COLLATE "C",
    ALTER COLUMN source_id TYPE TEXT COLLATE "C";

ALTER TABLE conversation_preview
    ALTER COLUMN origin TYPE TEXT COLLATE "C",
    ALTER COLUMN channel_id TYPE TEXT COLLATE "C",
    ALTER COLUMN draft TYPE TEXT COLLATE "C";

ALTER TABLE embed_epoch ALTER COLUMN tenant_id TYPE TEXT COLLATE "C";

ALTER TABLE hook_outbox
    ALTER COLUMN session_id TYPE TEXT COLLATE "C",
    ALTER COLUMN event_key TYPE TEXT COLLATE "C";

ALTER TABLE hook_strand ALTER COLUMN session_id TYPE TEXT COLLATE "C";

ALTER TABLE idempotency_key
    ALTER COLUMN tenant_id TYPE TEXT COLLATE "C",
    ALTER COLUMN key TYPE TEXT COLLATE "C";

ALTER TABLE inbound_queue
    ALTER COLUMN session_id TYPE TEXT COLLATE "C",
    ALTER COLUMN origin TYPE TEXT COLLATE "C",
    ALTER COLUMN source_message_id TYPE TEXT COLLATE "C";

ALTER TABLE inbound_strand
    ALTER COLUMN session_id TYPE TEXT COLLATE "C",
    ALTER COLUMN destination TYPE TEXT COLLATE "C",
    ALTER COLUMN served_by TYPE TEXT COLLATE "C";

ALTER TABLE inbox ALTER COLUMN digest TYPE TEXT COLLATE "C";

ALTER TABLE message_attempt ALTER COLUMN message_id TYPE TEXT COLLATE "C";

ALTER TABLE message_copy
    ALTER COLUMN tenant_id TYPE TEXT COLLATE "C",
    ALTER COLUMN contact TYPE TEXT COLLATE "C",
    ALTER COLUMN message_id TYPE TEXT COLLATE "C";

ALTER TABLE message_event
    ALTER COLUMN message_id TYPE TEXT COLLATE "C",
    ALTER COLUMN event_id TYPE TEXT COLLATE "C";

ALTER TABLE message_history
    ALTER COLUMN message_id TYPE TEXT COLLATE "C",
    ALTER COLUMN tenant_id TYPE TEXT COLLATE "C",
    ALTER COLUMN contact TYPE TEXT COLLATE "C";

ALTER TABLE message_opt_out
    ALTER COLUMN opt_out_id TYPE TEXT COLLATE "C",
    ALTER COLUMN tenant_id TYPE TEXT COLLATE "C",
    ALTER COLUMN contact TYPE TEXT COLLATE "C",
    ALTER COLUMN channel TYPE TEXT COLLATE "C";

ALTER TABLE message_queue
    ALTER COLUMN message_id TYPE TEXT COLLATE "C",
    ALTER COLUMN tenant_id TYPE TEXT COLLATE "C";

ALTER TABLE node ALTER COLUMN holder TYPE TEXT COLLATE "C";

ALTER TABLE operation ALTER COLUMN operation_id TYPE TEXT COLLATE "C";

ALTER TABLE operator_action
    ALTER COLUMN action_id TYPE TEXT COLLATE "C",
    ALTER COLUMN subject_kind TYPE TEXT COLLATE "C",
    ALTER COLUMN subject_id TYPE TEXT COLLATE "C";

ALTER TABLE sandbox_trouble ALTER COLUMN trouble_id TYPE TEXT COLLATE "C";

ALTER TABLE session_channels
    ALTER COLUMN origin TYPE TEXT COLLATE "C",
    ALTER COLUMN channel_id TYPE TEXT COLLATE "C",
    ALTER COLUMN session_id TYPE TEXT COLLATE "C";

ALTER TABLE sessions
    ALTER COLUMN session_id TYPE TEXT COLLATE "C",
    ALTER COLUMN native_session_id TYPE TEXT COLLATE "C";

ALTER TABLE tenants ALTER COLUMN tenant_id TYPE TEXT COLLATE "C";
