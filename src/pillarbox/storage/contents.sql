-- name: inbound bears_damage
-- What is still open of the sessions from one place on, each row's time, and its checksum before what that was made of; and so
-- for the next pipes.
SELECT q.id, q.session_id, q.seq, q.created_at, q.checksum, q.session_id, q.origin, q.message_type, q.content, q.payload_json, q.actor_id,
    q.actor_name, q.actor_avatar_url
FROM inbound_strand s
CROSS JOIN inbound_queue q
WHERE s.session_id >= :session_id AND s.head_seq IS NOT NULL AND q.session_id = s.session_id
    AND q.seq > CASE WHEN s.session_id = :session_id AND s.head_seq <= :seq THEN :seq ELSE s.head_seq - 1 END
    AND q.status NOT IN ('delivered', 'expired')
ORDER BY s.session_id, q.seq LIMIT :limit

-- name: hooks bears_damage
SELECT q.id, q.session_id, q.seq, q.created_at, q.checksum, q.session_id, q.event_type, q.payload
FROM hook_strand s
CROSS JOIN hook_outbox q
WHERE s.session_id >= :session_id AND s.head_seq IS NOT NULL AND q.session_id = s.session_id
    AND q.seq > CASE WHEN s.session_id = :session_id AND s.head_seq <= :seq THEN :seq ELSE s.head_seq - 1 END
    AND q.status NOT IN ('delivered', 'superseded', 'dead')
ORDER BY s.session_id, q.seq LIMIT :limit

-- name: outbound bears_damage
SELECT q.message_id, q.message_id, 0, h.created_at, h.checksum, h.to_address, h.subject, h.body_text, h.body_html, h.options, h.sealed,
    h.attachments
FROM message_queue q
CROSS JOIN message_history h
WHERE q.message_id > :message_id AND h.message_id = q.message_id AND h.to_address IS NOT NULL
ORDER BY q.message_id LIMIT :limit
