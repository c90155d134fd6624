-- name: open_inbound
-- What one database will deliver; how much of it has ended in the other; and so for the next pipes.
SELECT id FROM inbound_queue WHERE status NOT IN ('delivered', 'expired')

-- name: ended_inbound
SELECT count(*) FROM inbound_queue WHERE id :in(keys bigint) AND status IN ('delivered', 'expired')

-- name: open_hooks
SELECT id FROM hook_outbox WHERE status NOT IN ('delivered', 'superseded', 'dead')

-- name: ended_hooks
SELECT count(*) FROM hook_outbox WHERE id :in(keys bigint) AND status IN ('delivered', 'superseded', 'dead')

-- name: open_outbound
SELECT message_id FROM message_queue

-- name: ended_outbound
SELECT count(*) FROM message_history WHERE message_id :in(keys text) AND status NOT IN ('pending', 'retrying')

-- name: all_inbound
-- What one database has; how much of it the other has too; and so for the next.
SELECT id FROM inbound_queue

-- name: known_inbound
SELECT count(*) FROM inbound_queue WHERE id :in(keys bigint)

-- name: all_hooks
SELECT id FROM hook_outbox

-- name: known_hooks
SELECT count(*) FROM hook_outbox WHERE id :in(keys bigint)

-- name: all_outbound
SELECT message_id FROM message_history

-- name: known_outbound
SELECT count(*) FROM message_history WHERE message_id :in(keys text)

-- name: all_inbox_keys
SELECT digest FROM inbox WHERE status = 'processed'

-- name: known_inbox_keys
SELECT count(*) FROM inbox WHERE digest :in(keys text) AND status = 'processed'

-- name: all_idempotency_keys
SELECT tenant_id, key FROM idempotency_key

-- name: known_idempotency_keys
SELECT count(*) FROM :rows(tenant_id text, key text) JOIN idempotency_key k ON k.tenant_id = rows.tenant_id AND k.key = rows.key

-- name: sealing_key
SELECT key_id FROM sealing_key WHERE id = 1

-- name: keep_sealing_key
INSERT INTO sealing_key (id, key_id) VALUES (1, :key_id) ON CONFLICT (id) DO NOTHING

-- name: said_opt_outs
SELECT opt_out_id, tenant_id, contact, channel, address, reason, created_at FROM message_opt_out

-- name: keep_opt_outs
INSERT INTO message_opt_out (opt_out_id, tenant_id, contact, channel, address, reason, created_at)
SELECT rows.opt_out_id, rows.tenant_id, rows.contact, rows.channel, rows.address, rows.reason, rows.created_at
FROM :rows(opt_out_id text, tenant_id text, contact text, channel text, address text, reason text, created_at instant)
ON CONFLICT DO NOTHING
RETURNING opt_out_id

-- name: forgotten_opt_outs
SELECT opt_out_id, tenant_id, contact, channel FROM message_opt_out WHERE address IS NULL

-- name: forget_opt_outs
UPDATE message_opt_out SET address = NULL, reason = NULL WHERE opt_out_id :in(keys text)

-- name: forget_opt_outs_said_anew
-- One that was removed and said anew has another id.
UPDATE message_opt_out SET address = NULL, reason = NULL
FROM :rows(opt_out_id text, tenant_id text, contact text, channel text)
WHERE message_opt_out.tenant_id = rows.tenant_id AND message_opt_out.contact = rows.contact
  AND message_opt_out.channel = rows.channel

-- name: forgotten_messages
-- Every message has a contact until that is forgotten.
SELECT message_id FROM message_history WHERE contact IS NULL

-- name: forget_messages
-- One that still waits is canceled when its turn comes, for it has nothing to say any more.
UPDATE message_history
SET to_address = NULL, contact = NULL, subject = NULL, body_text = NULL, body_html = NULL, options = '{}', sealed = NULL,
    attachments = NULL, tags = '[]', trace = NULL, error_message = NULL
WHERE message_id :in(keys text) AND contact IS NOT NULL
RETURNING message_id

-- name: forget_attempts
UPDATE message_attempt SET error = NULL, request = NULL, response = NULL WHERE message_id :in(keys text)

-- name: forget_events
UPDATE message_event SET detail = NULL WHERE message_id :in(keys text)

-- name: forget_copies
DELETE FROM message_copy WHERE message_id :in(keys text)

-- name: revoked_keys
SELECT key_id, revoked_at FROM api_keys WHERE revoked_at IS NOT NULL

-- name: revoke_keys
UPDATE api_keys SET revoked_at = rows.revoked_at FROM :rows(key_id text, revoked_at instant)
WHERE api_keys.key_id = rows.key_id AND api_keys.revoked_at IS NULL
RETURNING api_keys.key_id

-- name: revoked_links
-- Links are bound to a number that grows when they are revoked.
SELECT tenant_id, epoch FROM embed_epoch

-- name: revoke_links
INSERT INTO embed_epoch (tenant_id, epoch) SELECT rows.tenant_id, rows.epoch FROM :rows(tenant_id text, epoch bigint)
ON CONFLICT (tenant_id) DO UPDATE SET epoch = excluded.epoch WHERE excluded.epoch > embed_epoch.epoch
RETURNING tenant_id
