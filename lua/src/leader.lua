-- Tells who leads an election. Writes nothing where `TIME` is allowed.
-- KEYS    1 N
-- Answer  server us, what is left of the leader's TTL, `<fence> <value>` or ''

--@clock
local fields = redis.call('HGETALL', KEYS[1])
if #fields > 2 or fields[1] and not string.find(fields[2], '^%d+ ') then
  return { err = 'WRONGTYPE the hash is no election' }
end
return { clock[1] * 1000000 + clock[2], redis.call('PTTL', KEYS[1]), fields[2] or '' }
