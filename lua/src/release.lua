-- Gives up whatever a token has: the lock, a reader's share of it, or its place in the queue.
-- KEYS    1 N  2 fence  3 queue  4 waiters  5 readers or permits  6 none, which never exists
-- ARGV    1 token  2 bury (ms, 0: no)  3 used  4 fleet
-- Answer  released, left, gone or taken

--@prelude
local token = ARGV[1]

purge()

local status = give_up(token) and 'released' or leave(token) and 'left' or absent()
bury(token, tonumber(ARGV[2]))
grant()
return answer(status)
