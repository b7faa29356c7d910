-- A reentrant lock's state, in the wire format of Redisson's RLock: the holder's field is its count. Redisson's clients see no
-- queue. A release publishes on the lock's channel, and everybody who waits there tries again.
if #fields > 2 or holder and not (string.find(holder, ':%d+$') and string.find(fields[2], '^%d+$')) then
  return { err = 'WRONGTYPE the hash is no reentrant lock' }
end

local channel = 'redisson_lock__channel:' .. (string.find(KEYS[1], '{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}')
-- How many clients listen there, which may include the caller. In a cluster, they listen at any node or on the shard, and
-- a node knows only its own listeners. So in a cluster, and if the server doesn't tell, assume that another client waits.
local listening = not string.find(KEYS[2], '{', 1, true) and redis.pcall('PUBSUB', 'NUMSUB', channel)
waiting = listening and tonumber(listening[2]) or 2

local function held(token)
  return holder == token and 'exclusive'
end

local function compatible()
  return not holder
end

local function hold(token, _, ms)
  write(token, '1', ms)
end

-- Takes the lock from a token. Returns true if the token held it.
local function give_up(token)
  local held_it = take_back(token)
  if held_it then
    redis.pcall('PUBLISH', channel, '0')
    redis.pcall('SPUBLISH', channel, '0') -- unknown before Redis 7, which is no matter
  end
  return held_it
end
