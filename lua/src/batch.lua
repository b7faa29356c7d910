-- Runs the fast path of several commands of one client. Leaves an entry undone if it needs more, or if the server
-- refuses one of its commands. The client then sends that entry to its own script.
-- KEYS    those of each entry; then fence, if an entry takes something
-- ARGV    1 how many entries take something; then those of each entry
--         entry              keys                 arguments
--         acquire            N, queue             token and a space, ttl
--         release            N                    N's value
--         renew              N                    token, ttl
--         share              N, queue, readers    token, ttl
--         renew-share        N, readers           token, ttl
--         unshare            N, readers           token
--         permit             N, queue, permits    token, ttl, mode
--         renew-permit       N, permits           token, ttl
--         unpermit           N, queue, permits    token
--         acquire-reentrant  N, queue             token, ttl
--         release-reentrant  N                    token
--         renew-reentrant    N                    token, ttl
-- Answer  server us and the fence of all entries that took something, or 0 and 0; then a number for each entry: 0 if it
--         was left undone, else 1, or a renewal's TTL, or for acquire-reentrant 1 + `waiting`

local pcall = redis.pcall
local fence, key, arg, counter = false, 0, 1, KEYS[#KEYS]
local answer = { 0, 0 }

-- As in prelude/reentrant.lua, which this script doesn't have.
local function channel_of(name)
  return 'redisson_lock__channel:' .. (string.find(name, '{', 1, true) and name or '{' .. name .. '}')
end

--@clock
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- Writes the counter before any grant: if the server refuses to write it, nothing is granted.
if ARGV[1] ~= '0' then
  local us = string.format('%s%06d', clock[1], clock[2])
  local last = pcall('SET', KEYS[#KEYS], us, 'KEEPTTL', 'GET')
  if type(last) == 'string' and #last == 16 and last < us and not string.find(last, '%D') then
    fence = us
  elseif type(last) == 'string' and string.match(last, '^%d+$') and tonumber(last) <= 2 ^ 53 - 4096 then
    fence = string.format('%.0f', math.max(tonumber(last) + 1, tonumber(us)))
    redis.call('SET', KEYS[#KEYS], fence, 'KEEPTTL')
  elseif type(last) == 'string' then
    redis.call('SET', KEYS[#KEYS], last, 'KEEPTTL')
  elseif not last then
    redis.call('DEL', KEYS[#KEYS])
  end
  answer[1], answer[2] = us, fence or 0
end

for entry = 3, #ARGV + 2 do
  local what, done = ARGV[arg + 1], 0
  if what == 'acquire' then
    if fence and pcall('EXISTS', KEYS[key + 1], KEYS[key + 2]) == 0
        and not pcall('SET', KEYS[key + 1], ARGV[arg + 2] .. fence, 'PX', ARGV[arg + 3]).err then
      done = 1
    end
    key, arg = key + 2, arg + 3
  elseif what == 'release' then
    if pcall('GET', KEYS[key + 1]) == ARGV[arg + 2] and pcall('DEL', KEYS[key + 1]) == 1 then
      done = 1
    end
    key, arg = key + 1, arg + 2
  elseif what == 'renew' or what == 'renew-reentrant' then
    local reentrant = what == 'renew-reentrant'
    local value = not reentrant and pcall('GET', KEYS[key + 1])
    if reentrant and type(pcall('HGET', KEYS[key + 1], ARGV[arg + 2])) == 'string'
        or type(value) == 'string' and string.match(value, '^[^ *]*') == ARGV[arg + 2] then
      local ms = math.max(tonumber(pcall('PTTL', KEYS[key + 1])) or 0, tonumber(ARGV[arg + 3]))
      if pcall('PEXPIRE', KEYS[key + 1], string.format('%.0f', ms)) == 1 then
        done = ms
      end
    end
    key, arg = key + 1, arg + 3
  elseif what == 'renew-share' then
    local value = pcall('GET', KEYS[key + 1])
    local expiry = tonumber(pcall('ZSCORE', KEYS[key + 2], ARGV[arg + 2]))
    if type(value) == 'string' and string.match(value, '^shared[ *]%d+$') and expiry and expiry > now then
      local ms = math.max(expiry - now, tonumber(ARGV[arg + 3]))
      local keep = math.max(tonumber(pcall('PTTL', KEYS[key + 1])) or 0, ms)
      -- Always N first.
      if pcall('PEXPIRE', KEYS[key + 1], string.format('%.0f', keep)) == 1
          and pcall('ZADD', KEYS[key + 2], string.format('%.0f', now + ms), ARGV[arg + 2]) == 0 then
        if pcall('PTTL', KEYS[key + 2]) < ms then
          pcall('PEXPIRE', KEYS[key + 2], string.format('%.0f', ms))
        end
        done = math.floor(ms)
      end
    end
    key, arg = key + 2, arg + 3
  elseif what == 'renew-permit' then
    local expiry = tonumber(pcall('ZSCORE', KEYS[key + 1], ARGV[arg + 2]))
    if expiry and expiry > now then
      local ms = math.max(expiry - now, tonumber(ARGV[arg + 3]))
      local keep = math.max(tonumber(pcall('PTTL', KEYS[key + 1])) or 0, ms)
      if pcall('PEXPIRE', KEYS[key + 1], string.format('%.0f', keep)) == 1 then
        pcall('PEXPIRE', KEYS[key + 2], string.format('%.0f', keep))
        if pcall('ZADD', KEYS[key + 1], string.format('%.0f', now + ms), ARGV[arg + 2]) == 0 then
          done = math.floor(ms)
        end
      end
    end
    key, arg = key + 2, arg + 3
  elseif what == 'share' then
    -- No client waits, and no token has a tombstone. If the token is a reader already, its own script raises its TTL.
    local token, ttl = ARGV[arg + 2], ARGV[arg + 3]
    local new, joins, keep = false, false, ttl + 0
    if fence and pcall('EXISTS', KEYS[key + 2]) == 0 then
      local value = pcall('GET', KEYS[key + 1])
      if not value then
        new = true
      elseif type(value) == 'string' and string.match(value, '^shared %d+$')
          and (tonumber(pcall('ZCARD', KEYS[key + 3])) or 0) > 0 and pcall('ZSCORE', KEYS[key + 3], token) == false then
        -- The same limit as `cut` in prelude/base.lua, which this script doesn't have.
        joins, keep = true, math.max(keep, math.min(pcall('PTTL', KEYS[key + 1]), CUT_TTL))
      end
    end
    -- N first: at maxmemory, a script may create a key after a delete. Old readers count only while N is `shared`.
    if (new or joins) and not pcall('SET', KEYS[key + 1], 'shared ' .. fence, 'PX', string.format('%.0f', keep)).err
        and (joins or pcall('DEL', KEYS[key + 3]))
        and pcall('ZADD', KEYS[key + 3], string.format('%.0f', now + ttl), token) == 1 then
      if pcall('PTTL', KEYS[key + 3]) < ttl + 0 then
        pcall('PEXPIRE', KEYS[key + 3], ttl)
      end
      done = 1
    end
    key, arg = key + 3, arg + 3
  elseif what == 'unshare' then
    local value = pcall('GET', KEYS[key + 1])
    if type(value) == 'string' and string.match(value, '^shared %d+$')
        and pcall('ZREM', KEYS[key + 2], ARGV[arg + 2]) == 1 then
      local latest = pcall('ZRANGE', KEYS[key + 2], '-1', '-1', 'WITHSCORES')[2]
      if latest then
        pcall('PEXPIRE', KEYS[key + 1], string.format('%.0f', latest - now))
      else
        pcall('DEL', KEYS[key + 1])
      end
      done = 1
    end
    key, arg = key + 2, arg + 2
  elseif what == 'permit' then
    local token, ttl, mode = ARGV[arg + 2], ARGV[arg + 3], ARGV[arg + 4]
    local wanted, limit = string.match(mode, '^(%d+)/(%d+)$')
    if fence and pcall('EXISTS', KEYS[key + 1], KEYS[key + 2], KEYS[key + 3]) == 0 then
      -- No client holds a permit.
      if pcall('ZADD', KEYS[key + 1], string.format('%.0f', now + ttl), token) == 1 then
        pcall('HSET', KEYS[key + 3], token, mode, 'used', wanted, 'limit', limit, 'fence', fence)
        pcall('PEXPIRE', KEYS[key + 1], ttl)
        pcall('PEXPIRE', KEYS[key + 3], ttl)
        done = 1
      end
    elseif fence and pcall('EXISTS', KEYS[key + 2]) == 0
        and pcall('ZCOUNT', KEYS[key + 1], '-inf', string.format('%.0f', now)) == 0 then
      local used = (tonumber(pcall('HGET', KEYS[key + 3], 'used')) or 2 ^ 53) + wanted
      if pcall('HLEN', KEYS[key + 3]) == (tonumber(pcall('ZCARD', KEYS[key + 1])) or -9) + 3
          and used <= math.max(tonumber(limit), tonumber(wanted))
          and pcall('HGET', KEYS[key + 3], token) == false
          and pcall('ZADD', KEYS[key + 1], string.format('%.0f', now + ttl), token) == 1 then
        pcall('HSET', KEYS[key + 3], token, mode, 'used', string.format('%.0f', used), 'limit', limit,
          'fence', fence)
        if pcall('PTTL', KEYS[key + 1]) < ttl + 0 then
          pcall('PEXPIRE', KEYS[key + 1], ttl)
        end
        if pcall('PTTL', KEYS[key + 3]) < ttl + 0 then
          pcall('PEXPIRE', KEYS[key + 3], ttl)
        end
        done = 1
      end
    end
    key, arg = key + 3, arg + 4
  elseif what == 'unpermit' then
    local token = ARGV[arg + 2]
    local permits = pcall('EXISTS', KEYS[key + 2]) == 0 and pcall('HGET', KEYS[key + 3], token)
    local returned = type(permits) == 'string' and tonumber(string.match(permits, '^%d+'))
    local used = returned and tonumber(pcall('HGET', KEYS[key + 3], 'used'))
    if used and pcall('HLEN', KEYS[key + 3]) == (tonumber(pcall('ZCARD', KEYS[key + 1])) or -9) + 3
        and pcall('ZREM', KEYS[key + 1], token) == 1 then
      if pcall('EXISTS', KEYS[key + 1]) == 0 then
        pcall('DEL', KEYS[key + 3])
      else
        pcall('HDEL', KEYS[key + 3], token)
        pcall('HSET', KEYS[key + 3], 'used', string.format('%.0f', used - returned))
      end
      done = 1
    end
    key, arg = key + 3, arg + 2
  elseif what == 'acquire-reentrant' then
    if fence and pcall('EXISTS', KEYS[key + 1], KEYS[key + 2]) == 0
        and pcall('HSET', KEYS[key + 1], ARGV[arg + 2], '1') == 1 then
      if pcall('PEXPIRE', KEYS[key + 1], ARGV[arg + 3]) == 1 then
        local channel = channel_of(KEYS[key + 1])
        local listening = not string.find(counter, '{', 1, true) and pcall('PUBSUB', 'NUMSUB', channel)
        done = 1 + (listening and tonumber(listening[2]) or 2)
      else
        pcall('DEL', KEYS[key + 1])
      end
    end
    key, arg = key + 2, arg + 3
  elseif what == 'release-reentrant' then
    if pcall('HLEN', KEYS[key + 1]) == 1 and type(pcall('HGET', KEYS[key + 1], ARGV[arg + 2])) == 'string'
        and pcall('DEL', KEYS[key + 1]) == 1 then
      local channel = channel_of(KEYS[key + 1])
      pcall('PUBLISH', channel, '0')
      pcall('SPUBLISH', channel, '0')
      done = 1
    end
    key, arg = key + 1, arg + 2
  else
    return answer
  end
  answer[entry] = done
end
return answer
