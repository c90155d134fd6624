-- name: content
SELECT tenant_id, channel, to_address, subject, body_text, body_html, options, sealed, attachments, priority, category, tags,
    max_attempts, expires_at, (SELECT t.providers FROM tenants t WHERE t.tenant_id = message_history.tenant_id)
FROM message_history WHERE message_id = :message_id
