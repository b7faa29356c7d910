//! Deliberate bugs of calls that wait behind few others.

use super::Mutant;

pub(super) const TABLE: &[Mutant] = &[
    script! { "waiters-one-more" Waiters "a call that doesn't accept so many callers does not join the queue"
    "acquire" "semaphore-acquire" "once-acquire": "elsewhere >= most then" => "elsewhere > most then" },
    script! { "waiters-refused-joins" Waiters "a call that is refused leaves nothing on the server"
    "acquire" "semaphore-acquire" "once-acquire": "local elsewhere = most and callers_elsewhere()\n"
        => "local elsewhere = most and callers_elsewhere()\nif most and not queued and elsewhere >= most then\n  join()\nend\n" },
    script! { "waiters-dead-count" Waiters "callers of dead clients don't count"
    "acquire" "semaphore-acquire" "once-acquire": "expiry and tonumber(expiry) > now then\n      sum" => "expiry then\n      sum" },
    script! { "waiters-of-clients" Waiters "callers count, not clients"
    "acquire" "semaphore-acquire" "once-acquire": "sum = sum + tonumber(count)" => "sum = sum + 1" },
    engine! { "waiters-not-refreshed" Waiters "a heartbeat says for how many callers it is"
    "lock/claim.rs": "callers: waiters.saturating_add(self.behind)"
        => "callers: if MUTANT { 1 } else { waiters.saturating_add(self.behind) }" },
    engine! { "waiters-own-uncounted" Waiters "a client counts its own callers"
    "lock/local_queue.rs": "found = found.saturating_add(1);" => "found = found.saturating_add(u32::from(!MUTANT));" },
    engine! { "waiters-refused-early" Waiters "a call is refused only if as many wait as it doesn't accept"
    "lock/local_queue.rs": "Some(most) if found >= most =>" => "Some(most) if found >= most.saturating_sub(u32::from(MUTANT)) =>" },
    engine! { "waiters-counted-twice" Waiters "after one of a client's tokens for a semaphore stopped waiting, its callers don't count twice" seed 623
    "lock/max_waiters.rs": "(claim.counts, claim.elsewhere) = (false, None);"
        => "if !MUTANT {\n                (claim.counts, claim.elsewhere) = (false, None);\n            }" },
    engine! { "waiters-of-all-lanes" Waiters "one of a client's tokens for a semaphore stands for the callers behind all"
    "client/semaphore.rs": "lane.behind = if Some(*id) == first {" => "lane.behind = if MUTANT || Some(*id) == first {" },
];
