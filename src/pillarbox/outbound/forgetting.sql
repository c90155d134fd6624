-- name: messages_of_contact
SELECT message_id FROM message_history WHERE tenant_id = :tenant_id AND contact = :contact
UNION SELECT message_id FROM message_copy WHERE tenant_id = :tenant_id AND contact = :contact
LIMIT :limit

-- name: lock_waiting
SELECT message_id FROM message_queue WHERE message_id :in(message_ids text) AND state <> 'sending'
ORDER BY message_id :lock(message_queue)

-- name: forget_history
UPDATE message_history
SET to_address = NULL, contact = NULL, subject = NULL, body_text = NULL, body_html = NULL, options = '{}', sealed = NULL,
    attachments = NULL, tags = '[]', trace = NULL, error_message = NULL, updated_at = :now
WHERE message_id :in(message_ids text)

-- name: forget_attempts
UPDATE message_attempt SET error = NULL, request = NULL, response = NULL WHERE message_id :in(message_ids text)

-- name: forget_events
UPDATE message_event SET detail = NULL WHERE message_id :in(message_ids text)

-- name: forget_opt_outs
-- The opt-out itself stays, as a keyed hash that only the same contact leads to.
UPDATE message_opt_out SET address = NULL, reason = NULL WHERE tenant_id = :tenant_id AND contact = :contact
