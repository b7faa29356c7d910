-- Takes the lock from all of its holders, notifies them, and grants the next waiter. For operators.
-- KEYS    1 N  2 fence  3 queue  4 waiters  5 readers or permits  6 buried  7 none, which never exists
-- ARGV    1 retention  2 fleet
-- Answer  released, with the number of holders as its value

--@prelude
purge()

local victims = holders(-1)
for _, token in ipairs(victims) do
  give_up(token)
  bury(token, 60000)
end
grant()
local reply = answer('released', #victims)
for _, token in ipairs(victims) do
  publish(token, 'revoked ' .. token .. ' ' .. KEYS[1])
end
return reply
