-- Raises the TTL of a lease that the token still holds. Never creates a lease. A TTL of 0 only asks. A TTL below 0 is
-- added to the time that is left, so that the client can wait for replicas afterwards. `renewed` always follows a
-- write, even if the TTL stays the same, so that a primary that has become a replica refuses it.
-- KEYS    1 N; for a reader's lease also 2 readers. For an exclusive lease only N, so that it is renewed while its slot
-- moves.
-- ARGV    1 token  2 ttl
-- Answer  renewed, gone or taken

--@clock
local us = clock[1] * 1000000 + clock[2]
local value = redis.call('GET', KEYS[1])
local holder = value and string.match(value, '^[^ *]*')
local ttl = tonumber(ARGV[2])

if not KEYS[2] and holder == ARGV[1] then
  local left = redis.call('PTTL', KEYS[1])
  local ms = ttl < 0 and left - ttl or math.max(left, ttl)
  if ms > 0 then
    redis.call('PEXPIRE', KEYS[1], string.format('%.0f', ms))
  end
  return { 'renewed', 0, 0, us, ms, -1, 0 }
end

local now = math.floor(us / 1000)
if KEYS[2] then
  local expiry = math.floor(redis.call('ZSCORE', KEYS[2], ARGV[1]) or 0)
  if holder ~= 'shared' then
    -- These readers are from before N was something else. Readers count only while N is `shared`.
    redis.call('DEL', KEYS[2])
  elseif expiry > now then
    local ms = ttl < 0 and expiry - now - ttl or math.max(expiry - now, ttl)
    -- N first, always. PEXPIRE is allowed at maxmemory, and so is ZADD after it.
    local keep = math.max(redis.call('PTTL', KEYS[1]), ms)
    redis.call('PEXPIRE', KEYS[1], string.format('%.0f', keep))
    redis.call('ZADD', KEYS[2], string.format('%.0f', now + ms), ARGV[1])
    if redis.call('PTTL', KEYS[2]) < ms then
      redis.call('PEXPIRE', KEYS[2], string.format('%.0f', ms))
    end
    return { 'renewed', 0, 0, us, ms, -1, 0 }
  elseif redis.call('ZCOUNT', KEYS[2], string.format('(%.0f', now), '+inf') == 0 then
    holder = false
  end
end

if not holder then
  return { 'gone', 0, 0, us, 0, -1, 0 }
end
local ours = string.match(value, '^shared[ *]%d+$')
    or string.match(value, '^%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x:%d+[ *]%d+$')
    and redis.call('PTTL', KEYS[1]) >= 0
return { 'taken', 0, 0, us, 0, -1, ours and 0 or 1 }
