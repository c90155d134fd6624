-- name: tenant
SELECT tenant_id, name, providers, settings, rate_per_minute, rate_until, created_at, updated_at
FROM tenants WHERE tenant_id = :tenant_id

-- name: lock_tenant
-- Whoever opts a contact out holds the tenant against everybody who is about to mark its messages as being sent.
SELECT tenant_id FROM tenants WHERE tenant_id = :tenant_id :lock(tenants)

-- name: lock_tenants
-- Likewise, of several at once.
SELECT tenant_id FROM tenants WHERE tenant_id :in(tenant_ids text) ORDER BY tenant_id :lock(tenants)

-- name: known_tenants
SELECT tenant_id FROM tenants WHERE tenant_id :in(tenant_ids text)

-- name: known_past_the_index sqlite bears_damage
-- A second look at tenants that seem to be gone, through the whole table: of a damaged index one entry hides a tenant that is there.
SELECT tenant_id FROM tenants NOT INDEXED WHERE tenant_id :in(tenant_ids text)

-- name: known_past_the_index postgres
SELECT tenant_id FROM tenants WHERE tenant_id :in(tenant_ids text)

-- name: opted_out
-- On idx_message_opt_out_contact; read after the tenants were held, never in the same statement, whose snapshot may be older.
SELECT o.tenant_id, o.contact, o.channel, o.opt_out_id
FROM :rows(tenant_id text, contact text) JOIN message_opt_out o ON o.tenant_id = rows.tenant_id AND o.contact = rows.contact

-- name: by_idempotency_keys
SELECT k.tenant_id, k.key, k.fingerprint, k.message_id, k.answer
FROM :rows(tenant_id text, key text) JOIN idempotency_key k ON k.tenant_id = rows.tenant_id AND k.key = rows.key

-- name: insert_idempotency_keys
-- In the enqueue's own transaction: the key exists exactly if the message does.
INSERT INTO idempotency_key (tenant_id, key, fingerprint, message_id, answer, created_at)
SELECT rows.tenant_id, rows.key, rows.fingerprint, rows.message_id, rows.answer, :now
FROM :rows(tenant_id text, key text, fingerprint text, message_id text, answer text) WHERE true
ON CONFLICT (tenant_id, key) DO NOTHING
RETURNING tenant_id, key

-- name: insert_history
INSERT INTO message_history
    (message_id, tenant_id, channel, status, max_attempts, priority, category, next_attempt_at, expires_at, error_message,
     contact, to_address, tags, trace, created_at, updated_at, subject, body_text, body_html, options, sealed, attachments, checksum)
SELECT rows.message_id, rows.tenant_id, rows.channel, rows.status, rows.max_attempts, rows.priority, rows.category,
    rows.next_attempt_at, rows.expires_at, rows.error_message, rows.contact, rows.to_address, rows.tags, rows.trace, :now, :now,
    rows.subject, rows.body_text, rows.body_html, rows.options, rows.sealed, rows.attachments, rows.checksum
FROM :rows(message_id text, tenant_id text, channel text, status text, max_attempts bigint, priority bigint, category text, next_attempt_at instant, expires_at instant, error_message text, contact text, to_address text, tags text, trace text, subject text, body_text text, body_html text, options text, sealed text, attachments text, checksum bigint)

-- name: insert_queue
INSERT INTO message_queue
    (message_id, tenant_id, channel, state, priority, next_attempt_at, expires_at, last_attempt, contacts)
SELECT rows.message_id, rows.tenant_id, rows.channel, rows.state, rows.priority, rows.next_attempt_at, rows.expires_at,
    rows.last_attempt, rows.contacts
FROM :rows(message_id text, tenant_id text, channel text, state text, priority bigint, next_attempt_at instant, expires_at instant, last_attempt bigint, contacts text)

-- name: insert_copies
INSERT INTO message_copy (tenant_id, contact, message_id)
SELECT rows.tenant_id, rows.contact, rows.message_id FROM :rows(tenant_id text, contact text, message_id text) WHERE true
ON CONFLICT (tenant_id, contact, message_id) DO NOTHING

-- name: insert_events
INSERT INTO message_event (message_id, event_id, type, at, detail)
SELECT rows.message_id, rows.event_id, rows.type, :now, rows.detail
FROM :rows(message_id text, event_id text, type text, detail text)

-- name: promote
-- What has fallen due becomes ready, a bounded number at a time, on idx_message_queue_scheduled.
UPDATE message_queue SET state = 'ready' WHERE message_id IN (
    SELECT message_id FROM message_queue WHERE state = 'scheduled' AND next_attempt_at <= :now
    ORDER BY next_attempt_at LIMIT :limit :skip_locked(message_queue))

-- name: expired bears_damage
-- On idx_message_queue_expiry; what is being sent is left to its attempt.
SELECT message_id FROM message_queue WHERE expires_at <= :now AND state <> 'sending'
ORDER BY expires_at LIMIT :limit :skip_locked(message_queue)

-- name: overdue bears_damage
SELECT message_id, attempt_count, last_attempt, claimed_at FROM message_queue
WHERE lease_until <= :now ORDER BY lease_until LIMIT :limit :skip_locked(message_queue)

-- name: ready_tenants bears_damage
-- Skips from tenant to tenant, a bounded number of them from where the last look ended, on idx_message_queue_ready.
WITH RECURSIVE walk(tenant_id, steps) AS (
    SELECT (SELECT min(q.tenant_id) FROM message_queue q WHERE q.state = 'ready' AND q.tenant_id > :after), 1
    UNION ALL
    SELECT (SELECT min(q.tenant_id) FROM message_queue q WHERE q.state = 'ready' AND q.tenant_id > walk.tenant_id), walk.steps + 1
    FROM walk WHERE walk.tenant_id IS NOT NULL AND walk.steps < :steps
)
SELECT walk.tenant_id, t.tenant_id, COALESCE(t.rate_per_minute, :default_rate), t.rate_until
FROM walk LEFT JOIN tenants t ON t.tenant_id = walk.tenant_id WHERE walk.tenant_id IS NOT NULL ORDER BY walk.tenant_id

-- name: share_tenants bears_damage
-- Those without a cap, and how they send: any number of nodes may claim for them at once, but no opt-out comes in between.
SELECT tenant_id, providers, settings FROM tenants
WHERE tenant_id :in(tenant_ids text) AND COALESCE(rate_per_minute, :default_rate) = 0
ORDER BY tenant_id :share(tenants)

-- name: hold_capped_tenants bears_damage
-- Those with a cap are claimed for by one node at a time, so that the cap holds.
SELECT tenant_id, providers, settings, COALESCE(rate_per_minute, :default_rate), rate_until FROM tenants
WHERE tenant_id :in(tenant_ids text) AND COALESCE(rate_per_minute, :default_rate) > 0
ORDER BY tenant_id :skip_locked(tenants)

-- name: count_sends
UPDATE tenants SET rate_until = rows.rate_until FROM :rows(tenant_id text, rate_until instant)
WHERE tenants.tenant_id = rows.tenant_id

-- name: ready postgres bears_damage
-- The most urgent of each tenant: priority, due time, age; on idx_message_queue_ready. Whose they are, by their row and by the index.
SELECT q.message_id, q.tenant_id, q.channel, q.contacts, q.expires_at, chosen.tenant_id FROM unnest(:tenant_ids::text[]) AS chosen(tenant_id) CROSS JOIN LATERAL (
    SELECT m.message_id, m.tenant_id, m.channel, m.contacts, m.expires_at, m.priority, m.next_attempt_at FROM message_queue m
    WHERE m.tenant_id = chosen.tenant_id AND m.state = 'ready'
    ORDER BY m.priority, m.next_attempt_at, m.message_id LIMIT :each :skip_locked(m)) q
ORDER BY q.tenant_id, q.priority, q.next_attempt_at, q.message_id

-- name: ready sqlite bears_damage
SELECT q.message_id, q.tenant_id, q.channel, q.contacts, q.expires_at, chosen.value FROM json_each(:tenant_ids) chosen JOIN message_queue q ON q.message_id IN (
    SELECT m.message_id FROM message_queue m WHERE m.tenant_id = chosen.value AND m.state = 'ready'
    ORDER BY m.priority, m.next_attempt_at, m.message_id LIMIT :each)
ORDER BY q.tenant_id, q.priority, q.next_attempt_at, q.message_id

-- name: take
-- The attempt is counted now, so that a message which kills its worker every time still ends.
UPDATE message_queue
SET state = 'sending', claimed_at = :now, lease_until = :lease_until, holder = :holder, token = message_queue.token + 1,
    attempt_count = message_queue.attempt_count + 1
WHERE message_id :in(message_ids text)
RETURNING message_id, token, attempt_count, last_attempt

-- name: hold_against_opt_outs
SELECT tenant_id FROM tenants WHERE tenant_id :in(tenant_ids text) ORDER BY tenant_id :share(tenants)

-- name: begin
-- Sends that begin long after their claim: whoever opts out from now on waits for them, as for those just claimed.
UPDATE message_queue SET claimed_at = :now
WHERE message_id IN (
    SELECT q.message_id FROM message_queue q JOIN :rows(message_id text, token bigint)
    ON q.message_id = rows.message_id AND q.token = rows.token
    WHERE q.lease_until IS NOT NULL AND (q.expires_at IS NULL OR q.expires_at > :now) ORDER BY q.message_id :lock(q))
RETURNING message_id

-- name: contents bears_damage
SELECT message_id, category, created_at, trace, checksum, to_address, subject, body_text, body_html, options, sealed, attachments
FROM message_history WHERE message_id :in(message_ids text)

-- name: held_by bears_damage
SELECT message_id, tenant_id, token, attempt_count, last_attempt FROM message_queue WHERE lease_until IS NOT NULL AND holder = :holder

-- name: renew
UPDATE message_queue SET lease_until = :lease_until
WHERE message_id IN (
    SELECT q.message_id FROM message_queue q JOIN :rows(message_id text, token bigint)
    ON q.message_id = rows.message_id AND q.token = rows.token
    WHERE q.lease_until IS NOT NULL ORDER BY q.message_id :lock(q))
RETURNING message_id, token

-- name: held
SELECT q.message_id, q.token FROM :rows(message_id text, token bigint) CROSS JOIN message_queue q
WHERE q.message_id = rows.message_id AND q.token = rows.token AND q.lease_until IS NOT NULL

-- name: hold
-- Fenced: only what is still held under the same token is settled.
SELECT q.message_id FROM :rows(message_id text, token bigint) CROSS JOIN message_queue q
WHERE q.message_id = rows.message_id AND q.token = rows.token AND q.lease_until IS NOT NULL ORDER BY q.message_id :lock(q)

-- name: remove
DELETE FROM message_queue WHERE message_id :in(message_ids text)

-- name: reschedule
-- What is given back at once keeps its place.
UPDATE message_queue
SET state = CASE WHEN rows.next_attempt_at <= :now THEN 'ready' ELSE 'scheduled' END,
    next_attempt_at = CASE WHEN rows.given_back = 1 AND rows.next_attempt_at <= :now THEN message_queue.next_attempt_at
        ELSE rows.next_attempt_at END,
    attempt_count = message_queue.attempt_count - rows.given_back,
    last_attempt = rows.last_attempt, claimed_at = NULL, lease_until = NULL, holder = NULL,
    tried_at = CASE WHEN rows.given_back = 1 THEN message_queue.tried_at ELSE :now END
FROM :rows(message_id text, next_attempt_at instant, given_back bigint, last_attempt bigint)
WHERE message_queue.message_id = rows.message_id

-- name: insert_accepted
INSERT INTO message_attempt (message_id, attempt, started_at, finished_at, outcome, status_code, provider)
SELECT rows.message_id, rows.attempt, rows.started_at, :now, 'accepted', rows.status_code, rows.provider
FROM :rows(message_id text, attempt bigint, started_at instant, status_code bigint, provider text) WHERE true
ON CONFLICT (message_id, attempt) DO NOTHING

-- name: insert_attempts
-- Of a message that was forgotten meanwhile nothing is kept that may name somebody or a file.
INSERT INTO message_attempt
    (message_id, attempt, started_at, finished_at, outcome, status_code, provider, error, request, response)
SELECT rows.message_id, rows.attempt, rows.started_at, :now, rows.outcome, rows.status_code, rows.provider,
    CASE WHEN h.contact IS NOT NULL THEN rows.error END, CASE WHEN h.contact IS NOT NULL THEN rows.request END,
    CASE WHEN h.contact IS NOT NULL THEN rows.response END
FROM :rows(message_id text, attempt bigint, started_at instant, outcome text, status_code bigint, provider text, error text, request text, response text)
CROSS JOIN message_history h WHERE h.message_id = rows.message_id
ON CONFLICT (message_id, attempt) DO NOTHING

-- name: settle_accepted
UPDATE message_history
SET status = rows.status, attempt_count = rows.attempt_count, next_attempt_at = NULL, last_attempt_at = rows.last_attempt_at,
    sent_at = :now, delivered_at = CASE WHEN rows.status = 'delivered' THEN :now::instant END, failed_at = NULL, error_message = NULL,
    provider = rows.provider, provider_msg_id = rows.provider_msg_id, updated_at = :now
FROM :rows(message_id text, status text, attempt_count bigint, last_attempt_at instant, provider text, provider_msg_id text)
WHERE message_history.message_id = rows.message_id

-- name: put_off
-- What is not to be sent before then, without an attempt.
UPDATE message_queue SET state = 'scheduled', next_attempt_at = :at WHERE message_id :in(message_ids text)

-- name: postpone_history
-- What was given back for later, without an attempt.
UPDATE message_history SET next_attempt_at = rows.next_attempt_at
FROM :rows(message_id text, next_attempt_at instant) WHERE message_history.message_id = rows.message_id

-- name: settle_history
-- Those that were not accepted.
UPDATE message_history
SET status = rows.status, attempt_count = rows.attempt_count, next_attempt_at = rows.next_attempt_at,
    last_attempt_at = rows.last_attempt_at, sent_at = NULL, delivered_at = NULL, failed_at = rows.failed_at,
    error_message = CASE WHEN message_history.contact IS NOT NULL THEN rows.error_message END, provider = rows.provider,
    provider_msg_id = NULL, updated_at = :now
FROM :rows(message_id text, status text, attempt_count bigint, next_attempt_at instant, last_attempt_at instant, failed_at instant, error_message text, provider text)
WHERE message_history.message_id = rows.message_id

-- name: end_history
-- Ended without a further attempt.
UPDATE message_history
SET status = rows.status, error_message = rows.error_message, next_attempt_at = NULL, updated_at = :now,
    failed_at = CASE WHEN rows.status = 'failed' THEN :now::instant END
FROM :rows(message_id text, status text, error_message text) WHERE message_history.message_id = rows.message_id

-- name: opt_out
INSERT INTO message_opt_out (opt_out_id, tenant_id, contact, channel, address, reason, created_at)
SELECT rows.opt_out_id, rows.tenant_id, rows.contact, rows.channel, rows.address, rows.reason, :now
FROM :rows(opt_out_id text, tenant_id text, contact text, channel text, address text, reason text) WHERE true
ON CONFLICT (tenant_id, contact, channel) DO NOTHING
RETURNING opt_out_id

-- name: opt_out_recipients
-- Their addresses as the history has them: of whom was forgotten meanwhile it has none.
INSERT INTO message_opt_out (opt_out_id, tenant_id, contact, channel, address, reason, created_at)
SELECT rows.opt_out_id, h.tenant_id, rows.contact, h.channel, h.to_address, rows.reason, :now
FROM :rows(opt_out_id text, message_id text, contact text, reason text)
JOIN message_history h ON h.message_id = rows.message_id WHERE true
ON CONFLICT (tenant_id, contact, channel) DO NOTHING

-- name: opt_out_of
SELECT opt_out_id, address, channel, reason, created_at FROM message_opt_out
WHERE tenant_id = :tenant_id AND contact = :contact AND channel = :channel

-- name: list_opt_outs
SELECT opt_out_id, address, channel, reason, created_at FROM message_opt_out
WHERE tenant_id = :tenant_id AND opt_out_id > :after ORDER BY opt_out_id LIMIT :limit

-- name: remove_opt_out
DELETE FROM message_opt_out WHERE tenant_id = :tenant_id AND opt_out_id = :opt_out_id RETURNING opt_out_id

-- name: sending_to
-- What a tenant has in flight, and to whom, on idx_message_queue_lease.
SELECT contacts, claimed_at FROM message_queue WHERE lease_until IS NOT NULL AND tenant_id = :tenant_id

-- name: earliest_due bears_damage
SELECT next_attempt_at FROM message_queue WHERE state = 'scheduled' ORDER BY next_attempt_at LIMIT 1

-- name: earliest_lease bears_damage
SELECT lease_until FROM message_queue WHERE lease_until IS NOT NULL ORDER BY lease_until LIMIT 1

-- name: earliest_expiry bears_damage
SELECT expires_at FROM message_queue WHERE expires_at IS NOT NULL AND state <> 'sending' ORDER BY expires_at LIMIT 1

-- name: any_ready
SELECT min(tenant_id) IS NOT NULL FROM message_queue WHERE state = 'ready'

-- name: holders bears_damage
SELECT DISTINCT holder FROM message_queue WHERE lease_until IS NOT NULL

-- name: end_leases
UPDATE message_queue SET lease_until = :now WHERE lease_until > :now AND holder :in(holders text)

-- name: overlong bears_damage
SELECT lease_until FROM message_queue WHERE lease_until > :horizon ORDER BY lease_until LIMIT 1

-- name: cut_leases
UPDATE message_queue SET lease_until = :lease_until WHERE lease_until > :horizon

-- name: oldest_messages bears_damage
-- A stretch of the history by age, on its primary key: ids grow with time.
SELECT message_id, status, created_at, updated_at, channel FROM message_history WHERE message_id > :after ORDER BY message_id LIMIT :limit

-- name: prune_history
-- Only what has ended.
DELETE FROM message_history WHERE message_id :in(message_ids text) AND status NOT IN ('pending', 'retrying') RETURNING message_id

-- name: prune_attempts
DELETE FROM message_attempt WHERE message_id :in(message_ids text)

-- name: remove_copies
DELETE FROM message_copy WHERE message_id :in(message_ids text)

-- name: prune_events
DELETE FROM message_event WHERE message_id :in(message_ids text)

-- name: prune_idempotency_keys
DELETE FROM idempotency_key WHERE (tenant_id, key) IN (
    SELECT k.tenant_id, k.key FROM idempotency_key k WHERE k.created_at < :before ORDER BY k.created_at LIMIT :limit)
RETURNING key

-- name: lock_queued
SELECT message_id, state FROM message_queue WHERE message_id = :message_id :lock(message_queue)

-- name: lock_history
SELECT tenant_id, channel, status, attempt_count, max_attempts, priority, contact FROM message_history
WHERE message_id = :message_id AND (:tenant_id = '' OR tenant_id = :tenant_id) :lock(message_history)

-- name: copies
SELECT contact FROM message_copy WHERE message_id = :message_id

-- name: requeue
UPDATE message_history
SET status = 'pending', next_attempt_at = :now, failed_at = NULL, error_message = NULL, expires_at = NULL, updated_at = :now
WHERE message_id = :message_id

-- name: insert_again
-- Its tokens begin far above those of its life before: a report that comes late from there stays late.
INSERT INTO message_queue
    (message_id, tenant_id, channel, state, priority, next_attempt_at, attempt_count, last_attempt, contacts, token)
SELECT :message_id, :tenant_id, :channel, 'ready', :priority, :now, :attempt_count, :last_attempt, :contacts,
    count(*) * 4294967296
FROM message_event WHERE message_id = :message_id AND type = 'retried'

-- name: sealing_key
SELECT key_id FROM sealing_key WHERE id = 1

-- name: remember_sealing_key
-- The first key that was used stays: what it hashed would not be found by another.
INSERT INTO sealing_key (id, key_id) VALUES (1, :key_id) ON CONFLICT (id) DO NOTHING
