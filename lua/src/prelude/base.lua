-- What acquire, release and convert share: the arguments, the clock, and the variables that change while the script
-- runs. The last two arguments of all of them are the fence's retention and the fleet.
local retention, mixed = tonumber(ARGV[#ARGV - 1]), ARGV[#ARGV] == 'mixed'

local clock = redis.call('TIME')
local us = clock[1] * 1000000 + clock[2]
local now = math.floor(us / 1000)

local waiting, graves = 0, 0 -- how many wait, how many tokens are buried
local granted_here = false -- whether N was written by this script
local drawn -- ten times the longest TTL that drew a fence here, if any did
local grants = {} -- what is published at the end
local mine -- the caller's own grant, if the queue reached it
local propose -- what a new acquire tells about the lock, if its kind wants to know

-- The last fence that was given out. If the value is no valid fence, no fence could rise above it, so nobody is
-- granted.
local last = tonumber(redis.call('GET', KEYS[2]) or 0) or 2 ^ 53
if not (last < 2 ^ 53 - 1) then
  return { err = 'BADFENCE ' .. KEYS[2] .. ' holds no fencing token: delete it' }
end
last = math.floor(last)

-- Lua 5.1's tostring loses digits, and some servers write 1e+8 for a bare number.
local function text(number)
  return string.format('%.0f', number)
end

-- No lease is longer than a day, and clients refuse an answer of more than 25 hours. A longer TTL is cut to just above
-- that.
local function cut(ms)
  return math.min(ms, 90000001)
end

-- Whether a holder's text is one of our tokens.
local function is_token(holder)
  return string.match(holder, '^%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x:%d+$')
end
