-- An election's state: N is a HASH of the leader's token -> `<fence> <value>`, always with a TTL. A mode is
-- `leader <value>`, so whatever grants the lock writes the value of the new leader. Observers listen on the channel
-- side(N,"leader"). Reads every key before the first write, so a key of the wrong type fails the script while nothing has
-- changed.
local lingers = false
local fields = redis.call('HGETALL', KEYS[1])
if #fields > 2 or fields[1] and not string.find(fields[2], '^%d+ ') then
  return { err = 'WRONGTYPE the hash is no election' }
end
local holder = fields[1] or false
epoch = holder and tonumber(string.match(fields[2], '^%d+'))

-- What observers are told: that nobody leads, or the new leader's time and value.
local ended, elected, value = false, false, ''
local channel = string.gsub(KEYS[3], 'queue$', 'leader')
announce = function()
  if elected then
    ended = epoch
  end
  if ended then
    local payload = string.format('leader %.0f %.0f %.0f ', ended, us, elected or 0) .. value
    redis.pcall('PUBLISH', channel, payload)
  end
end

local function purge()
end

local function held(token, asked)
  return holder == token and asked
end

-- A waiter of another kind is never granted here. It asks for itself.
local function compatible(mode)
  return not holder and string.sub(mode, 1, 7) == 'leader '
end

local function hold(token, mode, ms)
  holder, elected, value, epoch = token, ms, string.sub(mode, 8), draw()
  local record = text(epoch) .. ' ' .. value
  redis.call('HSET', KEYS[1], token, record)
  redis.call('PEXPIRE', KEYS[1], text(ms))
end

-- Raises the leader's remaining time to `ms` and returns the new value.
local function raise(_, _, ms)
  local left = cut(redis.call('PTTL', KEYS[1]))
  if left < ms then
    redis.call('PEXPIRE', KEYS[1], text(ms))
  end
  return math.max(left, ms)
end

-- Ends a token's term. Returns true if the token led.
local function give_up(token)
  if holder ~= token then
    return false
  end
  redis.call('DEL', KEYS[1])
  holder, ended = false, epoch
  return true
end

local function holders()
  return holder and { holder } or {}
end

-- When nobody leads at the latest, unless the leader renews its term.
local function left()
  return redis.call('PTTL', KEYS[1])
end

-- The answer for a token that holds nothing.
local function absent()
  return holder and 'taken' or 'gone'
end

-- No other library uses this format.
local function foreign()
  return 0
end

-- A release always looks into the queue.
local function mark_holder()
end
