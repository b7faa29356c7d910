-- Raises a quorum's last fence to the one that it agreed on, if the token still holds the lease. Never lowers it.
-- KEYS    1 N  2 fence; for a reader's lease also 3 readers
-- ARGV    1 token  2 fence
-- Answer  raised, gone or taken

--@clock
local us = clock[1] * 1000000 + clock[2]
local holder = redis.call('GET', KEYS[1])
local stored = redis.pcall('GET', KEYS[2]) or '0'
if type(stored) == 'table' and not string.find(stored.err, 'WRONGTYPE') then
  return stored
end
local last = type(stored) == 'string' and string.match(stored, '^%d+$') and tonumber(stored) or 2 ^ 53
if last > 2 ^ 53 - 4096 then
  return { err = 'BADFENCE ' .. KEYS[2] .. ' holds no fence of this version' }
end
local of = holder and string.match(holder, '^[^ *]*')
local now = math.floor(us / 1000)
local expiry = KEYS[3] and of == 'shared' and math.floor(redis.call('ZSCORE', KEYS[3], ARGV[1]) or 0)
if not of or of ~= ARGV[1] and not (expiry and expiry > now) then
  return { holder and 'taken' or 'gone', 0, 0, us, 0, -1, 0 }
end
if last < tonumber(ARGV[2]) then
  redis.call('SET', KEYS[2], ARGV[2], 'KEEPTTL')
end
local waiting = string.find(holder, '*', 1, true) and 1 or 0
return { 'raised', 0, 0, us, expiry and expiry - now or redis.call('PTTL', KEYS[1]), waiting, 0 }
