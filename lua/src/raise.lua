-- Raises the last fence to the one that a quorum agreed on, if the token still holds the lease. Never lowers it.
-- KEYS    1 N  2 fence
-- ARGV    1 token  2 fence  3 ttl  4 retention
-- Answer  raised, gone or taken

local clock = redis.call('TIME')
local us = clock[1] * 1000000 + clock[2]
local holder = redis.call('GET', KEYS[1])
local last = tonumber(redis.call('GET', KEYS[2]) or 0) or 2 ^ 53

if not (last < 2 ^ 53 - 1) then
  return { err = 'BADFENCE ' .. KEYS[2] .. ' holds no fencing token: delete it' }
end
if holder ~= ARGV[1] then
  return { holder and 'taken' or 'gone', 0, 0, us, 0, -1, 0 }
end
if last < tonumber(ARGV[2]) then
  local keep = math.max(tonumber(ARGV[4]), 10 * ARGV[3], math.min(redis.call('PTTL', KEYS[2]), 2592000000))
  redis.call('SET', KEYS[2], ARGV[2], 'PX', string.format('%.0f', keep))
end
return { 'raised', 0, 0, us, redis.call('PTTL', KEYS[1]), -1, 0 }
