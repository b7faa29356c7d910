-- Raises the remaining time of a semaphore's permits. Never creates any. A TTL of 0 or less works as in renew.
-- KEYS    1 N  2 permits
-- ARGV    1 token  2 ttl
-- Answer  renewed or gone

--@clock
local us = clock[1] * 1000000 + clock[2]
local now = math.floor(us / 1000)
local expiry = math.floor(redis.call('ZSCORE', KEYS[1], ARGV[1]) or 0)
if expiry <= now then
  return { 'gone', 0, 0, us, 0, -1, 0 }
end

local ttl = tonumber(ARGV[2])
local ms = ttl < 0 and expiry - now - ttl or math.max(expiry - now, ttl)
-- The TTLs first. PEXPIRE is allowed at maxmemory, and so is ZADD after it.
local keep = math.max(redis.call('PTTL', KEYS[1]), ms)
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', keep))
redis.call('PEXPIRE', KEYS[2], string.format('%.0f', keep))
redis.call('ZADD', KEYS[1], string.format('%.0f', now + ms), ARGV[1])
return { 'renewed', 0, 0, us, ms, -1, 0 }
