//! Deliberate bugs in the scripts of reentrant locks and semaphores.

use super::Mutant;

pub(super) const TABLE: &[Mutant] = &[
    // Reentrant locks.
    script! { "reentrant-frees-any" Reentrant "another client's field is not touched"
    "reentrant-release": "if holder ~= token then\n    return false" => "if not holder then\n    return false" },
    script! { "reentrant-enters-beside" Reentrant "one owner at a time"
    "reentrant-acquire": "local function compatible()\n  return not holder"
        => "local function compatible()\n  return true" },
    script! { "reentrant-counts-its-node" Reentrant "waiters are at any node"
    "reentrant-acquire": "not string.find(KEYS[2], '{', 1, true) and " => "" },
    script! { "reentrant-unpublished" Reentrant "every release is published"
    "reentrant-release": "  redis.pcall('PUBLISH', channel, '0')\n" => "" },
    // Semaphores.
    script! { "limit-ignored" Semaphore "never more permits than the limit"
    "semaphore-acquire" "semaphore-release": "return used + wanted <= math.max(limit, wanted)" => "return true" },
    script! { "expired-permits-kept" Semaphore "the permits of a crashed holder come back"
    "semaphore-acquire" "semaphore-release": "redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', text(now), 'LIMIT', '0', '100')"
        => "{}" },
    script! { "one-permit-released" Semaphore "a release gives all of its permits back"
    "semaphore-acquire" "semaphore-release": "used = used - permits(redis.call('HGET', KEYS[5], token))"
        => "used = used - 1" },
    script! { "small-pass-big" Semaphore "small requests don't overtake a big one"
    "semaphore-acquire": "if compatible(mode) and (mixed or not head()) then" => "if compatible(mode) then" },
    script! { "first-limit-stands" Semaphore "the limit of the latest acquire counts"
    "semaphore-acquire": "propose = function(mode)\n"
        => "propose = function(mode)\n  if limit > 0 then\n    return\n  end\n" },
    script! { "limit-forgotten" Semaphore "after all holders died, the first waiter's limit counts" seed 30
    "semaphore-acquire" "semaphore-release": "    if limit == 0 then\n" => "    if false then\n" },
    script! { "permits-without-ttl" Semaphore "no key is without TTL" seed 53
    "semaphore-acquire" "semaphore-release": "    if ms > 0 then\n" => "    if false then\n" },
    script! { "other-kind-taken" Semaphore "another kind's name is left as it is"
    "semaphore-acquire": "if members > 0 and not is_token(" => "if false and not is_token(" },
];
