-- name: list_tenants
SELECT tenant_id, name, providers, settings, rate_per_minute, rate_until, created_at, updated_at
FROM tenants WHERE tenant_id > :after ORDER BY tenant_id LIMIT :limit

-- name: put_tenant
INSERT INTO tenants (tenant_id, name, providers, settings, rate_per_minute, rate_until, created_at, updated_at)
VALUES (:tenant_id, :name, :providers, :settings, :rate_per_minute, :rate_until, :now, :now)
ON CONFLICT (tenant_id) DO UPDATE SET
    name = excluded.name, providers = excluded.providers, settings = excluded.settings,
    rate_per_minute = excluded.rate_per_minute, rate_until = excluded.rate_until, updated_at = excluded.updated_at

-- name: waits_for_tenant
SELECT message_id FROM message_queue WHERE tenant_id = :tenant_id LIMIT 1

-- name: delete_tenant
DELETE FROM tenants WHERE tenant_id = :tenant_id

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
