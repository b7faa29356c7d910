-- An election's state. The leader's field is `<fence> <value>`. A mode is `leader <value>`, so whatever grants the lock writes
-- the value of the new leader. Observers listen on the channel side(N,"leader").
if #fields > 2 or holder and not string.find(fields[2], '^%d+ ') then
  return { err = 'WRONGTYPE the hash is no election' }
end
epoch = holder and tonumber(string.match(fields[2], '^%d+'))

-- What observers are told: that nobody leads, or the new leader's time and value.
local ended, elected, value = false, false, ''
local channel = string.gsub(KEYS[3], 'queue$', 'leader')
announce = function()
  if elected then
    ended = epoch
  end
  if ended then
    local payload = string.format('leader %.0f %.0f %.0f ', ended, us, elected or 0) .. value
    redis.pcall('PUBLISH', channel, payload)
  end
end

local function held(token, asked)
  return holder == token and asked
end

-- A waiter of another kind is never granted here. It asks for itself.
local function compatible(mode)
  return not holder and string.sub(mode, 1, 7) == 'leader '
end

local function hold(token, mode, ms)
  elected, value, epoch = ms, string.sub(mode, 8), draw()
  write(token, text(epoch) .. ' ' .. value, ms)
end

-- Ends a token's term. Returns true if the token led.
local function give_up(token)
  local led = take_back(token)
  ended = led and epoch or ended
  return led
end
