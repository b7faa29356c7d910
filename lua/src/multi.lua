-- Takes several locks at once if each of them is free or already the caller's. Otherwise changes nothing, except that it
-- drops dead waiters. Idempotent for each token.
-- KEYS    for each part: at + 1 N  2 queue  3 waiters, and unless it is exclusive 4 readers or permits; then fence
-- ARGV    1 ttl  and for each part a token and its mode: `exclusive`, `shared` or `<permits>/<limit>`
-- Answer  server us, ttl, then entered or again and the fence for each part;
--         or server us, what is left of the holder's TTL, busy, and the number of the first part that is busy
--@clock
local us = clock[1] * 1000000 + clock[2]
local now = math.floor(us / 1000)
local ttl = tonumber(ARGV[1])
local parts, at = {}, 0

local unpack = table.unpack or unpack -- Lua 5.4 has the first, Lua 5.1 the second

local function text(number)
  return string.format('%.0f', number)
end

-- Whether the token may not enter: a live waiter is ahead, or the token was given up. If the first 500 waiters are
-- dead, it drops them and answers true, because a live waiter may be behind them. A later call looks further.
local function busy(token)
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

-- When a share with this score ends, if it has not ended.
local function expiry(score)
  local ends = tonumber(score or 0)
  return ends > now and ends
end

-- A lock or a reader. A part that joins other readers keeps their TTL.
local function look_at_lock(part)
  local value, shared = redis.call('GET', KEYS[at + 1]), part.mode == 'shared'
  local readers = shared and value and string.match(value, '^shared[ *]%d+$')
  if not shared then
    part.mine = value and string.match(value, '^[^ *]*') == part.token
  elseif readers then
    part.mine = expiry(redis.call('ZSCORE', KEYS[at + 4], part.token))
  end
  part.joins = readers and redis.call('ZCOUNT', KEYS[at + 4], text(now + 1), '+inf') > 0
  -- Old readers count only while N is `shared`.
  part.over = shared and not value and redis.call('ZRANGE', KEYS[at + 4], '0', '99') or {}
  return not value and #part.over < 100 or part.joins, redis.call('PTTL', KEYS[at + 1])
end

-- Permits. If the HASH does not have all of them, the semaphore's own script puts it right.
local function look_at_semaphore(part)
  part.mine = expiry(redis.call('ZSCORE', KEYS[at + 1], part.token))
  local members, wanted = redis.call('ZCARD', KEYS[at + 1]), tonumber(part.wanted)
  local known = redis.call('HLEN', KEYS[at + 4]) == (members > 0 and members + 3 or 0)
  local used = members > 0 and (tonumber(redis.call('HGET', KEYS[at + 4], 'used')) or 1e9) or 0
  part.over = redis.call('ZRANGEBYSCORE', KEYS[at + 1], '-inf', text(now), 'LIMIT', '0', '100')
  for _, token in ipairs(part.over) do
    used = used - tonumber(string.match(redis.call('HGET', KEYS[at + 4], token) or '', '^%d+') or 0)
  end
  part.used = used + wanted
  local first = redis.call('ZRANGE', KEYS[at + 1], text(#part.over), text(#part.over), 'WITHSCORES')[2]
  return known and part.used <= math.max(tonumber(part.limit), wanted), first and math.floor(first) - now or -2
end

-- Reads every key before the first write, so a key of the wrong type fails the script while nothing has changed.
local stored = redis.pcall('GET', KEYS[#KEYS])
if type(stored) == 'table' and not string.find(stored.err, 'WRONGTYPE') then
  return stored
end
local last = not stored and us + 3072
  or type(stored) == 'string' and string.match(stored, '^%d+$') and tonumber(stored) or 2 ^ 53
if last > 2 ^ 53 - 4096 then
  return { err = 'BADFENCE ' .. KEYS[#KEYS] .. ' holds no fence of this version' }
end
for number = 1, (#ARGV - 1) / 2 do
  local part = { at = at, token = ARGV[2 * number], mode = ARGV[2 * number + 1] }
  part.wanted, part.limit = string.match(part.mode, '^(%d+)/(%d+)$')
  local look = part.wanted and look_at_semaphore or look_at_lock
  local free, left = look(part)
  if not part.mine and (not free or busy(part.token)) then
    return { us, left, 'busy', number }
  end
  parts[number] = part
  at = at + (part.mode == 'exclusive' and 3 or 4)
end

local fence = text(math.max(last + 1, us))
redis.call('SET', KEYS[#KEYS], fence, 'KEEPTTL')

local reply = { us, ttl }
for _, part in ipairs(parts) do
  at = part.at
  local token, over = part.token, part.mine and {} or part.over
  local ends = text(math.max(tonumber(part.mine) or 0, now + ttl))
  if part.wanted then
    redis.call('ZADD', KEYS[at + 1], ends, token)
    if not part.mine then
      redis.call('HSET', KEYS[at + 4], token, part.mode, 'used', text(part.used), 'limit', part.limit, 'fence', fence)
    end
  elseif part.mode == 'shared' then
    -- N first, because a delete would let a new lock in at maxmemory.
    if not part.mine then
      local ms = part.joins and math.min(redis.call('PTTL', KEYS[at + 1]), CUT_TTL) or 0
      redis.call('SET', KEYS[at + 1], 'shared ' .. fence, 'PX', text(math.max(ms, ttl)))
    end
    redis.call('ZADD', KEYS[at + 4], ends, token)
  elseif not part.mine then
    redis.call('SET', KEYS[at + 1], token .. ' ' .. fence, 'PX', ARGV[1])
  end
  -- After the new ones, so that no key is empty meanwhile.
  for _, other in ipairs(over) do
    if other ~= token and part.wanted then
      redis.call('ZREM', KEYS[at + 1], other)
      redis.call('HDEL', KEYS[at + 4], other)
    elseif other ~= token then
      redis.call('ZREM', KEYS[at + 4], other)
    end
  end
  if redis.call('PTTL', KEYS[at + 1]) < ttl then
    redis.call('PEXPIRE', KEYS[at + 1], ARGV[1])
  end
  if (part.wanted or part.mode == 'shared') and redis.call('PTTL', KEYS[at + 4]) < ttl then
    redis.call('PEXPIRE', KEYS[at + 4], ARGV[1])
  end
  reply[#reply + 1] = part.mine and 'again' or 'entered'
  reply[#reply + 1] = tonumber(fence)
end
return reply
