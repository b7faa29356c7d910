-- A once's state. The holder's field is `once <fence>`. KEYS[5] is the result, if there is one: `<writer's token> <its fence>
-- <value>`. Then nobody is granted the lock. Reads every key before the first write, so a key of the wrong type fails the
-- script while nothing has changed.
local held_fence = string.match(fields[2] or '', '^once (%d+)$')
if holder and (fields[3] or not held_fence) then
  return { err = 'WRONGTYPE the hash is no once' }
end
epoch = tonumber(held_fence)
local writer, written, content = string.match(redis.call('GET', KEYS[5]) or '', '^(%S+) (%d+) (.*)$')
result = writer and { written, content }

local function held(token)
  return holder == token and 'once'
end

local function compatible(mode)
  return not holder and not result and mode == 'once'
end

local function hold(token, _, ms)
  epoch = draw()
  held_fence = text(epoch)
  write(token, 'once ' .. held_fence, ms)
end

-- Takes the lock from a token, and stores the result that its release brings. Returns true if the token held the lock, or
-- if a copy of the release has stored its result. A token that lost the lock may have it again, by a late copy of its acquire.
-- Then its work had another fence, and its result is none.
local function give_up(token)
  if not take_back(token) then
    return writer == token
  end
  if #ARGV == 6 then
    if ARGV[5] ~= held_fence then
      return false
    end
    redis.call('SET', KEYS[5], token .. ' ' .. held_fence .. ' ' .. ARGV[4], 'PX', ARGV[3])
    result = true
  end
  return true
end
