-- name: create_table sqlite
CREATE TABLE IF NOT EXISTS schema_migration (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT) STRICT

-- name: create_table postgres
CREATE TABLE IF NOT EXISTS schema_migration (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at TIMESTAMPTZ)

-- name: create_lock
-- Version 0 is no migration: whoever holds its row lock migrates, and the others wait.
INSERT INTO schema_migration (version, name) VALUES (0, 'lock') ON CONFLICT (version) DO NOTHING

-- name: lock
SELECT version FROM schema_migration WHERE version = 0 :lock(schema_migration)

-- name: applied
SELECT version FROM schema_migration WHERE version > 0

-- name: newest
SELECT max(version) FROM schema_migration

-- name: record
INSERT INTO schema_migration (version, name, applied_at) VALUES (:version, :name, :now)

-- name: rehearse
-- A time of nothing: SQLite writes no page for what is as it was.
UPDATE schema_migration SET applied_at = :now WHERE version = 0
