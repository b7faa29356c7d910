-- The server's time, as TIME answers it. A service may refuse TIME in scripts. Then N tells the time in whole milliseconds: the
-- end of its TTL minus what is left of it. If N doesn't exist or has no TTL, it gets one for a moment. The microseconds are the
-- last ones of that millisecond, so a fence is above all that other users' scripts drew by TIME.
local clock = redis.pcall('TIME')
if clock.err then
  -- Each command that is needed later runs before the first write, where it changes nothing. So a missing right stops the script
  -- before a key without a TTL has one.
  local ends = redis.pcall('PEXPIRETIME', KEYS[1])
  if type(ends) == 'table' then
    return { err = 'NOCLOCK ' .. ends.err }
  end
  local ms = ends - redis.call('PTTL', KEYS[1])
  -- Lua rounds a number above 2^53. Such an end is far away, so it counts as none.
  if ends < 0 or ends > 2 ^ 53 then
    local undo = ends == -2 and 'DEL' or 'PERSIST'
    redis.call(undo, KEYS[1])
    if ends == -2 then
      redis.call('SET', KEYS[1], '', 'PX', '9999')
    else
      redis.call('PEXPIRE', KEYS[1], '9999')
    end
    ms = redis.call('PEXPIRETIME', KEYS[1]) - redis.call('PTTL', KEYS[1])
    redis.call(undo, KEYS[1])
  end
  clock = { math.floor(ms / 1000), ms % 1000 * 1000 + 999 }
end
