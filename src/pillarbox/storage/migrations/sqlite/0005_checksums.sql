ALTER TABLE inbound_queue ADD COLUMN checksum INTEGER;

ALTER TABLE hook_outbox ADD COLUMN checksum INTEGER;

ALTER TABLE message_history ADD COLUMN checksum INTEGER;
