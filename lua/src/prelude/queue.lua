
-- Fences, the queue, grants, and the answer. The same for every kind.

-- The next fence, and how many are reserved from it on. Never more than about a millisecond ahead of the clock.
local function draw(wanted, ttl)
  local fence = math.max(last + 1, us)
  local block = math.max(1, math.min(wanted, us + 1024 - fence))
  last = fence + block - 1
  drawn = math.max(drawn or 0, 10 * ttl)
  return fence, block
end

-- Removes a token from the queue. Returns whether it was there.
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

-- Buries a token: it can neither wait nor come back. Expired ones are deleted first, because a delete is allowed at
-- maxmemory.
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

-- The first live waiter. Dead waiters before it are dropped.
local function head()
  while waiting > 0 do
    local token = redis.call('ZRANGE', KEYS[3], '0', '0')[1]
    local record = redis.call('HGET', KEYS[4], token) or ''
    local mode, ttl, claim, block, expiry = string.match(record, '^(%S+) (%d+) (%d+) (%d+) (%d+)$')
    if expiry and tonumber(expiry) > now then
      return token, mode, ttl, claim, block
    end
    leave(token)
  end
end

-- Grants the head of the queue, or all readers that stand there, for the waiter's claim window. The caller itself gets
-- its whole TTL. A waiter leaves the queue before it is written elsewhere, so that a grant is allowed at maxmemory.
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

-- A message that the server refuses is only a lost hint. It must not fail a script that has already written.
local function publish(token, payload)
  redis.pcall('PUBLISH', 'leasehold:' .. string.match(token, '^[^:]*'), payload)
end

-- Writes the last fence, publishes the grants, and returns the answer.
local function answer(status, value, block, ms)
  if drawn then
    local keep_ms = math.max(retention, drawn, math.min(redis.call('PTTL', KEYS[2]), 2592000000))
    redis.call('SET', KEYS[2], text(last), 'PX', text(keep_ms))
  end
  local reply = { status, value or 0, block or 0, us, ms or 0, waiting, foreign() }
  for _, to in ipairs(grants) do
    -- Lua 5.1's format would cut the name at a NUL byte.
    publish(to.token, string.format('grant %s %s %.0f %.0f %.0f %.0f %.0f ',
      to.token, to.mode, to.fence, to.block, us, to.ms, waiting) .. KEYS[1])
  end
  return reply
end
