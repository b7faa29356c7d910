//! Deliberate bugs in the scripts, as changes of their text.

use crate::injected_bugs::ScriptChange;

/// The same change in every script that grants.
macro_rules! granting {
    ($find:expr, $put:expr) => {
        &[("acquire", $find, $put), ("release", $find, $put), ("convert", $find, $put)]
    };
}

pub(super) const RELEASE_IGNORES_OWNER: &[ScriptChange] = &[(
    "release",
    "if holder == token then\n    redis.call('DEL'",
    "if holder and holder ~= 'shared' then\n    redis.call('DEL'",
)];
pub(super) const FENCE_WITHOUT_MAX: &[ScriptChange] =
    granting!("fence = fence or math.max(last + 1, us)", "fence = fence or us");
pub(super) const FENCE_FOR_EACH: &[ScriptChange] =
    granting!("  fence = fence or math.max(last + 1, us)\n", "  fence = math.max(last + 1, us)\n  last = fence\n");
pub(super) const BLOCK_UNCUT: &[ScriptChange] =
    granting!("math.max(1, math.min(wanted, us + 1024 - draw()))", "math.max(draw() * 0 + 1, wanted)");
pub(super) const USED_IGNORED: &[ScriptChange] = granting!("pass(tonumber(ARGV[#ARGV - 1]))\n", "");
pub(super) const LOST_COUNTER_AT_CLOCK: &[ScriptChange] = granting!("not stored and us + 1024", "not stored and us");
pub(super) const FORCE_DRAWS_IN_BLOCK: &[ScriptChange] = &[("force", "pass(us + 1023)\n", "")];
pub(super) const NUMBERS_LOSE_DIGITS: &[ScriptChange] =
    granting!("return string.format('%.0f', number)", "return tostring(number)");
pub(super) const RENEWAL_LOWERS: &[ScriptChange] = &[("renew", "math.max(left, ttl)", "(ttl > 0 and ttl or left)")];
pub(super) const READERS_LOWER: &[ScriptChange] =
    granting!("write_holder('shared', math.max(cut(redis.call('PTTL', KEYS[1])), ms))", "write_holder('shared', ms)");
pub(super) const READERS_OUTLIVE_SHARED: &[ScriptChange] = &[
    ("acquire", "    redis.call('DEL', KEYS[5])\n  end\n  readers", "  end\n  readers"),
    ("release", "    redis.call('DEL', KEYS[5])\n  end\n  readers", "  end\n  readers"),
    ("convert", "    redis.call('DEL', KEYS[5])\n  end\n  readers", "  end\n  readers"),
    ("renew", "    redis.call('DEL', KEYS[2])\n", ""),
];
pub(super) const LATE_READER_RENEWED: &[ScriptChange] =
    &[("renew", "elseif expiry > now then", "elseif expiry > 0 then")];
pub(super) const RENEWAL_RECREATES: &[ScriptChange] = &[(
    "renew",
    "if not holder then\n",
    "if not holder and not KEYS[2] and ttl > 0 then\n  redis.call('SET', KEYS[1], ARGV[1] .. ' 5', 'PX', ARGV[2])\n  \
     return { 'renewed', 0, 0, us, ttl, -1, 0 }\nend\nif not holder then\n",
)];
pub(super) const PUBLISH_BY_CALL: &[ScriptChange] = granting!("redis.pcall('PUBLISH'", "redis.call('PUBLISH'");
pub(super) const RELEASE_WRITES_FIRST: &[ScriptChange] =
    &[("release", "purge()\n\nlocal status", "redis.call('SET', KEYS[2], text(last))\npurge()\n\nlocal status")];
pub(super) const READER_RENEWAL_ADDS_FIRST: &[ScriptChange] = &[
    ("renew", "    redis.call('PEXPIRE', KEYS[1], string.format('%.0f', keep))\n", ""),
    (
        "renew",
        "    if redis.call('PTTL', KEYS[2]) < ms then\n",
        "    redis.call('PEXPIRE', KEYS[1], string.format('%.0f', keep))\n    if redis.call('PTTL', KEYS[2]) < ms then\n",
    ),
];
pub(super) const REFILL_ENTERS: &[ScriptChange] = &[("acquire", "if how == 'refill' then", "if false then")];
pub(super) const LATE_HEAD_PURGES_ITSELF: &[ScriptChange] = &[
    ("acquire", "if queued then\n  write_record()\nelseif propose then\n  propose(mode)\nend\n", ""),
    (
        "acquire",
        "if not queued then\n  join()\nend",
        "queued = score(token) > 0\n\
         if queued then\n  write_record()\nelse\n  join()\nend",
    ),
];
pub(super) const DEAD_HEAD_GRANTED: &[ScriptChange] =
    granting!("if expiry and tonumber(expiry) > now then", "if expiry then");
pub(super) const GRANTS_FOR_TTL: &[ScriptChange] = granting!("ms = math.min(ms, tonumber(claim))", "");
pub(super) const RELEASE_GRANTS_NOBODY: &[ScriptChange] =
    &[("release", "grant()\nreturn answer(status)", "return answer(status)")];
pub(super) const CONVERT_GRANTS_NOBODY: &[ScriptChange] =
    &[("convert", "grant()\nreturn answer('converted'", "return answer('converted'")];
pub(super) const READERS_BARGE: &[ScriptChange] =
    &[("acquire", "if compatible(mode) and (mixed or not head()) then", "if compatible(mode) then")];
pub(super) const UPGRADE_BESIDE_READERS: &[ScriptChange] =
    &[("convert", "(mode == 'exclusive' and readers > 1)", "false")];
pub(super) const CONFLICT_NOT_BURIED: &[ScriptChange] = &[("convert", "    bury(new, 60000)\n", "")];
pub(super) const BURIED_IGNORED: &[ScriptChange] = &[("acquire", "if buried(token) then", "if false then")];
pub(super) const BURIED_GROWS: &[ScriptChange] = &[
    ("release", "  redis.call('ZREMRANGEBYSCORE', KEYS[3], text(-now), '(0')\n  leave(token)\n", "  leave(token)\n"),
    ("convert", "  redis.call('ZREMRANGEBYSCORE', KEYS[3], text(-now), '(0')\n  leave(token)\n", "  leave(token)\n"),
];
pub(super) const RELEASE_DIGS_UP: &[ScriptChange] =
    &[("release", "if score(token) <= 0 then", "if score(token) == 0 then")];
pub(super) const GRAVES_COUNTED: &[ScriptChange] =
    &[("acquire", "redis.call('ZRANK', KEYS[3], token) - graves + 1", "redis.call('ZRANK', KEYS[3], token) + 1")];
pub(super) const GRAVE_AT_THE_HEAD: &[ScriptChange] =
    granting!("KEYS[3], text(graves), text(graves + size - 1)", "KEYS[3], '0', text(size - 1)");
pub(super) const GRAVES_WAIT: &[ScriptChange] = granting!("    waiting = waiting - graves\n", "");
pub(super) const JOINED_UNMARKED: &[ScriptChange] = &[("acquire", "mark_holder()\nlocal position", "local position")];
pub(super) const HANDED_ON_UNMARKED: &[ScriptChange] = granting!("waiting > 0 and '*' or ' '", "' '");
pub(super) const FOREIGN_MARKED: &[ScriptChange] =
    &[("acquire", "if mark == ' ' and (holder == 'shared' or is_token(holder)) then", "if mark == ' ' then")];
pub(super) const MARK_WITHOUT_TTL: &[ScriptChange] = &[("acquire", "held_fence, 'KEEPTTL')", "held_fence)")];

pub(super) const QUEUE_WITHOUT_TTL: &[ScriptChange] = &[(
    "acquire",
    "  if redis.call('PTTL', KEYS[3]) < claim then\n    redis.call('PEXPIRE', KEYS[3], text(claim))\n  end\n",
    "",
)];

pub(super) const EVICTED_READERS_PASSED: &[ScriptChange] = granting!(
    "    if readers == 0 then\n      redis.call('DEL', KEYS[1])\n      holder = false\n    end\n  end\nend",
    "  end\n  if readers == 0 then\n    redis.call('DEL', KEYS[1])\n    holder = false\n  end\nend"
);
pub(super) const EVICTED_READERS_JOINED: &[ScriptChange] =
    granting!("return not holder or readers > 0", "return not holder or holder == 'shared'");
pub(super) const REFILL_GRANTS_NOBODY: &[ScriptChange] =
    &[("acquire", "if how == 'refill' then\n  grant()\n", "if how == 'refill' then\n")];
pub(super) const VERIFY_WRITES_NOTHING: &[ScriptChange] =
    &[("renew", "  if ms > 0 then\n", "  if ttl ~= 0 and ms > 0 then\n")];

pub(super) const MULTI_TAKES_HELD: &[ScriptChange] =
    &[("multi", "if not mine[name] and (holder", "if not mine[name] and name == 1 and (holder")];

pub(super) const MULTI_PASSES_WAITERS: &[ScriptChange] =
    &[("multi", "      return true\n    end\n  end\n", "      return true\n    end\n    return false\n  end\n")];

pub(super) const MULTI_DIGS_UP: &[ScriptChange] = &[("multi", "or 0) < -now then", "or 0) < -1e15 then")];

pub(super) const FAST_TAKES_FROM_OTHERS: &[ScriptChange] =
    &[("acquire-fast", "redis.call('EXISTS', KEYS[1], KEYS[2])", "redis.call('EXISTS', KEYS[2])")];
pub(super) const FAST_PASSES_WAITERS: &[ScriptChange] =
    &[("acquire-fast", "redis.call('EXISTS', KEYS[1], KEYS[2])", "redis.call('EXISTS', KEYS[1])")];
pub(super) const FAST_DRAWS_THE_CLOCK: &[ScriptChange] =
    &[("acquire-fast", "if not last or #last ~= 16 or last >= us or string.find(last, '%D') then", "if not last then")];
pub(super) const FAST_LOWERS_THE_COUNTER: &[ScriptChange] =
    &[("acquire-fast", "  redis.call('SET', KEYS[3], fence, 'KEEPTTL')\n", "")];
pub(super) const FAST_KEEPS_A_LOST_COUNTER: &[ScriptChange] =
    &[("acquire-fast", "      redis.call('DEL', KEYS[3])\n", "")];
pub(super) const BATCH_RENEWS_EXPIRED_PERMITS: &[ScriptChange] =
    &[("batch", "    if expiry and expiry > now then", "    if expiry then")];
pub(super) const BATCH_RENEWS_OTHERS_REENTRANT: &[ScriptChange] = &[(
    "batch",
    "if reentrant and type(pcall('HGET', KEYS[key + 1], ARGV[arg + 2])) == 'string'",
    "if reentrant and pcall('EXISTS', KEYS[key + 1]) == 1",
)];
pub(super) const BATCH_TAKES_OTHERS_REENTRANT: &[ScriptChange] = &[(
    "batch",
    "pcall('EXISTS', KEYS[key + 1], KEYS[key + 2]) == 0\n        and pcall('HSET'",
    "pcall('EXISTS', KEYS[key + 2]) == 0\n        and pcall('HSET'",
)];
pub(super) const BATCH_FREES_OTHERS_REENTRANT: &[ScriptChange] =
    &[("batch", "== 1 and type(pcall('HGET', KEYS[key + 1], ARGV[arg + 2])) == 'string'", "== 1")];
pub(super) const BATCH_REENTRANT_UNPUBLISHED: &[ScriptChange] =
    &[("batch", "      pcall('PUBLISH', channel, '0')\n", "")];
pub(super) const BATCH_REENTRANT_UNASKED: &[ScriptChange] =
    &[("batch", "1 + (listening and tonumber(listening[2]) or 2)", "1")];
pub(super) const FAST_RELEASES_FOR_OTHERS: &[ScriptChange] =
    &[("release-fast", "redis.call('GET', KEYS[1]) == ARGV[1]", "redis.call('GET', KEYS[1])")];
pub(super) const FAST_RELEASE_IGNORES_THE_MARK: &[ScriptChange] = &[(
    "release-fast",
    "redis.call('GET', KEYS[1]) == ARGV[1]",
    "string.gsub(redis.call('GET', KEYS[1]) or '', '%*', ' ') == ARGV[1]",
)];

pub(super) const BATCH_TAKES_FROM_OTHERS: &[ScriptChange] = &[(
    "batch",
    "pcall('EXISTS', KEYS[key + 1], KEYS[key + 2]) == 0\n        and not",
    "pcall('EXISTS', KEYS[key + 2]) == 0\n        and not",
)];
pub(super) const BATCH_PASSES_WAITERS: &[ScriptChange] = &[(
    "batch",
    "pcall('EXISTS', KEYS[key + 1], KEYS[key + 2]) == 0\n        and not",
    "pcall('EXISTS', KEYS[key + 1]) == 0\n        and not",
)];
pub(super) const BATCH_RELEASES_FOR_OTHERS: &[ScriptChange] =
    &[("batch", "pcall('GET', KEYS[key + 1]) == ARGV[arg + 2] and pcall('DEL'", "pcall('DEL'")];
pub(super) const BATCH_GRANTS_NOBODY: &[ScriptChange] = &[(
    "batch",
    "pcall('GET', KEYS[key + 1]) == ARGV[arg + 2] and pcall('DEL'",
    "string.gsub(pcall('GET', KEYS[key + 1]) or '', '%*', ' ') == ARGV[arg + 2] and pcall('DEL'",
)];
pub(super) const BATCH_RENEWAL_LOWERS: &[ScriptChange] =
    &[("batch", "math.max(tonumber(pcall('PTTL', KEYS[key + 1])) or 0, tonumber(ARGV[arg + 3]))", "ARGV[arg + 3] + 0")];
pub(super) const BATCH_RENEWS_BY_PREFIX: &[ScriptChange] =
    &[("batch", "string.match(value, '^[^ *]*') == ARGV[arg + 2]", "string.find(value, ARGV[arg + 2], 1, true) == 1")];
pub(super) const BATCH_DRAWS_THE_CLOCK: &[ScriptChange] =
    &[("batch", "#last == 16 and last < us and not string.find(last, '%D') then", "#last == 16 then")];
pub(super) const BATCH_LOWERS_THE_COUNTER: &[ScriptChange] =
    &[("batch", "    redis.call('SET', KEYS[#KEYS], fence, 'KEEPTTL')\n", "")];
pub(super) const BATCH_KEEPS_A_LOST_COUNTER: &[ScriptChange] = &[("batch", "    redis.call('DEL', KEYS[#KEYS])\n", "")];

pub(super) const BATCH_READERS_PASS_WAITERS: &[ScriptChange] = &[(
    "batch",
    "if fence and pcall('EXISTS', KEYS[key + 2]) == 0 then\n      local value",
    "if fence then\n      local value",
)];
pub(super) const BATCH_READERS_BESIDE_A_WRITER: &[ScriptChange] =
    &[("batch", "      if not value then\n        new = true", "      if true then\n        new = true")];
pub(super) const BATCH_PERMITS_WITHOUT_LIMIT: &[ScriptChange] =
    &[("batch", "used <= math.max(tonumber(limit), tonumber(wanted))", "used <= 1e9")];
pub(super) const BATCH_PERMITS_COME_BACK_TWICE: &[ScriptChange] =
    &[("batch", "used - returned", "used - 2 * returned")];
pub(super) const HAND_OVER_TO_THE_DEAD: &[ScriptChange] =
    &[("release", "tonumber(expiry) > clock[1] * 1000 + math.floor(clock[2] / 1000) then", "true then")];
pub(super) const HAND_OVER_FORGETS_USED: &[ScriptChange] = &[("release", " and ARGV[3] == '0'", "")];
pub(super) const HAND_OVER_LOSES_THE_MARK: &[ScriptChange] =
    &[("release", "local mark = waiting > 0 and '*' or ' '", "local mark = ' '")];
pub(super) const SHORT_CUT_FOR_GIVEN_UP_TOKENS: &[ScriptChange] =
    &[("acquire", "if behind and (behind >= waiting or ARGV[4] == 'try') then", "if behind and ARGV[4] == 'try' then")];
