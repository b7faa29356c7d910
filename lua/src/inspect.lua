-- Tells who holds a lock of any kind and who waits for it, at one moment: the first 1,000 waiters, and how many there are.
-- Writes nothing where `TIME` is allowed.
-- KEYS    1 N  2 fence  3 queue  4 waiters  5 readers  6 permits
-- Answer  server us, the one holder, `shared`, or '', its PTTL, the fence of the last grant or 0,
--         readers r, (token, expiry ms) x r, waiters w, (token, record or '', joined us) x w in queue order,
--         the fence of the one holder or 0, how many wait in all, a semaphore's limit or nil, a rate's `per` or nil

--@clock
local us = clock[1] * 1000000 + clock[2]
local kind, holder = redis.call('TYPE', KEYS[1]).ok, ''
local readers = {}
local last, limit, per = 0, false, false
local live = string.format('(%.0f', math.floor(us / 1000))
if kind == 'hash' then
  local fields = redis.call('HGETALL', KEYS[1])
  holder = fields[1]
  -- The count of a reentrant lock, a once's fence, or an election's fence and value.
  last = string.match(fields[2], '^once (%d+)$') or string.match(fields[2], '^(%d+) ') or 0
  if #fields > 2 or not string.find(holder, ':%d+$') or last == 0 and not string.find(fields[2], '^%d+$') then
    return { err = 'WRONGTYPE the hash is no reentrant lock, no once and no election' }
  end
  last = tonumber(last)
elseif kind == 'zset' then
  local uuid = string.rep('%x', 8) .. string.rep('%-%x%x%x%x', 3) .. '%-' .. string.rep('%x', 12)
  if not string.match(redis.call('ZRANGE', KEYS[1], '0', '0')[1], '^' .. uuid .. ':%d+$') then
    return { err = 'WRONGTYPE the sorted set is no semaphore' }
  end
  readers = redis.call('ZRANGEBYSCORE', KEYS[1], live, '+inf', 'WITHSCORES')
  local fields = redis.call('HMGET', KEYS[6], 'fence', 'limit', 'per')
  last, limit, per = tonumber(fields[1] or 0), fields[2] or false, fields[3] or false
else
  holder = redis.call('GET', KEYS[1]) or ''
  local token, fence = string.match(holder, '^([^ *]+)[ *](%d+)$')
  if token then
    holder, last = token, tonumber(fence)
  end
  if holder == 'shared' then
    readers = redis.call('ZRANGEBYSCORE', KEYS[5], live, '+inf', 'WITHSCORES')
  end
end

local reply = { us, holder, redis.call('PTTL', KEYS[1]), last, math.floor(#readers / 2) }
for index = 1, #readers, 2 do
  reply[#reply + 1] = readers[index]
  reply[#reply + 1] = math.floor(readers[index + 1])
end

local queue = redis.call('ZRANGEBYSCORE', KEYS[3], '0', '+inf', 'WITHSCORES', 'LIMIT', '0', '1000')
local tokens = {}
for index = 1, #queue, 2 do
  tokens[#tokens + 1] = queue[index]
end
local records = #tokens > 0 and redis.call('HMGET', KEYS[4], (table.unpack or unpack)(tokens))
reply[#reply + 1] = #tokens
for place, token in ipairs(tokens) do
  reply[#reply + 1] = token
  reply[#reply + 1] = records[place] or ''
  reply[#reply + 1] = math.floor(queue[2 * place])
end
-- The leader, the writer, or the holder of a mutex or a once, drew the last fence, which is about the time of its grant.
reply[#reply + 1] = kind ~= 'zset' and holder ~= 'shared' and last or 0
reply[#reply + 1] = redis.call('ZCOUNT', KEYS[3], '0', '+inf')
reply[#reply + 1] = limit
reply[#reply + 1] = per
return reply
