-- name: create_boot
CREATE TABLE IF NOT EXISTS boot_clock (boot_id TEXT PRIMARY KEY, offset_seconds REAL NOT NULL) STRICT

-- name: remember
-- The first process of a boot decides; the others follow it.
INSERT INTO boot_clock (boot_id, offset_seconds) VALUES (:boot, :offset) ON CONFLICT (boot_id) DO NOTHING

-- name: recall
SELECT offset_seconds FROM boot_clock WHERE boot_id = :boot
