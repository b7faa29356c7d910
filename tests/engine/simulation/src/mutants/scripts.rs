//! Deliberate bugs in the scripts, as changes of their text.

use crate::injected_bugs::ScriptChange;

/// The same change in every script that grants.
macro_rules! granting {
    ($find:expr, $put:expr) => {
        &[("acquire", $find, $put), ("release", $find, $put), ("convert", $find, $put)]
    };
}

pub(super) const RELEASE_IGNORES_OWNER: &[ScriptChange] = &[
    ("release", "redis.call('GET', KEYS[1]) == ARGV[1]", "redis.call('GET', KEYS[1])"),
    (
        "release",
        "if holder == token then\n    redis.call('DEL'",
        "if holder and holder ~= 'shared' then\n    redis.call('DEL'",
    ),
];
pub(super) const FENCE_WITHOUT_MAX: &[ScriptChange] =
    granting!("local fence = math.max(last + 1, us)", "local fence = us");
pub(super) const BLOCK_UNCUT: &[ScriptChange] =
    granting!("math.max(1, math.min(wanted, us + 1024 - fence))", "math.max(1, wanted)");
pub(super) const NUMBERS_LOSE_DIGITS: &[ScriptChange] =
    granting!("return string.format('%.0f', number)", "return tostring(number)");
pub(super) const RENEWAL_LOWERS: &[ScriptChange] = &[("renew", "math.max(left, ttl)", "(ttl > 0 and ttl or left)")];
pub(super) const READERS_LOWER: &[ScriptChange] =
    granting!("local keep_ms = holder and math.max(cut(redis.call('PTTL', KEYS[1])), ms) or ms", "local keep_ms = ms");
pub(super) const READERS_OUTLIVE_SHARED: &[ScriptChange] = &[
    ("acquire", "      redis.call('DEL', KEYS[5])\n      readers = 0\n", ""),
    ("release", "      redis.call('DEL', KEYS[5])\n      readers = 0\n", ""),
    ("convert", "      redis.call('DEL', KEYS[5])\n      readers = 0\n", ""),
    ("renew", "    redis.call('DEL', KEYS[2])\n", ""),
];
pub(super) const LATE_READER_RENEWED: &[ScriptChange] =
    &[("renew", "elseif expiry > now then", "elseif expiry > 0 then")];
pub(super) const RENEWAL_RECREATES: &[ScriptChange] = &[(
    "renew",
    "if not holder then\n",
    "if not holder and not KEYS[2] and ttl > 0 then\n  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])\n  \
     return { 'renewed', 0, 0, us, ttl, -1, 0 }\nend\nif not holder then\n",
)];
pub(super) const PUBLISH_BY_CALL: &[ScriptChange] = granting!("redis.pcall('PUBLISH'", "redis.call('PUBLISH'");
pub(super) const RELEASE_WRITES_FIRST: &[ScriptChange] = &[(
    "release",
    "purge()\n\nlocal status",
    "redis.call('SET', KEYS[2], text(math.max(last, 1)), 'PX', text(math.max(retention, redis.call('PTTL', KEYS[2]))))\n\
     purge()\n\nlocal status",
)];
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
        "queued = waiting > 0 and redis.call('ZSCORE', KEYS[3], token)\n\
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
    ("release", "  redis.call('ZREMRANGEBYSCORE', KEYS[6], '-inf', text(now))\n", ""),
    ("convert", "  redis.call('ZREMRANGEBYSCORE', KEYS[6], '-inf', text(now))\n", ""),
];
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
    granting!("holder == 'shared' and readers > 0\n  end\n  return", "holder == 'shared'\n  end\n  return");
pub(super) const REFILL_GRANTS_NOBODY: &[ScriptChange] =
    &[("acquire", "if how == 'refill' then\n  grant()\n", "if how == 'refill' then\n")];
pub(super) const VERIFY_WRITES_NOTHING: &[ScriptChange] =
    &[("renew", "  if ms > 0 then\n", "  if ttl ~= 0 and ms > 0 then\n")];

pub(super) const MULTI_TAKES_HELD: &[ScriptChange] =
    &[("multi", "if not mine[name] and (holder", "if not mine[name] and name == 1 and (holder")];

pub(super) const MULTI_DIGS_UP: &[ScriptChange] = &[("multi", "if till and", "if false and")];

pub(super) const BATCH_TAKES_FROM_OTHERS: &[ScriptChange] =
    &[("batch", "pcall('EXISTS', name, queue, readers, buried)", "pcall('EXISTS', queue, readers, buried)")];
pub(super) const BATCH_DIGS_UP: &[ScriptChange] =
    &[("batch", "pcall('EXISTS', name, queue, readers, buried)", "pcall('EXISTS', name, queue, readers)")];
pub(super) const BATCH_RELEASES_FOR_OTHERS: &[ScriptChange] =
    &[("batch", "pcall('GET', name) ~= token or pcall", "pcall")];
pub(super) const BATCH_GRANTS_NOBODY: &[ScriptChange] =
    &[("batch", "~= token or pcall('EXISTS', queue, readers) ~= 0 then", "~= token then")];
pub(super) const BATCH_RENEWAL_LOWERS: &[ScriptChange] = &[("batch", "math.max(tonumber(left) or 0, ttl)", "ttl + 0")];
