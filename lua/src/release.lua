-- Gives up whatever a token has: the lock, a reader's share of it, or its place in the queue.
-- KEYS    1 N  2 fence  3 queue  4 waiters  5 readers or permits  6 buried  7 none, which never exists
-- ARGV    1 token  2 bury (ms, 0: no)  3 retention  4 fleet
-- Answer  released, left, gone or taken

-- The fast path: the holder gives the lock back and nobody waits.
if ARGV[2] == '0' and redis.call('GET', KEYS[1]) == ARGV[1]
    and redis.call('EXISTS', KEYS[3], KEYS[5]) == 0 then
  redis.call('DEL', KEYS[1])
  return { 'released', 0, 0, 0, 0, 0, 0 } -- without the time, which nobody asks a release for
end

--@prelude
local token = ARGV[1]

purge()

local status = give_up(token) and 'released' or leave(token) and 'left' or absent()
bury(token, tonumber(ARGV[2]))
grant()
return answer(status)
