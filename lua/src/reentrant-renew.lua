-- Raises the TTL of a reentrant lock that the token still holds. Never creates a lock. A TTL of 0 or less works as in
-- renew.
-- KEYS    1 N
-- ARGV    1 token  2 ttl
-- Answer  renewed, gone or taken

--@clock
local us = clock[1] * 1000000 + clock[2]
if not redis.call('HGET', KEYS[1], ARGV[1]) then
  return { redis.call('EXISTS', KEYS[1]) == 0 and 'gone' or 'taken', 0, 0, us, 0, -1, 0 }
end

local ttl = tonumber(ARGV[2])
local left = redis.call('PTTL', KEYS[1])
local ms = ttl < 0 and left - ttl or math.max(left, ttl)
if ms > 0 then
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', ms))
end
return { 'renewed', 0, 0, us, ms, -1, 0 }
