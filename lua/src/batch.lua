-- Runs the common path of several commands of one client: an acquire of a free lock, a release while nobody waits, and
-- the renewal of an exclusive lease. Leaves an entry undone if it is anything else, or if the server refuses one of its
-- commands. The client then sends that command alone.
-- KEYS    for each entry: acquire: N, fence, queue, readers, buried; release: N, queue, readers; renew: N
-- ARGV    1 retention  and for each entry: `acquire` token ttl block, `release` token, or `renew` token ttl
-- Answer  a number for each entry: 0 if it was left undone, or an acquire's fence, 1 for a release, and a renewal's TTL;
--         then the server's time

local pcall = redis.pcall
local clock = redis.call('TIME')
local us = clock[1] * 1000000 + clock[2]
local answer, key, arg = {}, 0, 1

local function acquire(name, fence_key, queue, readers, buried, token, ttl, block)
  if pcall('EXISTS', name, queue, readers, buried) ~= 0 then
    return 0
  end
  local last = pcall('GET', fence_key)
  local fence, keep = us, math.max(ARGV[1] + 0, 10 * ttl)
  if last then
    -- An error is a table, and no number.
    fence = math.max((tonumber(last) or 2 ^ 53) + 1, us)
    local left = pcall('PTTL', fence_key)
    keep = math.max(keep, math.min(tonumber(left) or 0, 2592000000))
  end
  if fence >= 2 ^ 53 or fence % 1 ~= 0 then
    return 0
  end
  local greatest = fence + math.max(1, math.min(block + 0, us + 1024 - fence)) - 1
  -- The fence first: if the server refuses the lock after it, only a few fences are lost.
  local written = pcall('SET', fence_key, string.format('%.0f', greatest), 'PX', string.format('%.0f', keep))
  if written.err or pcall('SET', name, token, 'PX', ttl).err then
    return 0
  end
  return fence
end

local function release(name, queue, readers, token)
  if pcall('GET', name) ~= token or pcall('EXISTS', queue, readers) ~= 0 then
    return 0
  end
  return pcall('DEL', name) == 1 and 1 or 0
end

local function renew(name, token, ttl)
  if pcall('GET', name) ~= token then
    return 0
  end
  local left = pcall('PTTL', name)
  local ms = math.max(tonumber(left) or 0, ttl)
  return pcall('PEXPIRE', name, string.format('%.0f', ms)) == 1 and ms or 0
end

while ARGV[arg + 1] do
  local what, token, ttl = ARGV[arg + 1], ARGV[arg + 2], ARGV[arg + 3]
  if what == 'acquire' then
    answer[#answer + 1] = acquire(KEYS[key + 1], KEYS[key + 2], KEYS[key + 3], KEYS[key + 4], KEYS[key + 5],
      token, ttl, ARGV[arg + 4])
    key, arg = key + 5, arg + 4
  elseif what == 'release' then
    answer[#answer + 1] = release(KEYS[key + 1], KEYS[key + 2], KEYS[key + 3], token)
    key, arg = key + 3, arg + 2
  else
    answer[#answer + 1] = renew(KEYS[key + 1], token, ttl)
    key, arg = key + 1, arg + 3
  end
end
answer[#answer + 1] = us
return answer
