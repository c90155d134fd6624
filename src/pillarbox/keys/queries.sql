-- name: insert
INSERT INTO api_keys (key_id, digest, tenant, name, created_at, expires_at)
VALUES (:key_id, :digest, :tenant, :name, :now, :expires_at)

-- name: find
-- By the digest alone, on its unique index: the key itself is not stored anywhere.
SELECT key_id, tenant, name, created_at, expires_at, revoked_at FROM api_keys
WHERE digest = :digest AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)

-- name: list
-- Pages by key id, which grows with time, on the primary key.
SELECT key_id, tenant, name, created_at, expires_at, revoked_at FROM api_keys
WHERE key_id > :after ORDER BY key_id LIMIT :limit

-- name: revoke
-- The first revocation counts.
UPDATE api_keys SET revoked_at = COALESCE(revoked_at, :now) WHERE key_id = :key_id RETURNING tenant

-- name: revoke_tenant
UPDATE api_keys SET revoked_at = :now WHERE tenant = :tenant AND revoked_at IS NULL

-- name: any_admin
SELECT 1 FROM api_keys
WHERE tenant IS NULL AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now) LIMIT 1
