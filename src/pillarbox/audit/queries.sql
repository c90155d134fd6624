-- name: record
INSERT INTO operator_action (action_id, at, who, action, subject_kind, subject_id, tenant_id, outcome)
SELECT rows.action_id, :now, :who, rows.action, rows.subject_kind, rows.subject_id, rows.tenant_id, rows.outcome
FROM :rows(action_id text, action text, subject_kind text, subject_id text, tenant_id text, outcome text)

-- name: list
-- The newest first, on the primary key: ids grow with time.
SELECT action_id, at, who, action, subject_kind, subject_id, tenant_id, outcome FROM operator_action
WHERE action_id < :before ORDER BY action_id DESC LIMIT :limit

-- name: list_since
SELECT action_id, at, who, action, subject_kind, subject_id, tenant_id, outcome FROM operator_action
WHERE action_id > :after ORDER BY action_id LIMIT :limit

-- name: newest
SELECT max(action_id) FROM operator_action

-- name: of_subject
-- On idx_operator_action_subject.
SELECT action_id, at, who, action, subject_kind, subject_id, tenant_id, outcome FROM operator_action
WHERE subject_kind = :subject_kind AND subject_id = :subject_id AND action_id < :before
ORDER BY subject_kind DESC, subject_id DESC, action_id DESC LIMIT :limit

-- name: prune
DELETE FROM operator_action WHERE action_id IN (
    SELECT a.action_id FROM operator_action a WHERE a.action_id < :before ORDER BY a.action_id LIMIT :limit)
RETURNING action_id
