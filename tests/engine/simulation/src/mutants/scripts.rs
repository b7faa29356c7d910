//! Deliberate bugs in the scripts, as changes of their text.

use super::Mutant;

pub(super) const TABLE: &[Mutant] = &[
    // The promises of the scripts.
    script! { "release-ignores-owner" Network "only the owner releases"
    "release": "if holder == token then\n    redis.call('DEL'"
        => "if holder and holder ~= 'shared' then\n    redis.call('DEL'" },
    script! { "fence-without-max" Hot "a fence is above all that were drawn"
    "acquire" "release" "convert": "fence = fence or math.max(last + 1, us)" => "fence = fence or us" },
    script! { "fence-for-each" Readers "a script draws one fence for all that it grants"
    "acquire" "release" "convert": "  fence = fence or math.max(last + 1, us)\n"
        => "  fence = math.max(last + 1, us)\n  last = fence\n" },
    script! { "used-ignored" Hot "a fence is above the greatest that its last holder used" seed 132
    "acquire" "release" "convert": "pass(tonumber(ARGV[#ARGV - 1]))\n" => "" },
    script! { "lost-counter-at-clock" Evicting "a lost counter begins above every block"
    "acquire" "release" "convert": "not stored and us + 3072" => "not stored and us" },
    script! { "force-draws-in-block" Hot "what is drawn after a force is above the victims' blocks"
    "force": "pass(us + 2022)\n" => "" },
    script! { "block-uncut" Hot "fences never run ahead of the clock" seed 705
    "acquire" "release" "convert": "math.max(1, math.min(wanted, us + 1024 - draw()))"
        => "math.max(draw() * 0 + 1, wanted)" },
    script! { "numbers-lose-digits" Network "numbers keep their digits"
    "acquire" "release" "convert": "return string.format('%.0f', number)" => "return tostring(number)" },
    script! { "renewal-lowers" Calm "no script lowers a TTL"
    "renew": "math.max(left, ttl)" => "(ttl > 0 and ttl or left)" },
    script! { "readers-lower" Readers "`shared` keeps the longest TTL of its readers"
    "acquire" "release" "convert": "write_holder('shared', math.max(cut(redis.call('PTTL', KEYS[1])), ms))"
        => "write_holder('shared', ms)" },
    script! { "readers-outlive-shared" Losing "readers count only while N is shared"
    "acquire" "release" "convert": "    redis.call('DEL', KEYS[5])\n  end\n  readers" => "  end\n  readers";
    "renew": "    redis.call('DEL', KEYS[2])\n" => "" },
    script! { "late-reader-renewed" Lingering "an expired reader is not renewed"
    "renew": "elseif expiry > now then" => "elseif expiry > 0 then" },
    script! { "renewal-recreates" Losing "a renewal never re-creates a missing key"
       "renew": "if not holder then\n"
           => "if not holder and not KEYS[2] and ttl > 0 then\n  redis.call('SET', KEYS[1], ARGV[1] .. ' 5', 'PX', ARGV[2])\n  \
    return { 'renewed', 0, 0, us, ttl, -1, 0 }\nend\nif not holder then\n" },
    script! { "publish-by-call" Messages "a refused PUBLISH is only a lost hint"
    "acquire" "release" "convert": "redis.pcall('PUBLISH'" => "redis.call('PUBLISH'" },
    script! { "release-writes-first" Servers "a release is allowed at maxmemory"
    "release": "purge()\n\nlocal status" => "redis.call('SET', KEYS[2], text(last))\npurge()\n\nlocal status" },
    script! { "reader-renewal-adds-first" Servers "a reader's renewal is allowed at maxmemory" seed 59
    "renew": "    redis.call('PEXPIRE', KEYS[1], string.format('%.0f', keep))\n" => "";
    "renew": "    if redis.call('PTTL', KEYS[2]) < ms then\n"
        => "    redis.call('PEXPIRE', KEYS[1], string.format('%.0f', keep))\n    if redis.call('PTTL', KEYS[2]) < ms then\n" },
    script! { "refill-enters" Hot "a refill neither enters nor joins"
    "acquire": "if how == 'refill' then" => "if false then" },
    script! { "late-head-purges-itself" Servers "a waiter refreshes its record before any purge" seed 344
    "acquire": "if queued then\n  write_record()\nelseif propose then\n  propose(mode)\nend\n" => "";
    "acquire": "if not queued then\n  join()\nend"
        => "queued = score(token) > 0\n\
     if queued then\n  write_record()\nelse\n  join()\nend" },
    script! { "dead-head-granted" Clients "dead waiters at the head are dropped"
    "acquire" "release" "convert": "if expiry and tonumber(expiry) > now then" => "if expiry then" },
    script! { "grants-for-ttl" Clients "a grant is kept for the claim window"
    "acquire" "release" "convert": "ms = math.min(ms, tonumber(claim))" => "" },
    script! { "release-grants-nobody" Network "every release ends by granting"
    "release": "grant()\nlocal reply = answer(status)" => "local reply = answer(status)" },
    script! { "convert-grants-nobody" Converts "every convert ends by granting"
    "convert": "grant()\nreturn answer('converted'" => "return answer('converted'" },
    script! { "readers-barge" Readers "nobody overtakes a live waiter"
    "acquire": "if compatible(mode) and (mixed or not head()) then" => "if compatible(mode) then" },
    script! { "upgrade-beside-readers" Converts "only a sole reader upgrades"
    "convert": "(mode == 'exclusive' and readers > 1)" => "false" },
    script! { "conflict-no-tombstone" Converts "after a conflict, no copy of the call converts" seed 235
    "convert": "    leave_tombstone(new, 60000)\n" => "" },
    script! { "tombstone-ignored" GivingUp "a token with a tombstone neither waits nor enters"
    "acquire": "if has_tombstone(token) then" => "if false then" },
    script! { "tombstones-grow" Unhurried "a new tombstone removes expired ones"
    "release" "convert": "  redis.call('ZREMRANGEBYSCORE', KEYS[3], text(-now), '(0')\n  leave(token)\n"
        => "  leave(token)\n" },
    script! { "queue-without-ttl" Network "no key is without TTL"
    "acquire": "  if redis.call('PTTL', KEYS[3]) < claim then\n    redis.call('PEXPIRE', KEYS[3], text(claim))\n  end\n"
        => "" },
    script! { "release-drops-tombstone" GivingUp "a release leaves the tombstone of its token" seed 1_961
    "release": "if score(token) <= 0 then" => "if score(token) == 0 then" },
    script! { "tombstones-counted" GivingUp "tombstones count for no position"
    "acquire": "redis.call('ZRANK', KEYS[3], token) - tombstones + 1" => "redis.call('ZRANK', KEYS[3], token) + 1" },
    script! { "tombstone-at-the-head" GivingUp "the head of the queue is a waiter"
    "acquire" "release" "convert": "KEYS[3], text(tombstones), text(tombstones + size - 1)"
        => "KEYS[3], '0', text(size - 1)" },
    script! { "tombstones-wait" GivingUp "tombstones are not counted as waiters"
    "acquire" "release" "convert": "    waiting = waiting - tombstones\n" => "" },
    script! { "joined-unmarked" Network "who joins the queue marks the holder"
    "acquire": "mark_holder()\nlocal position" => "local position" },
    script! { "handed-on-unmarked" Network "a hand-over keeps the mark while others wait"
    "acquire" "release" "convert": "waiting > 0 and '*' or ' '" => "' '" },
    script! { "foreign-marked" Foreign "the value of another library's client is not rewritten"
    "acquire": "if mark == ' ' and (holder == 'shared' or is_token(holder)) then" => "if mark == ' ' then" },
    script! { "mark-without-ttl" Network "the mark leaves the TTL as it is"
    "acquire": "held_fence, 'KEEPTTL')" => "held_fence)" },
    // Several names at once.
    script! { "multi-takes-held" Multi "all names are free, or none is taken"
    "multi": "if not part.mine and (not free" => "if not part.mine and number == 1 and (not free" },
    script! { "multi-passes-waiters" Multi "a dead waiter hides no live one"
    "multi": "      return true\n    end\n  end\n" => "      return true\n    end\n    return false\n  end\n" },
    script! { "multi-above-the-limit" Multi "a script for several names takes permits only below the limit"
    "multi": "return known and part.used <= math.max(tonumber(part.limit), wanted)," => "return known and used <= math.max(tonumber(part.limit), wanted)," },
    script! { "multi-permits-uncounted" Multi "permits of several names count for others"
    "multi": "'used', text(part.used), 'limit'" => "'used', text(part.used - part.wanted), 'limit'" },
    script! { "multi-reads-beside-a-writer" Multi "a reader of several names does not enter beside a writer"
    "multi": "return not value and #part.over < 100 or part.joins," => "return shared or not value," },
    script! { "multi-ignores-tombstone" Multi "a token with a tombstone does not enter"
    "multi": "or 0) < -now then" => "or 0) < -1e15 then" },
    // Batches.
    script! { "batch-renews-expired-permits" Semaphore "permits that have expired are not renewed" seed 4_413
    "batch": "    if expiry and expiry > now then" => "    if expiry then" },
    script! { "batch-renews-others-reentrant" Reentrant "a batch renews a reentrant lock only for its holder" seed 793
    "batch": "if reentrant and type(pcall('HGET', KEYS[key + 1], ARGV[arg + 2])) == 'string'"
        => "if reentrant and pcall('EXISTS', KEYS[key + 1]) == 1" },
    script! { "batch-takes-others-reentrant" Reentrant "an acquire takes only a free reentrant lock"
    "batch": "pcall('EXISTS', KEYS[key + 1], KEYS[key + 2]) == 0\n        and pcall('HSET'"
        => "pcall('EXISTS', KEYS[key + 2]) == 0\n        and pcall('HSET'" },
    script! { "batch-frees-others-reentrant" Reentrant "a release frees only what its token holds"
    "batch": "== 1 and type(pcall('HGET', KEYS[key + 1], ARGV[arg + 2])) == 'string'" => "== 1" },
    script! { "batch-reentrant-unpublished" Reentrant "every release is published"
    "batch": "      pcall('PUBLISH', channel, '0')\n" => "" },
    script! { "batch-reentrant-unasked" Reentrant "it tells whether others wait"
    "batch": "1 + (listening and tonumber(listening[2]) or 2)" => "1" },
    script! { "batch-takes-from-others" Network "a batch takes only what is free"
    "batch": "pcall('EXISTS', KEYS[key + 1], KEYS[key + 2]) == 0\n        and not"
        => "pcall('EXISTS', KEYS[key + 2]) == 0\n        and not" },
    script! { "batch-passes-waiters" GivingUp "nobody overtakes a waiter by a batch, and no token with a tombstone enters"
    "batch": "pcall('EXISTS', KEYS[key + 1], KEYS[key + 2]) == 0\n        and not"
        => "pcall('EXISTS', KEYS[key + 1]) == 0\n        and not" },
    script! { "batch-releases-for-others" Network "a batch releases only what the token holds"
    "batch": "pcall('GET', KEYS[key + 1]) == ARGV[arg + 2] and pcall('DEL'" => "pcall('DEL'" },
    script! { "batch-grants-nobody" Network "a release leaves no waiter behind"
    "batch": "pcall('GET', KEYS[key + 1]) == ARGV[arg + 2] and pcall('DEL'"
        => "string.gsub(pcall('GET', KEYS[key + 1]) or '', '%*', ' ') == ARGV[arg + 2] and pcall('DEL'" },
    script! { "batch-renewal-lowers" Network "a renewal never lowers the TTL" seed 133
    "batch": "math.max(tonumber(pcall('PTTL', KEYS[key + 1])) or 0, tonumber(ARGV[arg + 3]))"
        => "ARGV[arg + 3] + 0" },
    script! { "batch-draws-the-clock" Network "the fence of a batch is above the counter"
    "batch": "#last == 16 and last < us and not string.find(last, '%D') then" => "#last == 16 then" },
    script! { "batch-lowers-the-counter" Network "a batch writes the fence that it drew"
    "batch": "    redis.call('SET', KEYS[#KEYS], fence, 'KEEPTTL')\n" => "" },
    script! { "batch-keeps-a-lost-counter" Network "a batch leaves a lost counter to the slow path"
    "batch": "    redis.call('DEL', KEYS[#KEYS])\n" => "" },
    // The fast path of one command.
    script! { "fast-takes-from-others" Network "it takes only what is free"
    "acquire-fast": "redis.call('EXISTS', KEYS[1], KEYS[2])" => "redis.call('EXISTS', KEYS[2])" },
    script! { "fast-passes-waiters" GivingUp "it overtakes no waiter, and ignores no tombstone"
    "acquire-fast": "redis.call('EXISTS', KEYS[1], KEYS[2])" => "redis.call('EXISTS', KEYS[1])" },
    script! { "fast-draws-the-clock" Hot "its fence is above the counter"
    "acquire-fast": "if not last or #last ~= 16 or last >= us or string.find(last, '%D') then"
        => "if not last then" },
    script! { "fast-lowers-the-counter" Hot "it writes the fence that it drew"
    "acquire-fast": "  redis.call('SET', KEYS[3], fence, 'KEEPTTL')\n" => "" },
    script! { "fast-keeps-a-lost-counter" Evicting "it leaves a lost counter to the slow path"
    "acquire-fast": "      redis.call('DEL', KEYS[3])\n" => "" },
    script! { "fast-releases-for-others" Network "it releases only what the token holds"
    "release-fast": "redis.call('GET', KEYS[1]) == ARGV[1]" => "redis.call('GET', KEYS[1])" },
    script! { "fast-release-ignores-the-mark" Network "it releases nothing that others wait for"
    "release-fast": "redis.call('GET', KEYS[1]) == ARGV[1]"
        => "string.gsub(redis.call('GET', KEYS[1]) or '', '%*', ' ') == ARGV[1]" },
    // Semaphores.
    script! { "evicted-readers-passed" Evicting "evicted readers keep others out"
    "acquire" "release" "convert": "    if readers == 0 then\n      redis.call('DEL', KEYS[1])\n      holder = false\n    end\n  end\nend"
        => "  end\n  if readers == 0 then\n    redis.call('DEL', KEYS[1])\n    holder = false\n  end\nend" },
    script! { "evicted-readers-joined" Evicting "nobody joins evicted readers" seed 302
    "acquire" "release" "convert": "return not holder or readers > 0"
        => "return not holder or holder == 'shared'" },
    script! { "refill-grants-nobody" Evicting "a refill without a lease ends by granting"
    "acquire": "if how == 'refill' then\n  grant()\n" => "if how == 'refill' then\n" },
    script! { "verify-writes-nothing" Servers "a replica confirms no lease" seed 78
    "renew": "  if ms > 0 then\n" => "  if ttl ~= 0 and ms > 0 then\n" },
    // Locks over several servers.
    script! { "batch-readers-pass-waiters" Readers "a reader of a batch does not pass waiters"
    "batch": "if fence and pcall('EXISTS', KEYS[key + 2]) == 0 then\n      local value"
        => "if fence then\n      local value" },
    script! { "batch-readers-beside-a-writer" Readers "a reader of a batch does not enter beside a writer"
    "batch": "      if not value then\n        new = true" => "      if true then\n        new = true" },
    script! { "batch-permits-without-limit" Semaphore "a batch grants no more permits than the limit"
    "batch": "used <= math.max(tonumber(limit), tonumber(wanted))" => "used <= 1e9" },
    script! { "batch-permits-come-back-twice" Semaphore "a batch gives back as many permits as were taken"
    "batch": "used - returned" => "used - 2 * returned" },
    script! { "hand-over-to-the-dead" Hot "the short hand-over passes dead waiters over" seed 73
    "release": "tonumber(expiry) > clock[1] * 1000 + math.floor(clock[2] / 1000) then" => "true then" },
    script! { "hand-over-forgets-used" Hot "a used fence takes the slow path" seed 369
    "release": " and ARGV[3] == '0'" => "" },
    script! { "hand-over-loses-the-mark" Hot "the next holder is told that others wait"
    "release": "local mark = waiting > 0 and '*' or ' '" => "local mark = ' '" },
    script! { "early-return-for-given-up-tokens" Hot "a token that was given up does not join by the early return"
    "acquire": "if behind and (behind >= waiting or ARGV[4] == 'try') then"
        => "if behind and ARGV[4] == 'try' then" },
];
