-- Who holds the lock and who waits for it, at one moment. Writes nothing.
-- KEYS    1 N  2 fence  3 queue  4 waiters  5 readers  6 buried
-- Answer  server us, N's value or '', its PTTL, last fence or 0,
--         readers r, (token, expiry ms) x r, waiters w, (token, record or '') x w in queue order

local clock = redis.call('TIME')
local us = clock[1] * 1000000 + clock[2]
local holder = redis.call('GET', KEYS[1]) or ''
local last = tonumber(redis.call('GET', KEYS[2]) or 0) or 0
local live = string.format('(%.0f', math.floor(us / 1000))
local readers = redis.call('ZRANGEBYSCORE', KEYS[5], live, '+inf', 'WITHSCORES')
if holder ~= 'shared' then
  readers = {}
end

local reply = { us, holder, redis.call('PTTL', KEYS[1]), last, #readers / 2 }
for index = 1, #readers, 2 do
  reply[#reply + 1] = readers[index]
  reply[#reply + 1] = tonumber(readers[index + 1])
end

local fields = redis.call('HGETALL', KEYS[4])
local records = {}
for index = 1, #fields, 2 do
  records[fields[index]] = fields[index + 1]
end
local queue = redis.call('ZRANGE', KEYS[3], '0', '-1')
reply[#reply + 1] = #queue
for _, token in ipairs(queue) do
  reply[#reply + 1] = token
  reply[#reply + 1] = records[token] or ''
end
return reply
