-- name: get bears_damage
SELECT {message}, h.body_text, h.body_html
FROM message_history h LEFT JOIN message_queue q ON q.message_id = h.message_id
WHERE h.message_id = :message_id AND (:tenant_id = '' OR h.tenant_id = :tenant_id)

-- name: tenant_of
SELECT tenant_id FROM message_history WHERE message_id = :message_id

-- name: list_messages bears_damage
-- The newest first, on idx_message_history_tenant.
SELECT {message} FROM message_history h LEFT JOIN message_queue q ON q.message_id = h.message_id
WHERE h.tenant_id = :tenant_id AND h.message_id < :before
    AND (:status = '' OR (h.status = :status AND q.message_id IS NULL))
    AND (:channel = '' OR h.channel = :channel) AND (:contact = '' OR h.contact = :contact)
    AND (:since = '' OR h.message_id >= :since) AND (:until = '' OR h.message_id < :until)
    AND (:tag = '' OR replace(h.tags, :tag, '') <> h.tags)
ORDER BY h.message_id DESC LIMIT :limit

-- name: list_all bears_damage
-- The same of all tenants, on the primary key.
SELECT {message} FROM message_history h LEFT JOIN message_queue q ON q.message_id = h.message_id
WHERE (:tenant_id = '' OR h.tenant_id = :tenant_id) AND h.message_id < :before
    AND (:status = '' OR (h.status = :status AND q.message_id IS NULL))
    AND (:channel = '' OR h.channel = :channel) AND (:contact = '' OR h.contact = :contact)
    AND (:since = '' OR h.message_id >= :since) AND (:until = '' OR h.message_id < :until)
    AND (:tag = '' OR replace(h.tags, :tag, '') <> h.tags)
ORDER BY h.message_id DESC LIMIT :limit

-- name: list_trouble bears_damage
-- What ended badly is rare and looked for most: on idx_message_history_trouble.
SELECT {message} FROM message_history h LEFT JOIN message_queue q ON q.message_id = h.message_id
WHERE h.tenant_id = :tenant_id AND h.trouble = :status
    AND h.message_id < :before
    AND (:channel = '' OR h.channel = :channel) AND (:contact = '' OR h.contact = :contact)
    AND (:since = '' OR h.message_id >= :since) AND (:until = '' OR h.message_id < :until)
    AND (:tag = '' OR replace(h.tags, :tag, '') <> h.tags)
ORDER BY h.message_id DESC LIMIT :limit

-- name: list_queued bears_damage
-- What has not ended is in the queue: found there, however much has ended before.
SELECT {message} FROM message_queue q JOIN message_history h ON h.message_id = q.message_id
WHERE (:tenant_id = '' OR q.tenant_id = :tenant_id) AND q.message_id < :before
    AND CASE WHEN q.state = 'sending' THEN 'processing' ELSE h.status END = :status
    AND (:channel = '' OR h.channel = :channel) AND (:contact = '' OR h.contact = :contact)
    AND (:since = '' OR h.message_id >= :since) AND (:until = '' OR h.message_id < :until)
    AND (:tag = '' OR replace(h.tags, :tag, '') <> h.tags)
ORDER BY h.message_id DESC LIMIT :limit

-- name: attempts
SELECT attempt, started_at, finished_at, outcome, status_code, error, provider, request, response FROM message_attempt
WHERE message_id = :message_id ORDER BY attempt

-- name: events
SELECT type, at, detail FROM message_event WHERE message_id = :message_id ORDER BY event_id

-- name: counts
-- Each on the index of its state, which is slimmer than the table.
SELECT 'ready', count(*) FROM message_queue WHERE state = 'ready'
UNION ALL SELECT 'scheduled', count(*) FROM message_queue WHERE state = 'scheduled'
UNION ALL SELECT 'sending', count(*) FROM message_queue WHERE lease_until IS NOT NULL

-- name: oldest_unsent bears_damage
-- What is due, being sent or waiting after a failed attempt; what is scheduled for later is not late. Whether there is any.
SELECT first.message_id IS NOT NULL, h.created_at FROM (
    SELECT min(q.message_id) AS message_id FROM message_queue q WHERE q.state <> 'scheduled' OR q.attempt_count > 0) AS first
LEFT JOIN message_history h ON h.message_id = first.message_id

-- name: oldest_few_unsent bears_damage
-- The same of some, where the time of the first was damaged on disk or its message is not to be found.
SELECT h.created_at FROM message_history h JOIN (
    SELECT q.message_id FROM message_queue q WHERE q.state <> 'scheduled' OR q.attempt_count > 0
    ORDER BY q.message_id LIMIT 10) AS first ON first.message_id = h.message_id
ORDER BY h.message_id

-- name: count_unsent
-- A bounded count, on idx_message_history_trouble.
SELECT count(*) FROM (SELECT 1 FROM message_history WHERE trouble = 'failed'
    LIMIT :most) AS found

-- name: count_failed
-- On idx_message_queue_tried.
SELECT count(*) FROM message_queue WHERE state = 'scheduled' AND attempt_count > 0
