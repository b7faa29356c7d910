-- The fast path of an exclusive acquire: takes the lock if it is free, no client waits, and no token has a tombstone.
-- Changes nothing otherwise.
-- KEYS    1 N  2 queue  3 fence
-- ARGV    1 token and a space  2 ttl
-- Answer  the fence if it is the server's us; server us and the fence if the last fence was not below the clock; or 0

if redis.call('EXISTS', KEYS[1], KEYS[2]) ~= 0 then
  return 0
end
--@clock
local us = string.format('%s%06d', clock[1], clock[2])
local fence = us
local last = redis.pcall('SET', KEYS[3], us, 'KEEPTTL', 'GET')
-- The server has refused the write. The slow path reports why.
if type(last) == 'table' then
  return 0
end
-- Texts of 16 digits sort like their numbers.
if not last or #last ~= 16 or last >= us or string.find(last, '%D') then
  if not last or not string.match(last, '^%d+$') or tonumber(last) > 2 ^ 53 - 4096 then
    -- Restores the counter for the slow path.
    if last then
      redis.call('SET', KEYS[3], last, 'KEEPTTL')
    else
      redis.call('DEL', KEYS[3])
    end
    return 0
  end
  fence = string.format('%.0f', math.max(tonumber(last) + 1, tonumber(us)))
  redis.call('SET', KEYS[3], fence, 'KEEPTTL')
end
redis.call('SET', KEYS[1], ARGV[1] .. fence, 'PX', ARGV[2])
return fence == us and us or { us, fence }
