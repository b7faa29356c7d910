-- What acquire, release, convert and force share: the arguments, the clock, and the variables that change while the
-- script runs. The last two arguments of all of them are the greatest fence that the caller used, and the fleet.
local mixed = ARGV[#ARGV] == 'mixed'

--@clock
local us = clock[1] * 1000000 + clock[2]
local now = math.floor(us / 1000)

local waiting, tombstones = 0, 0 -- how many wait, how many tombstones
local crowded = false -- whether more waiters are dead, or more holders are over, than one script removes
local granted_here = false -- whether N was written by this script
local grants = {} -- what is published at the end
local mine -- the caller's own grant, if the queue reached it
local result -- the stored result of a once: its fence and its value
local propose -- what a new acquire tells about the lock, if its kind wants to know
local epoch -- the fence of the lease, if its kind keeps it until the lease ends
local announce -- publishes what has changed, if its kind has something to say
local per = 0 -- a semaphore's rate: how long its permits count, in ms. 0 without a rate

-- The server's last fence. A lost counter begins above each fence that a block can still contain. A counter that these
-- scripts can't have written stops the script before it grants anything.
local stored = redis.pcall('GET', KEYS[2])
if type(stored) == 'table' and not string.find(stored.err, 'WRONGTYPE') then
  return stored
end
local last = not stored and us + 3072
  or type(stored) == 'string' and string.match(stored, '^%d+$') and tonumber(stored) or 2 ^ 53
if last > 2 ^ 53 - 4096 then
  return { err = 'BADFENCE ' .. KEYS[2] .. ' holds no fence of this version' }
end
local fence -- the fence for all grants of this script, if it grants anything

local unpack = table.unpack or unpack -- Lua 5.4 has the first, Lua 5.1 the second

-- Lua 5.1's tostring loses digits, and some servers write 1e+8 for a bare number.
local function text(number)
  return string.format('%.0f', number)
end

-- A longer TTL is none of ours: see limits.rs.
local function cut(ms)
  return math.min(ms, CUT_TTL)
end

-- Whether a holder's text is one of our tokens. A lock without a holder has none.
local function is_token(holder)
  return holder and string.match(holder, '^%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x:%d+$')
end

-- The fence of this script. It is greater than every fence before it on this server.
local function draw()
  fence = fence or math.max(last + 1, us)
  return fence
end

-- Makes the next fence greater than this one, which was used. A wrong number can't move the counter far.
local function pass(used_fence)
  last = math.max(last, math.min(used_fence, math.max(last, us) + 2048))
end
pass(tonumber(ARGV[#ARGV - 1]))

-- Reads the queue. The tombstones are its members with a negative score.
local function read_queue()
  waiting = redis.call('ZCARD', KEYS[3])
  if waiting > 0 then
    tombstones = redis.call('ZCOUNT', KEYS[3], '-inf', '(0')
    waiting = waiting - tombstones
    redis.call('HLEN', KEYS[4]) -- fails here, before the first write, if the key has another type
  end
end
read_queue()
