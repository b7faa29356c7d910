-- A lock's state: N is `<holder> <fence>`, where the holder is a token, or `shared` beside KEYS[5], a ZSET of reader ->
-- its own expiry. `*` in place of the space says that clients wait, so that the fast release leaves the lock to the
-- slow one. Any other value is the token of another library's client. Reads every key that counts before the first write,
-- so one of the wrong type fails the script while nothing has changed. KEYS[5] counts only while N is `shared`.
local lingers = true -- a client can keep a lock that nobody holds
local holder, mark, held_fence = redis.call('GET', KEYS[1])
if holder then
  local token, sign, number = string.match(holder, '^([^ *]+)([ *])(%d+)$')
  if token then
    holder, mark, held_fence = token, sign, number
  end
end
local readers = holder == 'shared' and redis.call('ZCARD', KEYS[5]) or 0

-- A reader counts until its own expiry and only while N is `shared`. If the readers were evicted, `shared` stays until
-- its TTL is over and nobody enters, because the readers may still be valid.
local function purge()
  if readers > 0 then
    readers = readers - redis.call('ZREMRANGEBYSCORE', KEYS[5], '-inf', text(now))
    if readers == 0 then
      redis.call('DEL', KEYS[1])
      holder = false
    end
  end
end

-- The mode in which a token holds the lock. Expired readers were purged before.
local function held(token)
  if holder == token then
    return 'exclusive'
  end
  if readers > 0 and redis.call('ZSCORE', KEYS[5], token) then
    return 'shared'
  end
end

-- A waiter of another kind is never granted here. It asks for itself.
local function compatible(mode)
  if mode == 'shared' then
    return not holder or readers > 0
  end
  return not holder and mode == 'exclusive'
end

-- Tells the holder's client that others wait, when it gives the lock back.
local function mark_holder()
  if mark == ' ' and (holder == 'shared' or is_token(holder)) then
    redis.call('SET', KEYS[1], holder .. '*' .. held_fence, 'KEEPTTL')
    mark = '*'
  end
end

local function write_holder(token, ms)
  holder, mark, held_fence = token, waiting > 0 and '*' or ' ', text(draw())
  redis.call('SET', KEYS[1], holder .. mark .. held_fence, 'PX', text(ms))
  granted_here = true
end

-- Requires that the lock is free, or that both the lock and the mode are shared. `shared` keeps the longest TTL of its
-- readers.
local function hold(token, mode, ms)
  if mode == 'exclusive' then
    return write_holder(token, ms)
  end
  if holder then
    write_holder('shared', math.max(cut(redis.call('PTTL', KEYS[1])), ms))
  else
    -- N first, because a delete would let a new lock in at maxmemory.
    write_holder('shared', ms)
    -- Readers from before N was something else don't count.
    redis.call('DEL', KEYS[5])
  end
  readers = readers + redis.call('ZADD', KEYS[5], text(now + ms), token)
  if redis.call('PTTL', KEYS[5]) < ms then
    redis.call('PEXPIRE', KEYS[5], text(ms))
  end
end

-- Raises a token's remaining time to `ms` and returns the new value.
local function raise(token, mode, ms)
  if mode == 'shared' then
    ms = math.max(ms, cut(math.floor(redis.call('ZSCORE', KEYS[5], token)) - now))
    hold(token, mode, ms)
    return ms
  end
  local left = cut(redis.call('PTTL', KEYS[1]))
  if left < ms then
    redis.call('PEXPIRE', KEYS[1], text(ms))
  end
  granted_here = true
  return math.max(left, ms)
end

-- Takes the lock, or its share of it, from a token. Returns true if the token held anything.
local function give_up(token)
  if holder == token then
    redis.call('DEL', KEYS[1])
    holder = false
    return true
  end
  if readers == 0 or redis.call('ZREM', KEYS[5], token) == 0 then
    return false
  end
  -- Only this lowers the TTL of `shared`: to the expiry of the last remaining reader.
  readers = readers - 1
  if readers > 0 then
    local latest = redis.call('ZRANGE', KEYS[5], '-1', '-1', 'WITHSCORES')[2]
    redis.call('PEXPIRE', KEYS[1], text(latest - now))
  else
    redis.call('DEL', KEYS[1])
    holder = false
  end
  return true
end

-- The holders, up to this position. `shared` itself stands for readers that were evicted.
local function holders(till)
  if readers > 0 then
    return redis.call('ZRANGE', KEYS[5], '0', text(till))
  end
  return holder and { holder } or {}
end

-- When the lock is free at the latest, unless it is renewed.
local function left()
  return redis.call('PTTL', KEYS[1])
end

-- The answer for a token that holds nothing.
local function absent()
  return holder and 'taken' or 'gone'
end

-- Whether another library's client holds the lock: the value is none of ours, or the key never ends.
local function foreign()
  if granted_here or not holder or holder == 'shared' then
    return 0
  end
  return mark and is_token(holder) and redis.call('PTTL', KEYS[1]) >= 0 and 0 or 1
end
