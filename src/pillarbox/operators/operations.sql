-- name: insert
INSERT INTO operation (operation_id, action, filter, who, state, total, exact, created_at, updated_at)
VALUES (:operation_id, :action, :filter, :who, 'running', :total, :exact, :now, :now)

-- name: get
SELECT operation_id, action, filter, who, state, total, exact, done, refused, refusals, created_at, updated_at, ended_at, reached, token
FROM operation WHERE operation_id = :operation_id

-- name: list
-- The newest first, on the primary key: ids grow with time.
SELECT operation_id, action, filter, who, state, total, exact, done, refused, refusals, created_at, updated_at, ended_at, reached, token
FROM operation WHERE operation_id < :before ORDER BY operation_id DESC LIMIT :limit

-- name: waiting
-- Those that nobody holds, on idx_operation_running.
SELECT operation_id FROM operation WHERE state = 'running' AND (lease_until IS NULL OR lease_until <= :now)
ORDER BY operation_id LIMIT :limit

-- name: holders
SELECT DISTINCT holder FROM operation WHERE state = 'running' AND lease_until > :now

-- name: end_leases
UPDATE operation SET lease_until = :now WHERE state = 'running' AND holder :in(holders text)

-- name: take
-- The token grows with every hold: whoever held it before can no longer write.
UPDATE operation SET holder = :holder, lease_until = :lease_until, token = token + 1
WHERE operation_id = :operation_id AND state = 'running' AND (lease_until IS NULL OR lease_until <= :now)
RETURNING operation_id, action, filter, who, state, total, exact, done, refused, refusals, created_at, updated_at, ended_at, reached, token

-- name: hold
-- Locked until the step's own transaction ends, so that its effects and its progress are one.
SELECT done, refused, refusals FROM operation
WHERE operation_id = :operation_id AND token = :token AND state = 'running' :lock(operation)

-- name: advance
UPDATE operation
SET done = :done, refused = :refused, refusals = :refusals, reached = :reached, state = :state, ended_at = :ended_at,
    updated_at = :now, lease_until = :lease_until
WHERE operation_id = :operation_id

-- name: let_go
UPDATE operation SET lease_until = NULL, holder = NULL WHERE operation_id = :operation_id AND token = :token

-- name: stop
UPDATE operation SET state = 'stopped', ended_at = :now, updated_at = :now, lease_until = NULL, token = token + 1
WHERE operation_id = :operation_id AND state = 'running' RETURNING operation_id

-- name: prune
DELETE FROM operation WHERE operation_id IN (
    SELECT o.operation_id FROM operation o WHERE o.operation_id < :before ORDER BY o.operation_id LIMIT :limit)
    AND state <> 'running'
