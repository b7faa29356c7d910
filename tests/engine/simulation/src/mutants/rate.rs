//! Deliberate bugs of a semaphore with a rate.

use super::Mutant;

pub(super) const TABLE: &[Mutant] = &[
    script! { "rate-release-gives-back" Rate "a release gives no permits of a rate back"
    "semaphore-release": "  if per > 0 and not ends then\n" => "  if false then\n" },
    script! { "rate-unclaimed-not-counted" Rate "a grant that no caller claims counts for the whole window"
    "semaphore-acquire" "semaphore-release": "    ms = per + 1\n" => "    ms = math.min(ms, per + 1)\n" },
    script! { "rate-window-too-short" Rate "a permit counts for its window and the millisecond of its grant"
    "semaphore-acquire" "semaphore-release": "    ms = per + 1\n" => "    ms = per\n" },
    script! { "rate-head-untold" Rate "the new first waiter is told when permits end"
    "semaphore-acquire" "semaphore-release": "if mode and per > 0 and moved and token ~= caller then" => "if false then" },
    script! { "rate-small-pass-big" Rate "small requests don't overtake a big one"
    "semaphore-acquire": "if compatible(mode) and (mixed or not head()) then" => "if compatible(mode) then" },
    engine! { "rate-handed-over" Rate "no caller starts with a permit of another one"
    "lock/grant.rs": "        if claim.per.is_some() {\n" => "        if !MUTANT && claim.per.is_some() {\n" },
    engine! { "rate-next-unheard" Rate "the new first waiter asks when permits end"
    "client/messages.rs": "lock.claim.as_mut().filter(|claim| claim.token == token)"
        => "lock.claim.as_mut().filter(|claim| !MUTANT && claim.token == token)" },
];
