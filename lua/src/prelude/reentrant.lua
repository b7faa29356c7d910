
-- A reentrant lock's state, in the wire format of Redisson's RLock: N is a HASH of the one holder -> its count, always with a TTL.
-- Its clients see no queue: whoever releases says so on the lock's channel, and everybody who waits there tries again.
-- Every key is read before the first write, so that one of another type fails the script while nothing has changed.
local fields = redis.call('HGETALL', KEYS[1])
if #fields > 2 or fields[1] and not string.match(fields[1] .. '=' .. fields[2], ':%d+=%d+$') then
  return { err = 'WRONGTYPE the hash is no reentrant lock' }
end
local holder = fields[1] or false
if redis.call('EXISTS', KEYS[6]) > 0 then
  graves = redis.call('ZCARD', KEYS[6])
end

local channel = 'redisson_lock__channel:' .. (string.find(KEYS[1], '{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}')
-- How many listen there. Where it can't be told, others wait. On a cluster Redisson's clients listen on the shard.
local listening = redis.pcall('PUBSUB', 'NUMSUB', channel)
waiting = listening.err and 1 or tonumber(listening[2])
if waiting == 0 then
  listening = redis.pcall('PUBSUB', 'SHARDNUMSUB', channel)
  waiting = listening.err and 0 or tonumber(listening[2])
end

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

-- Raises what a token holds to `ms` and answers what it has then.
local function raise(_, _, ms)
  local left = cut(redis.call('PTTL', KEYS[1]))
  if left < ms then
    redis.call('PEXPIRE', KEYS[1], text(ms))
  end
  return math.max(left, ms)
end

-- Takes away what a token holds. True if it held anything.
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

-- When it is free at the latest, unless it is renewed.
local function left()
  return redis.call('PTTL', KEYS[1])
end

-- What a token that holds nothing is told.
local function absent()
  return holder and 'taken' or 'gone'
end

-- Everybody polls beside its messages, so that it does not matter.
local function foreign()
  return 0
end
