//! Deliberate bugs in elections.

use super::Mutant;

pub(super) const TABLE: &[Mutant] = &[
    // The scripts.
    script! { "leads-beside" Election "one leader at a time"
    "election-acquire" "election-release": "return not holder and string.sub(mode, 1, 7) == 'leader '" => "return true" },
    script! { "resigns-for-another" Election "a client resigns only from its own term"
    "election-release": "if holder ~= token then\n    return false" => "if not holder then\n    return false" },
    script! { "term-renumbered" Election "an acquire that arrives again leaves a term its number"
    "election-acquire": "return answer('again', epoch or fence, size, ms)" => "return answer('again', draw(), size, ms)" },
    script! { "leader-unpublished" Election "a new leader is published"
    "election-acquire" "election-release": "  if ended then\n    local payload" => "  if false then\n    local payload" },
    script! { "value-of-another" Election "the leader's value is that of its own acquire"
    "election-release": "text(epoch) .. ' ' .. value" => "text(epoch) .. ' somebody'" },
    // The engine.
    engine! { "campaign-gives-up" Election "a campaign waits for as long as it takes"
    "client/election.rs": "let (kind, wait) = (Kind::Election, Wait::Forever);"
        => "let (kind, wait) = (Kind::Election, if MUTANT { Wait::For(core::time::Duration::from_secs(2)) } else { Wait::Forever });" },
    engine! { "observer-goes-back" Election "a message never takes observers back to an earlier term"
    "lock/election.rs": "if observed.known && last == observed.last &&"
        => "if observed.known && last == observed.last && !(MUTANT && asked.is_none()) &&" },
    engine! { "old-answer-counts" Election "an answer says nothing about a leader that came after the question"
    "lock/election.rs": "let is_late = asked.is_none_or(|asked| asked <= observed.learned);"
        => "let is_late = asked.is_none_or(|asked| !MUTANT && asked <= observed.learned);" },
    engine! { "asks-at-each-renewal" Election "observers ask once for each TTL, whenever the leader renews"
    "lock/election.rs": "observed.ttl = if is_same { observed.ttl.max(left) } else { left };"
        => "observed.ttl = if is_same && !MUTANT { observed.ttl.max(left) } else { left / (1 + u32::from(MUTANT)) };" },
    engine! { "observes-the-dead" Election "in an outage, observers say that nobody leads after the leader's TTL"
    "lock/election.rs": "if wait.is_zero() {" => "if !MUTANT && wait.is_zero() {" },
    engine! { "doubts-at-once" Election "one question without an answer ends no term for its observers"
    "lock/election.rs": "let ends = observed.learned + observed.longest + cx.claim_window;"
        => "let ends = if MUTANT { cx.now } else { observed.learned + observed.longest + cx.claim_window };" },
    engine! { "doubts-a-new-leader" Election "a new leader, which has a claim window at first, is believed in for the TTL"
    "lock/election.rs": "observed.longest = observed.longest.max(left);"
        => "observed.longest = if MUTANT { left } else { observed.longest.max(left) };" },
    engine! { "misses-a-break" Election "observers ask once their subscription is back"
    "lock/election.rs": "if !self.subscription.is_polling() || self.subscription.is_refused() {"
        => "if self.subscription.is_refused() || !MUTANT && !self.subscription.is_polling() {" },
    engine! { "observers-stay" Election "a close ends those who observe"
    "client/operations.rs": "lock.end_observers(cx, &Error::Closed);" => "if !MUTANT { lock.end_observers(cx, &Error::Closed); }" },
];
