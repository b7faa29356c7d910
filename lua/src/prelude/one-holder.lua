-- What a reentrant lock, a once and an election share. N is a HASH with one field, the holder's token, always with a TTL. The
-- part of the kind comes next: it checks the field and says what a new holder's field is.
local lingers = false
local fields = redis.call('HGETALL', KEYS[1])
local holder = fields[1] or false

local function purge()
end

-- Gives the lock to a token.
local function write(token, field, ms)
  redis.call('HSET', KEYS[1], token, field)
  redis.call('PEXPIRE', KEYS[1], text(ms))
  holder = token
end

-- Raises a token's remaining time to `ms` and returns the new value.
local function raise(_, _, ms)
  local left = cut(redis.call('PTTL', KEYS[1]))
  if left < ms then
    redis.call('PEXPIRE', KEYS[1], text(ms))
  end
  return math.max(left, ms)
end

-- Takes the lock from a token. Returns true if the token held it.
local function take_back(token)
  if holder ~= token then
    return false
  end
  redis.call('DEL', KEYS[1])
  holder = false
  return true
end

local function holders()
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

-- Only leasehold has onces and elections. Redisson has reentrant locks, but their waiters poll in addition to the messages.
local function foreign()
  return 0
end

-- The release of these kinds always runs the whole script.
local function mark_holder()
end
