-- name: pipes
-- Those that have something to do, now or at some time, or hold something that may have to be taken over; each looks at one entry
-- of an index.
SELECT 'hooks' WHERE EXISTS (SELECT 1 FROM hook_strand WHERE due_at IS NOT NULL)
    OR EXISTS (SELECT 1 FROM hook_strand WHERE lease_until IS NOT NULL)
UNION ALL SELECT 'inbound' WHERE EXISTS (SELECT 1 FROM inbound_strand WHERE due_at IS NOT NULL)
    OR EXISTS (SELECT 1 FROM inbound_strand WHERE lease_until IS NOT NULL)
UNION ALL SELECT 'outbound' WHERE EXISTS (SELECT 1 FROM message_queue)
