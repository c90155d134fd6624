-- name: begin
-- KEYS[1]; lease id, lease in microseconds, owner, fingerprint, retention in milliseconds; '' is none, and a fingerprint begins with '='.
-- A key is leased to one caller at a time, and a processed key is never leased again.
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local name, owner, given = ARGV[1], ARGV[3], ARGV[4]
local status, lease_id, lease_until, fingerprint = unpack(
    redis.call('HMGET', KEYS[1], 'status', 'lease_id', 'lease_until', 'fingerprint'))
if not status then
    redis.call('HSET', KEYS[1], 'attempts', 0, 'first_seen', string.format('%.0f', now))
    status, lease_id, fingerprint = 'free', '', ''
end
local differs = given ~= '' and fingerprint ~= '' and given ~= fingerprint
if (status == 'free' and lease_id ~= name)
    or (status == 'leased' and tonumber(lease_until) <= now and not differs) then
    if status == 'free' or given ~= '' then fingerprint = given end
    status, lease_id, lease_until = 'leased', name, now + tonumber(ARGV[2])
    redis.call('HSET', KEYS[1], 'status', status, 'lease_id', name, 'owner', owner, 'fingerprint', fingerprint,
        'lease_until', string.format('%.0f', lease_until))
    redis.call('HINCRBY', KEYS[1], 'attempts', 1)
    differs = false
end
redis.call('HSET', KEYS[1], 'last_seen', string.format('%.0f', now))
if status ~= 'processed' then
    redis.call('PEXPIRE', KEYS[1], ARGV[5])
end
if status ~= 'free' and differs then return {'Mismatch'} end
if status == 'leased' and lease_id == name then return {'Acquired', string.format('%.0f', lease_until)} end
if status == 'processed' then return {'Processed', redis.call('HGET', KEYS[1], 'result') or ''} end
return {'Busy'}

-- name: extend
-- KEYS[1]; lease id, lease in microseconds, retention in milliseconds. Only the holder, in time or not.
local status, lease_id = unpack(redis.call('HMGET', KEYS[1], 'status', 'lease_id'))
if status ~= 'leased' or lease_id ~= ARGV[1] then return {'LeaseLost'} end
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local lease_until = string.format('%.0f', now + tonumber(ARGV[2]))
redis.call('HSET', KEYS[1], 'lease_until', lease_until, 'last_seen', string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {'Extended', lease_until}

-- name: mark
-- KEYS[1]; lease id, result, retention in milliseconds. Only the holder; the first mark counts, and its retention begins.
local status, lease_id = unpack(redis.call('HMGET', KEYS[1], 'status', 'lease_id'))
if not status or status == 'free' or lease_id ~= ARGV[1] then return {'LeaseLost'} end
if status == 'leased' then
    redis.call('HSET', KEYS[1], 'status', 'processed', 'lease_until', '', 'result', ARGV[2])
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return {'Processed'}

-- name: release
-- KEYS[1]; lease id. Only the holder; the lease keeps its name, so that releasing it again is the same.
local status, lease_id = unpack(redis.call('HMGET', KEYS[1], 'status', 'lease_id'))
if not status or status == 'processed' or lease_id ~= ARGV[1] then return {'LeaseLost'} end
redis.call('HSET', KEYS[1], 'status', 'free', 'lease_until', '')
return {'Released'}

-- name: look
-- KEYS[1]. A lease that is over is anybody's.
local found = redis.call('HMGET', KEYS[1], 'status', 'attempts', 'first_seen', 'last_seen', 'lease_until')
if not found[1] then return {} end
local now = redis.call('TIME')
if found[1] == 'leased' and tonumber(found[5]) <= now[1] * 1000000 + now[2] then found[1] = 'free' end
return found
