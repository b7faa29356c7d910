-- Gives up whatever a token has: the lock, a reader's share of it, or its place in the queue.
-- KEYS    1 N  2 fence  3 queue  4 waiters  5 readers or permits  6 none, which never exists
-- ARGV    1 token  2 tombstone (ms, 0: none)  3 used fence  4 fleet; for a once with a result: 1 token  2 tombstone
--         3 keep (ms)  4 value  5 the fence of its work  6 fleet
-- Answer  released, left, gone or taken

-- Returns early: the exclusive holder hands the lock over to the first waiter, which wants it exclusively. It needs no
-- functions, which cost more than the commands.
local value = ARGV[2] == '0' and ARGV[3] == '0' and ARGV[4] == 'native' and redis.call('GET', KEYS[1])
if value and string.match(value, '^(.*)%*%d+$') == ARGV[1] then
  local first = redis.call('ZRANGEBYSCORE', KEYS[3], '0', '+inf', 'LIMIT', '0', '1')[1]
  local record = first and redis.call('HGET', KEYS[4], first) or ''
  local ttl, claim, block, expiry = string.match(record, '^exclusive (%d+) (%d+) (%d+) %d+ (%d+)$')
  --@clock
  -- Not if the first waiter is dead.
  if expiry and tonumber(expiry) > clock[1] * 1000 + math.floor(clock[2] / 1000) then
    local us, token, ms = string.format('%s%06d', clock[1], clock[2]), first, ttl + 0 < claim + 0 and ttl or claim
    local last = redis.pcall('SET', KEYS[2], us, 'KEEPTTL', 'GET')
    if type(last) == 'string' and #last == 16 and last < us and not string.find(last, '%D') then
      redis.call('ZREM', KEYS[3], token)
      redis.call('HDEL', KEYS[4], token)
      local waiting = redis.call('ZCOUNT', KEYS[3], '0', '+inf')
      local mark = waiting > 0 and '*' or ' '
      redis.call('SET', KEYS[1], token .. mark .. us, 'PX', ms)
      block = block + 0 > 1024 and 1024 or block + 0 < 1 and 1 or block
      local payload = 'grant ' .. token .. ' exclusive ' .. us .. ' ' .. block .. ' ' .. us .. ' ' .. ms .. ' '
        .. waiting .. ' ' .. KEYS[1]
      redis.pcall('PUBLISH', 'leasehold:' .. string.match(token, '^[^:]*'), payload)
      return { 'released', 0, 0, tonumber(us), 0, waiting, 0 }
    end
    -- The server is at maxmemory, or its last fence is unusual. The slow path finds the counter as it was.
    if type(last) == 'string' then
      redis.call('SET', KEYS[2], last, 'KEEPTTL')
    elseif not last then
      redis.call('DEL', KEYS[2])
    end
  end
end

--@prelude
local token = ARGV[1]

purge()

local status = give_up(token) and 'released' or leave(token) and 'left' or absent()
leave_tombstone(token, tonumber(ARGV[2]))
grant()
local reply = answer(status)
-- All who wait for a result are told at once, so a dead waiter delays nobody. At most 64: the others ask with their next
-- heartbeat.
if result and status == 'released' then
  for _, waiter in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '0', '+inf', 'LIMIT', '0', '64')) do
    publish(waiter, 'done ' .. KEYS[1])
  end
end
return reply
