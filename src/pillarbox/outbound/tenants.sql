-- name: ended_of_tenant
SELECT message_id FROM message_history
WHERE tenant_id = :tenant_id AND status NOT IN ('pending', 'retrying') ORDER BY message_id LIMIT :limit

-- name: erase_idempotency_keys
DELETE FROM idempotency_key WHERE tenant_id = :tenant_id AND key IN (
    SELECT k.key FROM idempotency_key k WHERE k.tenant_id = :tenant_id ORDER BY k.key LIMIT :limit)
RETURNING key

-- name: erase_opt_outs
DELETE FROM message_opt_out WHERE opt_out_id IN (
    SELECT o.opt_out_id FROM message_opt_out o WHERE o.tenant_id = :tenant_id LIMIT :limit)
RETURNING opt_out_id
