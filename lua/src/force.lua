-- Takes the lock from all of its holders, notifies them, and grants the next waiter. For operators.
-- KEYS    1 N  2 fence  3 queue  4 waiters  5 readers or permits  6 none, which never exists
-- ARGV    1 which (leases, any)  2 used fence (0)  3 fleet
-- Answer  released, with the number of holders as its value, or taken

--@prelude
-- Without a TTL it is no lease, but another library's key or other data.
if ARGV[1] ~= 'any' and redis.call('PTTL', KEYS[1]) == -1 then
  return answer('taken')
end
-- Those that are over are no holders, and one purge may leave some of them.
repeat purge() until not crowded

-- A victim that is not notified yet may use the fences of its block.
pass(us + 2022)
draw()
local victims = holders(-1)
for _, token in ipairs(victims) do
  give_up(token, true)
  leave_tombstone(token, 60000)
end
grant()
local reply = answer('released', #victims)
for _, token in ipairs(victims) do
  publish(token, 'revoked ' .. token .. ' ' .. KEYS[1])
end
return reply
