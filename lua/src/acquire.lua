-- Takes the lock, waits for it, shows that a waiter is alive, or refills a lease. Idempotent for each token.
-- KEYS    1 N  2 fence  3 queue  4 waiters  5 readers or permits  6 none, which never exists
-- ARGV    1 token  2 mode  3 ttl  4 how (try, wait, refill; see below)  5 claim window  6 block  7 used fence (0)  8 fleet
-- How     `wait` is for one caller. `wait 3` is for three callers of one client. `wait 3/10` also asks how many callers wait with
--         other tokens, and does not join the queue if they are 10 or more
-- Answer  entered, again, waiting, busy, done, gone, taken or conflict

-- Returns early: another client holds the lock exclusively, so nobody can be granted. The caller joins the queue, shows
-- that it is alive, or hears that the lock is busy. It needs no functions, which cost more than the commands.
local value = ARGV[4] ~= 'refill' and ARGV[8] == 'native' and not string.find(ARGV[4], '/') and redis.call('GET', KEYS[1])
local holder, mark, since = string.match(value or '',
  '^(%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x:%d+)([ *])(%d+)$')
if holder and holder ~= ARGV[1] then
  --@clock
  local us, now = clock[1] * 1000000 + clock[2], clock[1] * 1000 + math.floor(clock[2] / 1000)
  local left, last = redis.call('PTTL', KEYS[1]), redis.call('ZRANGE', KEYS[3], '-1', '-1', 'WITHSCORES')
  -- Tombstones have negative scores. So if the last one is a tombstone, nobody waits.
  local tail, first, waiting = tonumber(last[2] or 0), false, 0
  local usual = left > 0
  if usual and tail > 0 then
    first = redis.call('ZRANGEBYSCORE', KEYS[3], '0', '+inf', 'LIMIT', '0', '1')[1]
    waiting = redis.call('ZCOUNT', KEYS[3], '0', '+inf')
    local expiry = first == ARGV[1] or string.match(redis.call('HGET', KEYS[4], first) or '', '%d+$')
    usual = expiry == true or expiry and tonumber(expiry) > now
  end
  -- How many are behind the caller, if it is in the queue. All waiters are behind a tombstone. A waiter without a
  -- subscription tries, and stays alive by that.
  local behind = usual and last[1] and redis.call('ZREVRANK', KEYS[3], ARGV[1])
  if behind and (behind >= waiting or ARGV[4] == 'try') then
    usual = false
  end
  -- Not if the first waiter is dead, if the caller has a tombstone, or if the holder's key never ends.
  if usual then
    local word, position = 'tried ', 1
    if ARGV[4] ~= 'try' then
      local callers = string.match(ARGV[4], '%d+') or '1'
      redis.call('HSET', KEYS[4], ARGV[1],
        string.format('%s %s %s %s %s %.0f', ARGV[2], ARGV[3], ARGV[5], ARGV[6], callers, now + ARGV[5]))
      if not behind then
        redis.call('ZADD', KEYS[3], string.format('%.0f', math.max(tail + 1, us)), ARGV[1])
        waiting, behind = waiting + 1, 0
      end
      -- The queue lives as long as each of its tombstones.
      if not last[1] or -tail - now < ARGV[5] + 0 and redis.call('PTTL', KEYS[3]) < ARGV[5] + 0 then
        redis.call('PEXPIRE', KEYS[3], ARGV[5])
      end
      if not first or redis.call('PTTL', KEYS[4]) < ARGV[5] + 0 then
        redis.call('PEXPIRE', KEYS[4], ARGV[5])
      end
      if mark == ' ' then
        redis.call('SET', KEYS[1], holder .. '*' .. since, 'KEEPTTL')
      end
      word, position = 'wanted ', waiting - behind
    end
    if position == 1 then
      local payload = word .. KEYS[1]
      redis.pcall('PUBLISH', 'leasehold:' .. string.match(holder, '^[^:]*'), payload)
    end
    if ARGV[4] == 'try' then
      return { 'busy', 0, 0, us, left, waiting, 0, holder, tonumber(since) }
    end
    return { 'waiting', position, 0, us, left, waiting, 0, holder, tonumber(since) }
  end
end

--@prelude
local token, mode, how, claim = ARGV[1], ARGV[2], ARGV[4], tonumber(ARGV[5])
local ttl, wanted = tonumber(ARGV[3]), tonumber(ARGV[6])
local callers, most = string.match(how, '%d+') or '1', tonumber(string.match(how, '/(%d+)'))

-- Every call of a waiter refreshes its record with the arguments of that call.
local function write_record()
  local record = table.concat({ mode, ARGV[3], ARGV[5], ARGV[6], callers, text(now + claim) }, ' ')
  redis.call('HSET', KEYS[4], token, record)
  if redis.call('PTTL', KEYS[3]) < claim then
    redis.call('PEXPIRE', KEYS[3], text(claim))
  end
  if redis.call('PTTL', KEYS[4]) < claim then
    redis.call('PEXPIRE', KEYS[4], text(claim))
  end
end

local function join()
  redis.call('HLEN', KEYS[4]) -- fails before the first write, if the key has another type
  local tail = waiting > 0 and redis.call('ZRANGE', KEYS[3], '-1', '-1', 'WITHSCORES')[2] or 0
  redis.call('ZADD', KEYS[3], text(math.max(tail + 1, us)), token)
  waiting = waiting + 1
  write_record()
end

-- How many callers wait with other tokens. Of the waiters behind the first 1,000, each counts as one caller.
local function callers_elsewhere()
  local tokens = redis.call('ZRANGE', KEYS[3], text(tombstones), text(tombstones + 999))
  local records = #tokens > 0 and redis.call('HMGET', KEYS[4], unpack(tokens))
  local sum = math.max(0, waiting - 1000)
  for place, other in ipairs(tokens) do
    -- As in `head`: a waiter with another record is dead.
    local count, expiry = string.match(records[place] or '', '^.+ %d+ %d+ %d+ (%d+) (%d+)$')
    if other ~= token and expiry and tonumber(expiry) > now then
      sum = sum + tonumber(count)
    end
  end
  return sum
end

-- At most 64 holders.
local function tell_holders(word)
  for _, holder in ipairs(holders(63)) do
    publish(holder, word .. KEYS[1])
  end
end

purge()

local holds = held(token, mode)
if has_tombstone(token) then
  grant()
  return answer('gone')
end
if holds == mode then
  local ms, size = raise(token, mode, ttl), epoch and 1 or block(wanted)
  grant()
  return answer('again', epoch or fence, size, ms)
end
if how == 'refill' then
  grant()
  return answer(absent())
end
if holds then
  grant()
  return answer('conflict')
end
if result then
  leave(token)
  local reply = answer('done', tonumber(result[1]))
  reply[8] = result[2]
  return reply
end

-- Refresh the record before dead waiters are dropped, or a late head would drop itself.
local queued = score(token) > 0
if queued then
  write_record()
elseif propose then
  propose(mode)
end

-- First grant the waiters ahead of the caller. That may be all readers up to the caller.
grant(token)
if mine then
  return answer('entered', fence, mine.block, mine.ms)
end
if compatible(mode) and (mixed or not head()) then
  if queued then
    drop(token)
  end
  hold(token, mode, ttl)
  return answer('entered', draw(), block(wanted), ttl)
end

-- Who holds it, and since which fence, if that is known of one client: for the error of a caller that gets nothing.
local function with_holder(reply)
  local some = holders(1)
  reply[8] = #some == 1 and some[1] or ''
  reply[9] = lingers and reply[8] == holder and tonumber(held_fence) or 0
  return reply
end

local elsewhere = most and callers_elsewhere()
if how == 'try' or mixed or most and not queued and elsewhere >= most then
  local reply = with_holder(answer('busy', 0, crowded and 1 or 0, left()))
  reply[10] = elsewhere
  -- The holder may only keep the lock for its own next caller.
  if lingers and not mixed and reply[7] == 0 then
    tell_holders('tried ')
  end
  return reply
end
if not queued then
  join()
end
mark_holder()
local position = redis.call('ZRANK', KEYS[3], token) - tombstones + 1
local reply = with_holder(answer('waiting', position, crowded and 1 or 0, left()))
reply[10] = elsewhere
if position == 1 and reply[7] == 0 and per == 0 then
  tell_holders('wanted ')
end
return reply
