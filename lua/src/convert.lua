-- Gives a lease a new token: in the other mode, or in the same mode with exactly this TTL. The token is new because a
-- delayed copy of this call would otherwise undo a later one. A token of another client adopts the lease, in the mode
-- that it has. Only a lock has two modes.
-- KEYS    1 N  2 fence  3 queue  4 waiters  5 readers  6 none, which never exists
-- ARGV    1 old token  2 new token  3 new mode  4 ttl  5 block  6 tombstone (ms, 0: none)  7 used fence  8 fleet
-- Answer  converted, again, conflict, gone or taken

--@prelude
local old, new, mode = ARGV[1], ARGV[2], ARGV[3]
local ttl, wanted, tombstone_ms = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])

purge()

local holds, held_before = held(new, mode), held(old, mode)
local adopts = string.match(old, '^[^:]*') ~= string.match(new, '^[^:]*')
if has_tombstone(new) then
  -- The lease was given up, or a copy of this call has already answered conflict.
  grant()
  return answer(held_before and 'conflict' or 'gone')
end

if holds == mode then
  leave_tombstone(old, tombstone_ms)
  local ms, size = raise(new, mode, ttl), block(wanted)
  grant()
  return answer('again', fence, size, ms)
end

if not holds and not held_before then
  -- A late command may have put the client's own token into the queue, so it gets a tombstone. Another client's token keeps
  -- its place.
  leave_tombstone(old, adopts and 0 or tombstone_ms)
  grant()
  return answer(absent())
end
if not holds and held_before == mode then
  if adopts then
    -- The former holder may use the fences of its block until it learns of this.
    pass(us + 2022)
  end
  give_up(old)
  hold(new, mode, ttl)
  local size = block(wanted)
  leave_tombstone(old, tombstone_ms)
  grant()
  local reply = answer('converted', fence, size, ttl)
  if adopts then
    publish(old, 'revoked ' .. old .. ' ' .. KEYS[1])
  end
  return reply
end
if holds or adopts or not lingers or (mode == 'exclusive' and readers > 1) then
  -- A copy of this call must not convert the lease later, when the other readers are gone.
  if not holds then
    leave_tombstone(new, 60000)
  end
  grant()
  return answer('conflict')
end

local ms = math.max(cut(redis.call('PTTL', KEYS[1])), ttl)
redis.call('DEL', KEYS[1], KEYS[5])
holder, readers = false, 0
hold(new, mode, ms)
local size = block(wanted)
leave_tombstone(old, tombstone_ms)
grant()
return answer('converted', fence, size, ms)
