-- Fences, the queue, grants, and the answer. The same for every kind.

-- How many fences a grant may use, from the script's fence on. Never more than about a millisecond ahead of the clock.
local function block(wanted)
  return math.max(1, math.min(wanted, us + 1024 - draw()))
end

local moved = false -- whether a waiter has left the queue

-- Removes a waiter from the queue.
local function drop(token)
  redis.call('ZREM', KEYS[3], token)
  redis.call('HDEL', KEYS[4], token)
  waiting, moved = waiting - 1, true
end

-- A token's score in the queue: when it joined, or the negative end of its tombstone in server ms.
local function score(token)
  return waiting + tombstones > 0 and tonumber(redis.call('ZSCORE', KEYS[3], token) or 0) or 0
end

-- Removes a token from the queue. Returns whether it was there.
local function leave(token)
  if score(token) <= 0 then
    return false
  end
  drop(token)
  return true
end

local function has_tombstone(token)
  return tombstones > 0 and score(token) < -now
end

-- Leaves a tombstone for a token: it can neither wait nor come back. Expired ones are deleted first, because a delete is
-- allowed at maxmemory.
local function leave_tombstone(token, ms)
  if ms == 0 then
    return
  end
  redis.call('ZREMRANGEBYSCORE', KEYS[3], text(-now), '(0')
  leave(token)
  redis.call('ZADD', KEYS[3], text(-now - ms), token)
  tombstones = redis.call('ZCOUNT', KEYS[3], '-inf', '(0')
  if redis.call('PTTL', KEYS[3]) < ms then
    redis.call('PEXPIRE', KEYS[3], text(ms))
  end
end

-- Drops the first waiters, which are dead.
local swept = 0
local function sweep(tokens, count)
  if count > 0 then
    redis.call('ZREM', KEYS[3], unpack(tokens, 1, count))
    redis.call('HDEL', KEYS[4], unpack(tokens, 1, count))
    waiting, swept, moved = waiting - count, swept + count, true
  end
end

-- The first live waiter. Dead waiters before it are dropped, in blocks. The first block is small, because most often no
-- waiter is dead. After 1,000 dead waiters, which take about 2 ms, it returns `true` in place of a token: it is not known
-- yet who the first live waiter is.
local function head()
  local size = 1
  while waiting > 0 do
    if swept >= 1000 then
      crowded = true
      return true
    end
    local tokens = redis.call('ZRANGE', KEYS[3], text(tombstones), text(tombstones + size - 1))
    local records = redis.call('HMGET', KEYS[4], unpack(tokens))
    for at, token in ipairs(tokens) do
      local mode, ttl, claim, wanted, expiry = string.match(records[at] or '', '^(.+) (%d+) (%d+) (%d+) %d+ (%d+)$')
      if expiry and tonumber(expiry) > now then
        sweep(tokens, at - 1)
        return token, mode, ttl, claim, wanted
      end
    end
    sweep(tokens, #tokens)
    size = math.min(10 * size, 500)
  end
end

-- A message that the server refuses is only a lost hint. It must not fail a script that has already written.
local function publish(token, payload)
  redis.pcall('PUBLISH', 'leasehold:' .. string.match(token, '^[^:]*'), payload)
end

-- Grants the head of the queue, or up to 64 readers or permits, for the waiter's claim window. The caller itself gets
-- its whole TTL. A waiter leaves the queue before it is written elsewhere, so that a grant is allowed at maxmemory.
local function grant(caller)
  for turn = 1, mixed and 0 or 65 do
    local token, mode, ttl, claim, wanted = head()
    local fits = mode and compatible(mode)
    if turn > 64 or not fits then
      -- No release grants the permits of a rate. So its new first waiter learns when to ask.
      if mode and per > 0 and moved and token ~= caller then
        local ms = fits and 0 or math.max(left(), 0)
        announce = function()
          publish(token, string.format('next %s %.0f ', token, ms) .. KEYS[1])
        end
      end
      return
    end
    local ms = tonumber(ttl)
    if token ~= caller then
      ms = math.min(ms, tonumber(claim))
    end
    drop(token)
    hold(token, mode, ms)
    local granted = { token = token, mode = string.match(mode, '^%S*'), block = block(tonumber(wanted)), ms = ms }
    if token == caller then
      mine = granted
    else
      grants[#grants + 1] = granted
    end
    -- Only a reader or permits leave room for the next waiter. Else it isn't that waiter's turn, and it isn't dropped.
    if mode ~= 'shared' and not string.find(mode, '^%d') then
      return
    end
  end
end

-- Writes the last fence, publishes the grants, and returns the answer.
local function answer(status, value, size, ms)
  if fence or stored and last > tonumber(stored) then
    if not fence or tombstones > 0 then
      -- Perhaps nothing was written yet. A delete first, because a release must be allowed at maxmemory.
      redis.call('ZREMRANGEBYSCORE', KEYS[3], text(-now), '(0')
    end
    redis.call('SET', KEYS[2], text(fence or last), 'KEEPTTL')
  end
  local reply = { status, value or 0, size or 0, us, ms or 0, waiting, foreign() }
  for _, to in ipairs(grants) do
    -- Lua 5.1's format would cut the name at a NUL byte.
    publish(to.token, string.format('grant %s %s %.0f %.0f %.0f %.0f %.0f ',
      to.token, to.mode, fence, to.block, us, to.ms, waiting) .. KEYS[1])
  end
  if announce then
    announce()
  end
  return reply
end
