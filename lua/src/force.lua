-- Takes the lock from whoever holds it, tells them, and grants the next in the queue. For operators.
-- KEYS    1 N  2 fence  3 queue  4 waiters  5 readers or permits  6 buried  7 none, which is never there
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
