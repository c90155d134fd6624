ALTER TABLE inbound_queue ADD COLUMN trace TEXT;

ALTER TABLE hook_outbox ADD COLUMN trace TEXT;
