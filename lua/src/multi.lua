-- Takes several names at once if each of them is free or already the caller's. Otherwise changes nothing, except that it
-- drops dead waiters. Idempotent for each token.
-- KEYS    for each name: at + 1 N  2 queue  3 waiters; then fence
-- ARGV    1 ttl  and for each name a token
-- Answer  server us, ttl, then entered or again and the fence for each name;
--         or server us, what is left of the holder's TTL, busy, and the number of the name that is busy
local clock = redis.call('TIME')
local us = clock[1] * 1000000 + clock[2]
local now = math.floor(us / 1000)
local ttl = tonumber(ARGV[1])
local mine = {}

local unpack = table.unpack or unpack -- Lua 5.4 has the first, Lua 5.1 the second

-- Whether the token may not enter: a live waiter is ahead, or the token was given up. If the first 500 waiters are
-- dead, it drops them and answers true, because a live waiter may be behind them. A later call looks further.
local function busy(at, token)
  if redis.call('EXISTS', KEYS[at + 2]) == 0 then
    return false
  end
  if tonumber(redis.call('ZSCORE', KEYS[at + 2], token) or 0) < -now then
    return true
  end
  local waiters = redis.call('ZRANGEBYSCORE', KEYS[at + 2], '0', '+inf', 'LIMIT', '0', '500')
  local records = #waiters > 0 and redis.call('HMGET', KEYS[at + 3], unpack(waiters))
  for place = 1, #waiters do
    local expiry = string.match(records[place] or '', '(%d+)$')
    if expiry and tonumber(expiry) > now then
      return true
    end
  end
  if #waiters == 500 then
    redis.call('ZREM', KEYS[at + 2], unpack(waiters))
    redis.call('HDEL', KEYS[at + 3], unpack(waiters))
    return true
  end
end

-- Reads every key before the first write, so a key of the wrong type fails the script while nothing has changed.
local stored = redis.pcall('GET', KEYS[#KEYS])
if type(stored) == 'table' and not string.find(stored.err, 'WRONGTYPE') then
  return stored
end
local last = not stored and us + 1024
  or type(stored) == 'string' and string.match(stored, '^%d+$') and tonumber(stored) or 2 ^ 53
if last > 2 ^ 53 - 4096 then
  return { err = 'BADFENCE ' .. KEYS[#KEYS] .. ' holds no fence of this version' }
end
for name = 1, #ARGV - 1 do
  local at, token = 3 * name - 3, ARGV[name + 1]
  local holder = redis.call('GET', KEYS[at + 1])
  mine[name] = holder and string.match(holder, '^[^ *]*') == token
  if not mine[name] and (holder or busy(at, token)) then
    return { us, redis.call('PTTL', KEYS[at + 1]), 'busy', name }
  end
end

local fence = math.max(last + 1, us)
local text = string.format('%.0f', fence)
redis.call('SET', KEYS[#KEYS], text, 'KEEPTTL')
local reply = { us, ttl }
for name = 1, #ARGV - 1 do
  local at, token = 3 * name - 3, ARGV[name + 1]
  if not mine[name] then
    redis.call('SET', KEYS[at + 1], token .. ' ' .. text, 'PX', ARGV[1])
  elseif redis.call('PTTL', KEYS[at + 1]) < ttl then
    redis.call('PEXPIRE', KEYS[at + 1], ARGV[1])
  end
  reply[#reply + 1] = mine[name] and 'again' or 'entered'
  reply[#reply + 1] = fence
end
return reply
