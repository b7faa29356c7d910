-- Takes the lock, waits for it, shows that a waiter is alive, or refills a lease. Idempotent for each token.
-- KEYS    1 N  2 fence  3 queue  4 waiters  5 readers or permits  6 buried  7 none, which never exists
-- ARGV    1 token  2 mode  3 ttl  4 how (try, wait, refill)  5 claim window  6 block  7 retention  8 fleet
-- Answer  entered, again, waiting, busy, gone, taken or conflict

-- The fast path: the lock is free, nobody waits, and no token is buried.
if ARGV[2] == 'exclusive' and ARGV[4] ~= 'refill'
    and redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[5], KEYS[6]) == 0 then
  local clock, last = redis.call('TIME'), redis.call('GET', KEYS[2])
  local us, ttl = clock[1] * 1000000 + clock[2], ARGV[3] + 0
  local fence, keep, keep_ms = us, ARGV[7], 10 * ttl
  if last then
    fence = math.max((tonumber(last) or 2 ^ 53) + 1, us)
    keep_ms = math.max(keep_ms, math.min(redis.call('PTTL', KEYS[2]), 2592000000))
  end
  -- A last fence that no script can have written is handled below.
  if fence < 2 ^ 53 and fence % 1 == 0 then
    if keep_ms > keep + 0 then
      keep = string.format('%.0f', keep_ms)
    end
    local block = math.max(1, math.min(ARGV[6] + 0, us + 1024 - fence))
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
    redis.call('SET', KEYS[2], string.format('%.0f', fence + block - 1), 'PX', keep)
    return { 'entered', fence, block, us, ttl, 0, 0 }
  end
end

--@prelude
local token, mode, how, claim = ARGV[1], ARGV[2], ARGV[4], tonumber(ARGV[5])
local ttl, wanted = tonumber(ARGV[3]), tonumber(ARGV[6])

-- Every call of a waiter refreshes its record with the arguments of that call.
local function write_record()
  local record = table.concat({ mode, ARGV[3], ARGV[5], ARGV[6], text(now + claim) }, ' ')
  redis.call('HSET', KEYS[4], token, record)
  if redis.call('PTTL', KEYS[3]) < claim then
    redis.call('PEXPIRE', KEYS[3], text(claim))
  end
  if redis.call('PTTL', KEYS[4]) < claim then
    redis.call('PEXPIRE', KEYS[4], text(claim))
  end
end

local function join()
  local tail = waiting > 0 and redis.call('ZRANGE', KEYS[3], '-1', '-1', 'WITHSCORES')[2] or 0
  redis.call('ZADD', KEYS[3], text(math.max(tail + 1, us)), token)
  waiting = waiting + 1
  write_record()
end

-- At most 64 holders.
local function tell_holders(word)
  for _, holder in ipairs(holders(63)) do
    publish(holder, word .. KEYS[1])
  end
end

purge()

local holds = held(token)
if buried(token) then
  grant()
  return answer('gone')
end
if holds == mode then
  local ms = raise(token, mode, ttl)
  local fence, block = draw(wanted, ttl)
  grant()
  return answer('again', fence, block, ms)
end
if how == 'refill' then
  grant()
  return answer(absent())
end
if holds then
  grant()
  return answer('conflict')
end

-- Refresh the record before dead waiters are dropped, or a late head would drop itself.
local queued = waiting > 0 and redis.call('ZSCORE', KEYS[3], token)
if queued then
  write_record()
elseif propose then
  propose(mode)
end

-- First grant the waiters ahead of the caller. That may be all readers up to the caller.
grant(token)
if mine then
  return answer('entered', mine.fence, mine.block, mine.ms)
end
if compatible(mode) and (mixed or not head()) then
  if queued then
    leave(token)
  end
  hold(token, mode, ttl)
  local fence, block = draw(wanted, ttl)
  return answer('entered', fence, block, ttl)
end

-- Who holds it, and since which fence, if that is known of one client: for the error of a caller that gets nothing.
local function with_holder(reply)
  local some = holders(1)
  reply[8] = #some == 1 and some[1] or ''
  reply[9] = lingers and reply[8] == holder and last or 0
  return reply
end

if how == 'try' or mixed then
  local reply = with_holder(answer('busy', 0, 0, left()))
  -- The holder may only keep the lock for its own next caller.
  if lingers and not mixed and reply[7] == 0 then
    tell_holders('tried ')
  end
  return reply
end
if not queued then
  join()
end
local position = redis.call('ZRANK', KEYS[3], token) + 1
local reply = with_holder(answer('waiting', position, 0, left()))
if position == 1 and reply[7] == 0 then
  tell_holders('wanted ')
end
return reply
