-- What acquire, release and convert share: the state, purging, granting, the answer.
-- The last two arguments of all three are the fence's retention and the fleet.
local retention, mixed = tonumber(ARGV[#ARGV - 1]), ARGV[#ARGV] == 'mixed'

-- Every key is read before the first write, so that one of another type fails the script while nothing has changed.
local clock = redis.call('TIME')
local us = clock[1] * 1000000 + clock[2]
local now = math.floor(us / 1000)
local holder = redis.call('GET', KEYS[1])
local last = tonumber(redis.call('GET', KEYS[2]) or 0) or 0
local waiting, readers, graves = 0, 0, 0
if redis.call('EXISTS', KEYS[3], KEYS[4], KEYS[5], KEYS[6]) > 0 then
  waiting = redis.call('ZCARD', KEYS[3])
  redis.call('HLEN', KEYS[4])
  readers = redis.call('ZCARD', KEYS[5])
  graves = redis.call('ZCARD', KEYS[6])
end

local granted_here = false -- whether N was written by this script
local drawn -- ten times the longest TTL that drew a fence here, if any did
local grants = {} -- what is published at the end
local mine -- the caller's own grant, if the queue reached it

-- Lua 5.1's tostring loses digits, and some servers write 1e+8 for a bare number.
local function text(number)
  return string.format('%.0f', number)
end

-- A reader counts until its own expiry and only while N is `shared`.
local function purge_readers()
  if holder ~= 'shared' then
    if readers > 0 then
      redis.call('DEL', KEYS[5])
      readers = 0
    end
    return
  end
  if readers > 0 then
    readers = readers - redis.call('ZREMRANGEBYSCORE', KEYS[5], '-inf', text(now))
  end
  if readers == 0 then
    redis.call('DEL', KEYS[1])
    holder = false
  end
end

-- The mode in which a token holds the lock; readers were purged before.
local function held(token)
  if holder == token then
    return 'exclusive'
  end
  if holder == 'shared' and redis.call('ZSCORE', KEYS[5], token) then
    return 'shared'
  end
end

local function compatible(mode)
  return not holder or (holder == 'shared' and mode == 'shared')
end

-- The lock is free, or shared and so is the mode. `shared` keeps the longest TTL of its readers.
local function hold(token, mode, ms)
  granted_here = true
  if mode == 'exclusive' then
    redis.call('SET', KEYS[1], token, 'PX', text(ms))
    holder = token
    return
  end
  local keep = holder and math.max(redis.call('PTTL', KEYS[1]), ms) or ms
  redis.call('SET', KEYS[1], 'shared', 'PX', text(keep))
  readers = readers + redis.call('ZADD', KEYS[5], text(now + ms), token)
  if redis.call('PTTL', KEYS[5]) < ms then
    redis.call('PEXPIRE', KEYS[5], text(ms))
  end
  holder = 'shared'
end

-- Raises what a token holds to `ms` and answers what it has then.
local function raise(token, mode, ms)
  if mode == 'shared' then
    ms = math.max(ms, redis.call('ZSCORE', KEYS[5], token) - now)
    hold(token, mode, ms)
    return ms
  end
  local left = redis.call('PTTL', KEYS[1])
  if left < ms then
    redis.call('PEXPIRE', KEYS[1], text(ms))
  end
  granted_here = true
  return math.max(left, ms)
end

-- The next fence and how many are reserved from it on: never more than about a millisecond ahead of the clock.
local function draw(wanted, ttl)
  local fence = math.max(last + 1, us)
  local block = math.max(1, math.min(wanted, us + 1024 - fence))
  last = fence + block - 1
  drawn = math.max(drawn or 0, 10 * ttl)
  return fence, block
end

-- Whether the token was in the queue; it is not any more.
local function leave(token)
  local left = waiting > 0 and redis.call('ZREM', KEYS[3], token) == 1
  if left then
    redis.call('HDEL', KEYS[4], token)
    waiting = waiting - 1
  end
  return left
end

local function buried(token)
  local till = graves > 0 and redis.call('ZSCORE', KEYS[6], token)
  return till and tonumber(till) > now
end

-- A token that was given up neither waits nor comes back. What is over goes first: a delete passes at maxmemory.
local function bury(token, ms)
  if ms == 0 then
    return
  end
  redis.call('ZREMRANGEBYSCORE', KEYS[6], '-inf', text(now))
  leave(token)
  redis.call('ZADD', KEYS[6], text(now + ms), token)
  if redis.call('PTTL', KEYS[6]) < ms then
    redis.call('PEXPIRE', KEYS[6], text(ms))
  end
end

-- The first waiter that lives; the dead before it are dropped.
local function head()
  while waiting > 0 do
    local token = redis.call('ZRANGE', KEYS[3], '0', '0')[1]
    local record = redis.call('HGET', KEYS[4], token) or ''
    local mode, ttl, claim, block, expiry = string.match(record, '^(%l+) (%d+) (%d+) (%d+) (%d+)$')
    if expiry and tonumber(expiry) > now then
      return token, mode, ttl, claim, block
    end
    leave(token)
  end
end

-- Grants the head of the queue, or the run of readers there, for its claim window; the caller itself for its whole TTL.
-- A waiter leaves the queue before it is written elsewhere, so that a grant passes at maxmemory.
local function grant(caller)
  for _ = 1, mixed and 0 or 64 do
    local token, mode, ttl, claim, wanted = head()
    if not token or not compatible(mode) then
      return
    end
    local ms = tonumber(ttl)
    if token ~= caller then
      ms = math.min(ms, tonumber(claim))
    end
    leave(token)
    hold(token, mode, ms)
    local fence, block = draw(tonumber(wanted), ttl)
    if token == caller then
      mine = { fence = fence, block = block, ms = ms }
    else
      grants[#grants + 1] = { token = token, mode = mode, fence = fence, block = block, ms = ms }
    end
    if mode == 'exclusive' then
      return
    end
  end
end

-- Held by another library's client: no token of ours, or a key that never ends.
local function foreign()
  if granted_here or not holder or holder == 'shared' then
    return 0
  end
  local ours = string.match(holder, '^%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x:%d+$')
  return ours and redis.call('PTTL', KEYS[1]) >= 0 and 0 or 1
end

-- A refused message is a lost hint, not an error after the deed.
local function publish(token, payload)
  redis.pcall('PUBLISH', 'leasehold:' .. string.match(token, '^[^:]*'), payload)
end

-- Writes the last fence, publishes what was granted, and gives the answer.
local function answer(status, value, block, ms)
  if drawn then
    local keep = math.max(retention, drawn, redis.call('PTTL', KEYS[2]))
    redis.call('SET', KEYS[2], text(last), 'PX', text(keep))
  end
  local reply = { status, value or 0, block or 0, us, ms or 0, waiting, foreign() }
  for _, to in ipairs(grants) do
    -- Lua 5.1's format would end the name at a NUL byte.
    publish(to.token, string.format('grant %s %s %.0f %.0f %.0f %.0f %.0f ',
      to.token, to.mode, to.fence, to.block, us, to.ms, waiting) .. KEYS[1])
  end
  return reply
end
