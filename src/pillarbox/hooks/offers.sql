-- name: make sqlite
INSERT INTO hook_offer (holder, until, lease_until) VALUES (:holder, :until, :lease_until)

-- name: withdraw sqlite
DELETE FROM hook_offer WHERE holder :in(holders text)

-- name: offering sqlite
SELECT holder FROM hook_offer

-- name: clear sqlite
-- Offers that nobody can take any more, of processes that went away without a word, or of another boot.
DELETE FROM hook_offer WHERE until <= :now OR until > :latest

-- name: handed bears_damage
-- What was claimed under an offer, by its name; on idx_hook_strand_lease, for a lease is cut at times, but never made longer before
-- somebody knows of it.
SELECT q.id, s.session_id, q.seq, q.event_type, q.created_at, q.attempt_count + 1, q.last_error, q.payload, q.took_effect,
    q.checksum, q.trace, s.token
FROM hook_strand s JOIN hook_outbox q ON q.session_id = s.session_id AND q.seq = s.head_seq
WHERE s.lease_until > :now AND s.lease_until <= :lease_until AND s.holder = :holder AND q.status IN ('pending', 'failed')
