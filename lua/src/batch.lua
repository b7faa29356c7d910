-- Runs the common path of several commands of one client, as acquire-fast, release-fast and renew do it. Leaves an entry
-- undone if it is anything else, or if the server refuses one of its commands. The client then sends that command alone.
-- KEYS    fence, if an entry is an acquire; then for each entry: acquire: N, queue; release: N; renew: N
-- ARGV    1 how many entries are acquires; then for each entry: `acquire`, token and a space, ttl; `release`, N's value;
--         or `renew`, token, ttl
-- Answer  server us and the fence of all acquires, or 0 and 0; then a number for each entry: 0 if it was left undone,
--         else 1, or a renewal's TTL

local pcall = redis.pcall
local fence, key, arg = false, 0, 1
local answer = { 0, 0 }

-- The counter before any grant: if the server refuses it, nobody is granted.
if ARGV[1] ~= '0' then
  local clock = redis.call('TIME')
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
  else
    return answer
  end
  answer[entry] = done
end
return answer
