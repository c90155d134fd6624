-- name: schema
SELECT max(version) FROM main.schema_migration WHERE version > 0

-- name: inbound
-- How much that waits in the backup has ended in `main`, the database to be replaced, and how much came in there afterwards;
-- so do the next two.
SELECT (SELECT count(*) FROM backup.inbound_queue b JOIN main.inbound_queue o ON o.id = b.id
        WHERE b.status NOT IN ('delivered', 'expired') AND o.status IN ('delivered', 'expired')),
       (SELECT count(*) FROM main.inbound_queue o WHERE NOT EXISTS (SELECT 1 FROM backup.inbound_queue b WHERE b.id = o.id))

-- name: only_inbound
-- The same where the backup is older than the table; so do the next with `only`.
SELECT 0, count(*) FROM main.inbound_queue

-- name: hooks
SELECT (SELECT count(*) FROM backup.hook_outbox b JOIN main.hook_outbox o ON o.id = b.id
        WHERE b.status NOT IN ('delivered', 'superseded', 'dead') AND o.status IN ('delivered', 'superseded', 'dead')),
       (SELECT count(*) FROM main.hook_outbox o WHERE NOT EXISTS (SELECT 1 FROM backup.hook_outbox b WHERE b.id = o.id))

-- name: only_hooks
SELECT 0, count(*) FROM main.hook_outbox

-- name: outbound
SELECT (SELECT count(*) FROM backup.message_queue b JOIN main.message_history o ON o.message_id = b.message_id
        WHERE o.status NOT IN ('pending', 'retrying')),
       (SELECT count(*) FROM main.message_history o
        WHERE NOT EXISTS (SELECT 1 FROM backup.message_history b WHERE b.message_id = o.message_id))

-- name: only_outbound
SELECT 0, count(*) FROM main.message_history

-- name: opt_outs
SELECT count(*) FROM main.message_opt_out o WHERE NOT EXISTS (
    SELECT 1 FROM backup.message_opt_out b WHERE b.tenant_id = o.tenant_id AND b.contact = o.contact AND b.channel = o.channel)

-- name: only_opt_outs
SELECT count(*) FROM main.message_opt_out

-- name: other_key
SELECT count(*) FROM main.sealing_key o JOIN backup.sealing_key b ON b.id = o.id AND b.key_id <> o.key_id

-- name: forgotten
SELECT count(*) FROM main.message_history o JOIN backup.message_history b ON b.message_id = o.message_id
WHERE o.contact IS NULL AND b.contact IS NOT NULL

-- name: revoked_keys
SELECT count(*) FROM main.api_keys o JOIN backup.api_keys b ON b.key_id = o.key_id
WHERE o.revoked_at IS NOT NULL AND b.revoked_at IS NULL

-- name: revoked_links
-- Links are bound to a number that grows when they are revoked.
SELECT count(*) FROM main.embed_epoch o WHERE NOT EXISTS (
    SELECT 1 FROM backup.embed_epoch b WHERE b.tenant_id = o.tenant_id AND b.epoch >= o.epoch)

-- name: only_revoked_links
SELECT count(*) FROM main.embed_epoch

-- name: inbox_keys
SELECT count(*) FROM main.inbox o WHERE o.status = 'processed' AND NOT EXISTS (
    SELECT 1 FROM backup.inbox b WHERE b.digest = o.digest AND b.status = 'processed')

-- name: only_inbox_keys
SELECT count(*) FROM main.inbox o WHERE o.status = 'processed'

-- name: idempotency_keys
SELECT count(*) FROM main.idempotency_key o WHERE NOT EXISTS (
    SELECT 1 FROM backup.idempotency_key b WHERE b.tenant_id = o.tenant_id AND b.key = o.key)

-- name: only_idempotency_keys
SELECT count(*) FROM main.idempotency_key

-- name: read_opt_outs
SELECT opt_out_id, tenant_id, contact, channel, address, reason, created_at FROM message_opt_out

-- name: keep_opt_out
INSERT OR IGNORE INTO message_opt_out (opt_out_id, tenant_id, contact, channel, address, reason, created_at)
VALUES (:opt_out_id, :tenant_id, :contact, :channel, :address, :reason, :created_at)

-- name: read_sealing_key
-- Opt-outs are found by the key that hashed them.
SELECT key_id FROM sealing_key WHERE id = 1

-- name: keep_sealing_key
INSERT OR IGNORE INTO sealing_key (id, key_id) VALUES (1, :key_id)

-- name: read_forgotten_opt_outs
SELECT opt_out_id, tenant_id, contact, channel FROM message_opt_out WHERE address IS NULL

-- name: forget_opt_out
-- One that was removed and said anew has another id.
UPDATE message_opt_out SET address = NULL, reason = NULL
WHERE opt_out_id = :opt_out_id OR (tenant_id = :tenant_id AND contact = :contact AND channel = :channel)

-- name: read_forgotten
-- Every message has a contact until that is forgotten.
SELECT message_id FROM message_history WHERE contact IS NULL

-- name: forget_message
-- A message that still waits is canceled when its turn comes, for it has nothing to say any more.
UPDATE message_history
SET to_address = NULL, contact = NULL, subject = NULL, body_text = NULL, body_html = NULL, options = '{}', sealed = NULL,
    attachments = NULL, tags = '[]', trace = NULL, error_message = NULL
WHERE message_id = :message_id AND contact IS NOT NULL

-- name: forget_attempts
UPDATE message_attempt SET error = NULL, request = NULL, response = NULL WHERE message_id = :message_id

-- name: forget_events
UPDATE message_event SET detail = NULL WHERE message_id = :message_id

-- name: forget_copies
DELETE FROM message_copy WHERE message_id = :message_id

-- name: read_revoked_keys
SELECT revoked_at, key_id FROM api_keys WHERE revoked_at IS NOT NULL

-- name: revoke_key
UPDATE api_keys SET revoked_at = :revoked_at WHERE key_id = :key_id AND revoked_at IS NULL

-- name: read_revoked_links
SELECT tenant_id, epoch FROM embed_epoch

-- name: revoke_links
INSERT INTO embed_epoch (tenant_id, epoch) VALUES (:tenant_id, :epoch)
ON CONFLICT (tenant_id) DO UPDATE SET epoch = excluded.epoch WHERE excluded.epoch > embed_epoch.epoch
