
-- A reentrant lock's state, in the wire format of Redisson's RLock: N is a HASH of the one holder -> its count, always
-- with a TTL. Redisson's clients see no queue. A release publishes on the lock's channel, and everybody who waits there
-- tries again. Reads every key before the first write, so a key of the wrong type fails the script while nothing has
-- changed.
local lingers = false
local fields = redis.call('HGETALL', KEYS[1])
if #fields > 2 or fields[1] and not (string.find(fields[1], ':%d+$') and string.find(fields[2], '^%d+$')) then
  return { err = 'WRONGTYPE the hash is no reentrant lock' }
end
local holder = fields[1] or false

local channel = 'redisson_lock__channel:' .. (string.find(KEYS[1], '{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}')
-- How many clients listen there, which may include the caller. In a cluster, they listen at any node or on the shard, and
-- a node knows only its own listeners. So in a cluster, and if the server doesn't tell, assume that another client waits.
local listening = not string.find(KEYS[2], '{', 1, true) and redis.pcall('PUBSUB', 'NUMSUB', channel)
waiting = listening and tonumber(listening[2]) or 2

local function purge()
end

local function held(token)
  return holder == token and 'exclusive'
end

local function compatible()
  return not holder
end

local function hold(token, _, ms)
  redis.call('HSET', KEYS[1], token, '1')
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
local function give_up(token)
  if holder ~= token then
    return false
  end
  redis.call('DEL', KEYS[1])
  holder = false
  redis.pcall('PUBLISH', channel, '0')
  redis.pcall('SPUBLISH', channel, '0') -- unknown before Redis 7, which is no matter
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

-- Clients of other libraries don't matter here: all waiters poll in addition to the messages.
local function foreign()
  return 0
end

-- Its waiters never join the queue.
local function mark_holder()
end
