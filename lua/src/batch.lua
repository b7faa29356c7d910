-- Runs the common path of several commands of one client. Leaves an entry undone if it is anything else, or if the server
-- refuses one of its commands. The client then sends that command to its own script.
-- KEYS    fence, if an entry takes something; then those of each entry
-- ARGV    1 how many entries take something; then those of each entry
--         entry     keys                 arguments
--         acquire   N, queue             token and a space, ttl
--         release   N                    N's value
--         renew     N                    token, ttl
--         share     N, queue, readers    token, ttl
--         unshare   N, readers           token
--         permit    N, queue, permits    token, ttl, mode, permits, limit
--         unpermit  N, queue, permits    token
-- Answer  server us and the fence of all that took something, or 0 and 0; then a number for each entry: 0 if it was left
--         undone, else 1, or a renewal's TTL

local pcall = redis.pcall
local fence, key, arg = false, 0, 1
local answer = { 0, 0 }

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- The counter before any grant: if the server refuses it, nobody is granted.
if ARGV[1] ~= '0' then
  local us = string.format('%s%06d', clock[1], clock[2])
  local last = pcall('SET', KEYS[1], us, 'GET')
  if type(last) == 'string' and #last == 16 and last < us and not string.find(last, '%D') then
    fence = us
  elseif type(last) == 'string' and string.match(last, '^%d+$') and tonumber(last) <= 2 ^ 53 - 4096 then
    fence = string.format('%.0f', math.max(last + 1, us))
    redis.call('SET', KEYS[1], fence)
  elseif type(last) == 'string' then
    redis.call('SET', KEYS[1], last)
  elseif not last then
    redis.call('DEL', KEYS[1])
  end
  key, answer[1], answer[2] = 1, us, fence or 0
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
  elseif what == 'renew' then
    local value = pcall('GET', KEYS[key + 1])
    if type(value) == 'string' and string.match(value, '^[^ *]*') == ARGV[arg + 2] then
      local ms = math.max(tonumber(pcall('PTTL', KEYS[key + 1])) or 0, ARGV[arg + 3])
      if pcall('PEXPIRE', KEYS[key + 1], string.format('%.0f', ms)) == 1 then
        done = ms
      end
    end
    key, arg = key + 1, arg + 3
  elseif what == 'share' then
    -- No client waits, and no token is buried. The caller is no reader yet, or its own script raises its TTL.
    local name, readers, token, ttl = KEYS[key + 1], KEYS[key + 3], ARGV[arg + 2], ARGV[arg + 3]
    local new, joins, keep = false, false, ttl + 0
    if fence and pcall('EXISTS', KEYS[key + 2]) == 0 then
      local value = pcall('GET', name)
      if not value then
        new = true
      elseif type(value) == 'string' and string.match(value, '^shared %d+$')
          and (tonumber(pcall('ZCARD', readers)) or 0) > 0 and pcall('ZSCORE', readers, token) == false then
        joins, keep = true, math.max(keep, math.min(pcall('PTTL', name), 90000001))
      end
    end
    -- N first, because a delete would let a new lock in at maxmemory. Readers from before N was something else don't count.
    if (new or joins) and not pcall('SET', name, 'shared ' .. fence, 'PX', string.format('%.0f', keep)).err
        and (joins or pcall('DEL', readers)) and pcall('ZADD', readers, string.format('%.0f', now + ttl), token) == 1 then
      if pcall('PTTL', readers) < ttl + 0 then
        pcall('PEXPIRE', readers, ttl)
      end
      done = 1
    end
    key, arg = key + 3, arg + 3
  elseif what == 'unshare' then
    local name, readers = KEYS[key + 1], KEYS[key + 2]
    local value = pcall('GET', name)
    if type(value) == 'string' and string.match(value, '^shared %d+$') and pcall('ZREM', readers, ARGV[arg + 2]) == 1 then
      local latest = pcall('ZRANGE', readers, '-1', '-1', 'WITHSCORES')[2]
      if latest then
        pcall('PEXPIRE', name, string.format('%.0f', latest - now))
      else
        pcall('DEL', name)
      end
      done = 1
    end
    key, arg = key + 2, arg + 2
  elseif what == 'permit' then
    local name, permits, token, ttl, mode = KEYS[key + 1], KEYS[key + 3], ARGV[arg + 2], ARGV[arg + 3], ARGV[arg + 4]
    local wanted, limit = ARGV[arg + 5] + 0, ARGV[arg + 6] + 0
    if fence and pcall('EXISTS', name, KEYS[key + 2], permits) == 0 then
      -- Nobody holds a permit.
      if pcall('ZADD', name, string.format('%.0f', now + ttl), token) == 1 then
        pcall('HSET', permits, token, mode, 'used', ARGV[arg + 5], 'limit', ARGV[arg + 6], 'fence', fence)
        pcall('PEXPIRE', name, ttl)
        pcall('PEXPIRE', permits, ttl)
        done = 1
      end
    elseif fence and pcall('EXISTS', KEYS[key + 2]) == 0
        and pcall('ZCOUNT', name, '-inf', string.format('%.0f', now)) == 0 then
      local known = pcall('HMGET', permits, 'used', token)
      local used = (tonumber(known[1]) or 2 ^ 53) + wanted
      if known[2] == false and pcall('HLEN', permits) == pcall('ZCARD', name) + 3 and used <= math.max(limit, wanted)
          and pcall('ZADD', name, string.format('%.0f', now + ttl), token) == 1 then
        pcall('HSET', permits, token, mode, 'used', string.format('%.0f', used), 'limit', ARGV[arg + 6],
          'fence', fence)
        if pcall('PTTL', name) < ttl + 0 then
          pcall('PEXPIRE', name, ttl)
        end
        if pcall('PTTL', permits) < ttl + 0 then
          pcall('PEXPIRE', permits, ttl)
        end
        done = 1
      end
    end
    key, arg = key + 3, arg + 6
  elseif what == 'unpermit' then
    local name, permits, token = KEYS[key + 1], KEYS[key + 3], ARGV[arg + 2]
    local known = pcall('EXISTS', KEYS[key + 2]) == 0 and pcall('HMGET', permits, 'used', token)
    local used = known and known[2] and tonumber(known[1])
    if used and pcall('HLEN', permits) == pcall('ZCARD', name) + 3 and pcall('ZREM', name, token) == 1 then
      if pcall('EXISTS', name) == 0 then
        pcall('DEL', permits)
      else
        pcall('HDEL', permits, token)
        pcall('HSET', permits, 'used', string.format('%.0f', used - string.match(known[2], '^%d+')))
      end
      done = 1
    end
    key, arg = key + 3, arg + 2
  else
    return answer
  end
  answer[entry] = done
end
return answer
