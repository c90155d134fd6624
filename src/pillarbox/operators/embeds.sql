-- name: epoch
SELECT COALESCE(e.epoch, 0), t.created_at FROM tenants t LEFT JOIN embed_epoch e ON e.tenant_id = t.tenant_id
WHERE t.tenant_id = :tenant_id

-- name: revoke
INSERT INTO embed_epoch (tenant_id, epoch) VALUES (:tenant_id, 1)
ON CONFLICT (tenant_id) DO UPDATE SET epoch = embed_epoch.epoch + 1
