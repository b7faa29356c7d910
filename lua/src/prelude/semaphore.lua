
-- A semaphore's state: N is a ZSET of token -> expiry (ms), beside KEYS[5], a HASH of token -> mode with the sum `used`,
-- the `limit` and the last `fence`. A mode is `<permits>/<limit>`. The limit of the latest acquire counts. A request for more than the
-- limit is granted when everything else is free. The mode of a rate is `<permits>/<limit>/<per>`, and the HASH has `per`, too. Its
-- permits count for `per` ms from their grant on: no release gives them back, and nothing renews them. Reads every key before
-- the first write, so a key of the wrong type fails the script while nothing has changed.
local lingers = false
local members = redis.call('ZCARD', KEYS[1])
if members > 0 and not is_token(redis.call('ZRANGE', KEYS[1], '0', '0')[1]) then
  return { err = 'WRONGTYPE the sorted set is no semaphore' }
end
local known = redis.call('HLEN', KEYS[5])
local used, limit = 0, 0
if known > 0 then
  local counts = redis.call('HMGET', KEYS[5], 'used', 'limit', 'per')
  used, limit, per = tonumber(counts[1] or 0), tonumber(counts[2] or 0), tonumber(counts[3] or 0)
end
local is_whole = known == (members > 0 and members + (per > 0 and 4 or 3) or 0)

local function per_of(mode)
  return tonumber(string.match(mode, '^%d+/%d+/(%d+)$') or 0)
end

-- An acquire and a convert have a mode. Another `per` is another kind. Permits that have all ended are nobody's.
local asked = string.match(ARGV[2] .. ' ' .. ARGV[3], '%d+/%d+[/%d]*')
if asked and members > 0 and is_whole and per_of(asked) ~= per then
  if tonumber(redis.call('ZRANGE', KEYS[1], '-1', '-1', 'WITHSCORES')[2]) > now then
    return { err = 'WRONGTYPE the semaphore has another `per`, or none' }
  end
  redis.call('DEL', KEYS[1], KEYS[5])
  members, known, used, limit = 0, 0, 0, 0
end

-- Unknown permits count as more than the limit: somebody deleted the HASH under its holders.
local function permits(mode)
  return tonumber(mode and string.match(mode, '^%d+') or 1e9)
end

local function save()
  if members == 0 then
    redis.call('DEL', KEYS[5])
    used = 0
  else
    redis.call('HSET', KEYS[5], 'used', text(used), 'limit', text(limit))
    local ms = known == 0 and cut(redis.call('PTTL', KEYS[1])) or 0
    if ms > 0 then
      redis.call('PEXPIRE', KEYS[5], text(ms))
    end
  end
end

-- Takes the permits from a token. Returns true if the token held any. Those of a rate count until they end, unless they are taken
-- by force.
local function give_up(token, ends)
  if per > 0 and not ends then
    return members > 0 and tonumber(redis.call('ZSCORE', KEYS[1], token) or 0) > now
  end
  if redis.call('ZREM', KEYS[1], token) == 0 then
    return false
  end
  used = used - permits(redis.call('HGET', KEYS[5], token))
  redis.call('HDEL', KEYS[5], token)
  members = members - 1
  save()
  return true
end

local function purge()
  if not is_whole then
    used = 0
    for _, token in ipairs(redis.call('ZRANGE', KEYS[1], '0', '-1')) do
      used = used + permits(redis.call('HGET', KEYS[5], token))
    end
    -- The result is written with the next change, because a release must be allowed at maxmemory.
    if members == 0 then
      save()
    end
  end
  if members > 0 then
    -- At most 100, which take about a millisecond. The permits of the others count as used until the next call.
    local over = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', text(now), 'LIMIT', '0', '100')
    for _, token in ipairs(over) do
      give_up(token, true)
    end
    crowded = #over == 100 and members > 0
  end
end

-- The mode in which a token holds permits. If the server has lost it, `asked` counts, and so it does if only the limit differs.
local function held(token, asked)
  local expiry = members > 0 and redis.call('ZSCORE', KEYS[1], token)
  if expiry and tonumber(expiry) > now then
    local mode = redis.call('HGET', KEYS[5], token)
    return mode and permits(mode) ~= permits(asked) and mode or asked
  end
end

-- A new acquire brings the limit along.
propose = function(mode)
  limit = tonumber(string.match(mode, '/(%d+)'))
  if members > 0 then
    save()
  end
end

-- A waiter of another kind is never granted here. It asks for itself.
local function compatible(mode)
  local wanted = tonumber(string.match(mode, '^%d+'))
  if not wanted or members > 0 and per_of(mode) ~= per then
    return false
  end
  return used + wanted <= math.max(limit, wanted)
end

local function hold(token, mode, ms)
  if members == 0 then
    per = per_of(mode)
  end
  if per > 0 then
    -- The millisecond of the grant has begun before it. So the window lasts for the one after its last.
    ms = per + 1
  end
  if redis.call('ZADD', KEYS[1], text(now + ms), token) == 1 then
    members, used = members + 1, used + permits(mode)
    -- All holders had ended, and the limit with them. The limit of the first waiter counts.
    if limit == 0 then
      limit = tonumber(string.match(mode, '/(%d+)'))
    end
    redis.call('HSET', KEYS[5], token, mode, 'fence', text(draw()))
    if per > 0 then
      redis.call('HSET', KEYS[5], 'per', text(per))
    end
    save()
  end
  if redis.call('PTTL', KEYS[1]) < ms then
    redis.call('PEXPIRE', KEYS[1], text(ms))
  end
  if redis.call('PTTL', KEYS[5]) < ms then
    redis.call('PEXPIRE', KEYS[5], text(ms))
  end
end

-- Raises a token's remaining time to `ms` and returns the new value. That of a rate's permits stays.
local function raise(token, mode, ms)
  local rest = cut(math.floor(redis.call('ZSCORE', KEYS[1], token)) - now)
  if per > 0 then
    return rest
  end
  ms = math.max(ms, rest)
  hold(token, mode, ms)
  return ms
end

-- The holders, up to this position.
local function holders(till)
  return redis.call('ZRANGE', KEYS[1], '0', text(till))
end

-- When the first permits are free at the latest, unless they are renewed.
local function left()
  local first = redis.call('ZRANGE', KEYS[1], '0', '0', 'WITHSCORES')[2]
  return first and math.floor(first) - now or -2
end

-- The answer for a token that holds nothing. Never `taken`, because other holders don't take its place.
local function absent()
  return 'gone'
end

-- No other library uses this format.
local function foreign()
  return 0
end

-- A release always looks into the queue.
local function mark_holder()
end
