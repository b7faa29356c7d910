-- Takes several names at once if each of them is free or already the caller's. Otherwise changes nothing. Idempotent
-- for each token.
-- KEYS    for each name: at + 1 N  2 fence  3 queue  4 waiters  5 readers  6 buried  7 none
-- ARGV    1 ttl  2 retention  3.. a token for each name
-- Answer  server µs, ttl, then entered or again and the fence for each name;
--         or server µs, what is left of the holder's TTL, busy, and the number of the name that is busy
local clock = redis.call('TIME')
local us = clock[1] * 1000000 + clock[2]
local now = math.floor(us / 1000)
local ttl = tonumber(ARGV[1])
local mine, last = {}, {}

-- Whether the token may not enter: somebody else holds the lock, a live waiter is ahead, or the token was given up.
local function busy(at, token)
  if redis.call('EXISTS', KEYS[at + 3], KEYS[at + 6]) == 0 then
    return false
  end
  local till = redis.call('ZSCORE', KEYS[at + 6], token)
  if till and tonumber(till) > now then
    return true
  end
  for _, waiter in ipairs(redis.call('ZRANGE', KEYS[at + 3], '0', '-1')) do
    local expiry = string.match(redis.call('HGET', KEYS[at + 4], waiter) or '', '(%d+)$')
    if expiry and tonumber(expiry) > now then
      return true
    end
  end
end

-- Reads every key before the first write, so a key of the wrong type fails the script while nothing has changed.
for name = 1, #KEYS / 7 do
  local at, token = 7 * name - 7, ARGV[name + 2]
  local holder = redis.call('GET', KEYS[at + 1])
  last[name] = tonumber(redis.call('GET', KEYS[at + 2]) or 0) or 2 ^ 53
  if not (last[name] < 2 ^ 53 - 1) then
    return { err = 'BADFENCE ' .. KEYS[at + 2] .. ' holds no fencing token: delete it' }
  end
  mine[name] = holder == token
  if not mine[name] and (holder or busy(at, token)) then
    return { us, redis.call('PTTL', KEYS[at + 1]), 'busy', name }
  end
end

local reply = { us, ttl }
for name = 1, #KEYS / 7 do
  local at, token = 7 * name - 7, ARGV[name + 2]
  local fence = math.max(math.floor(last[name]) + 1, us)
  local keep = math.max(tonumber(ARGV[2]), 10 * ttl, math.min(redis.call('PTTL', KEYS[at + 2]), 2592000000))
  if not mine[name] then
    redis.call('SET', KEYS[at + 1], token, 'PX', ARGV[1])
  elseif redis.call('PTTL', KEYS[at + 1]) < ttl then
    redis.call('PEXPIRE', KEYS[at + 1], ARGV[1])
  end
  redis.call('SET', KEYS[at + 2], string.format('%.0f', fence), 'PX', string.format('%.0f', keep))
  -- Readers count only while N is `shared`.
  redis.call('DEL', KEYS[at + 5])
  reply[#reply + 1] = mine[name] and 'again' or 'entered'
  reply[#reply + 1] = fence
end
return reply
