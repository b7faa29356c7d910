-- A once's state. N is a HASH of the one holder -> `once <fence>`, always with a TTL. KEYS[5] is the result, if there is
-- one: `<writer's token> <its fence> <value>`. Then nobody is granted the lock. Reads every key before the first write, so a
-- key of the wrong type fails the script while nothing has changed.
local lingers = false
local fields = redis.call('HGETALL', KEYS[1])
local holder, held_fence = fields[1] or false, string.match(fields[2] or '', '^once (%d+)$')
if holder and (fields[3] or not held_fence) then
  return { err = 'WRONGTYPE the hash is no once' }
end
local writer, written, content = string.match(redis.call('GET', KEYS[5]) or '', '^(%S+) (%d+) (.*)$')
result = writer and { written, content }

local function purge()
end

local function held(token)
  return holder == token and 'once'
end

local function compatible(mode)
  return not holder and not result and mode == 'once'
end

local function hold(token, _, ms)
  held_fence = text(draw())
  redis.call('HSET', KEYS[1], token, 'once ' .. held_fence)
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

-- Takes the lock from a token, and stores the result that its release brings. Returns true if the token held the lock, or
-- if a copy of the release has stored its result.
local function give_up(token)
  if holder ~= token then
    return writer == token
  end
  redis.call('DEL', KEYS[1])
  holder = false
  if #ARGV == 6 then
    redis.call('SET', KEYS[5], token .. ' ' .. held_fence .. ' ' .. ARGV[4], 'PX', ARGV[3])
    result = true
  end
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

-- No other library has this kind of lock.
local function foreign()
  return 0
end

-- Its release always runs the whole script.
local function mark_holder()
end
