//! Permits: never more than the limit, by each holder's own deadline, and none left unused while the first waiter wants
//! them.
//!
//! The limit of the latest acquire counts. A lower limit takes nothing from current holders. A request for more than
//! the new limit is granted when everything else is free.

use std::collections::HashMap;

use leasehold_harness::Micros;

use super::hand_overs::Hold;
use super::leases::Held;
use super::{Verdict, broken};
use crate::kinds::permits;
use crate::wire::Token;

/// One semaphore, derived only from the scripts' answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Permits {
    /// The limit of the latest acquire.
    limit: u64,
    /// The granted tokens: how many permits, until when in the server's ms, and with which limit.
    granted: HashMap<Token, Granted>,
    /// What each token has asked for.
    wanted: HashMap<Token, (u64, u64)>,
    /// The server has lost the permits of its members, so no other token may enter beside them.
    unknown: bool,
}

#[derive(Clone, Copy, Debug)]
struct Granted {
    permits: u64,
    until_ms: u64,
    /// How many permits may be held at once according to this grant.
    allowed: u64,
}

impl Permits {
    /// An acquire ran. If it neither held nor waited before, it brings the limit.
    pub(crate) fn asks(&mut self, token: Token, (wanted, limit): (u64, u64), new: bool) {
        self.wanted.insert(token, (wanted, limit));
        if new {
            self.limit = limit;
        }
    }

    /// How many permits a token wants.
    pub(crate) fn wants(&self, token: Token) -> u64 {
        self.wanted.get(&token).map_or(0, |(wanted, _)| *wanted)
    }

    /// The server granted a token, or extended it. Grants that the client doesn't know yet count as well.
    pub(crate) fn granted(&mut self, token: Token, now_ms: u64, ms: u64, again: bool, held: &[&Held]) -> Verdict {
        self.granted.retain(|_, granted| granted.until_ms > now_ms);
        let until_ms = now_ms + ms;
        let permits = self.wants(token);
        if again {
            // This is the first sight of a grant whose message was refused.
            let seen = self.granted.entry(token).or_insert(Granted { permits, until_ms, allowed: u64::MAX });
            seen.until_ms = seen.until_ms.max(until_ms);
            return Ok(());
        }
        if self.limit == 0 {
            self.limit = self.wanted.get(&token).map_or(0, |(_, limit)| *limit);
        }
        let known = held.iter().filter(|held| held.token != Some(token));
        let believed: u64 = known.clone().map(|held| self::permits(held.kind)).sum();
        let unknown = |other: &&Token| **other != token && held.iter().all(|held| held.token != Some(**other));
        let untold: u64 = self.granted.keys().filter(unknown).map(|other| self.granted[other].permits).sum();
        let allowed = self.limit.max(permits);
        self.granted.insert(token, Granted { permits, until_ms, allowed });
        if believed + untold + permits > allowed {
            let used = believed + untold;
            return broken("permits", format!("{token:?} was granted {permits} beside {used} of {allowed}: {self:?}"));
        }
        Ok(())
    }

    /// A renewal moved a lease's end on the server.
    pub(crate) fn renewed(&mut self, token: Token, now_ms: u64, ms: u64) {
        if let Some(granted) = self.granted.get_mut(&token) {
            granted.until_ms = granted.until_ms.max(now_ms + ms);
        }
    }

    /// A token was released.
    pub(crate) fn released(&mut self, token: Token) {
        self.granted.remove(&token);
        self.wanted.remove(&token);
    }

    /// The valid leases hold no more permits than the latest of their grants allowed.
    pub(crate) fn check<'a>(&self, held: impl Iterator<Item = &'a Held>, now: Micros) -> Verdict {
        let valid: Vec<&Held> = held.filter(|held| held.until > now && !held.orphan).collect();
        let used: u64 = valid.iter().map(|held| permits(held.kind)).sum();
        let allowed = valid.iter().map(|held| held.allowed).max().unwrap_or(0);
        if used > allowed {
            return broken("permits", format!("{used} permits are held where {allowed} are allowed: {valid:?}"));
        }
        Ok(())
    }

    /// How many permits may be held at once according to a token's grant.
    pub(crate) fn allowed(&self, token: Option<Token>) -> u64 {
        token.and_then(|token| self.granted.get(&token)).map_or(u64::MAX, |granted| granted.allowed)
    }

    /// The server no longer has a limit, because there is no holder. The limit of the next granted token counts.
    pub(crate) fn forgets(&mut self) {
        self.limit = 0;
    }

    /// Whether enough permits are free for a token. `members` are the holders on the server.
    pub(crate) fn suffice(&mut self, token: Token, members: &[Token]) -> bool {
        self.unknown &= !members.is_empty();
        if self.unknown {
            return false;
        }
        let used: u64 = members.iter().map(|member| self.wants(*member)).sum();
        let wanted = self.wants(token);
        used + wanted <= self.limit.max(wanted)
    }

    /// The server lost the semaphore.
    pub(crate) fn data_lost(&mut self) {
        self.granted.clear();
    }

    /// The server lost the permits of its members.
    pub(crate) fn permits_lost(&mut self) {
        self.unknown = true;
    }
}

/// One client's tokens for one semaphore: one for each lease, and one for each place in the queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct SemaphoreHolds {
    holds: HashMap<Token, Hold>,
    joined: Vec<Token>,
    /// The last fence that a holder got with each token.
    fences: HashMap<Token, u64>,
}

impl SemaphoreHolds {
    /// A token's hold, from its first command on.
    pub(crate) fn hold(&mut self, token: Token) -> &mut Hold {
        self.holds.entry(token).or_default()
    }

    /// The holds of all tokens.
    pub(crate) fn all(&mut self) -> impl Iterator<Item = &mut Hold> {
        self.holds.values_mut()
    }

    /// The same, read-only.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Hold> {
        self.holds.values()
    }

    /// A token may be in the queue from now on.
    pub(crate) fn joins(&mut self, token: Token) {
        if !self.joined.contains(&token) && self.holds.get(&token).is_none_or(|hold| hold.token.is_none()) {
            self.joined.push(token);
        }
    }

    /// A caller holds with a token.
    pub(crate) fn begins(&mut self, token: Token) {
        self.joined.retain(|joined| *joined != token);
    }

    /// A holder gets a fence. It must be above the fence of the token's previous holder.
    pub(crate) fn rises(&mut self, token: Token, fence: u64) -> Verdict {
        match self.fences.insert(token, fence) {
            Some(last) if last >= fence => broken("fence-order", format!("{token:?}: {fence} after {last}")),
            _ => Ok(()),
        }
    }

    /// A token is released.
    pub(crate) fn leaves(&mut self, token: Token) {
        self.begins(token);
        self.fences.remove(&token);
        self.holds.remove(&token);
    }

    /// Each place in the queue belongs to a caller.
    pub(crate) fn check(&self, callers: usize) -> Verdict {
        if self.joined.len() <= callers {
            return Ok(());
        }
        broken("left-behind", format!("{callers} callers wait, but these tokens are in the queue: {:?}", self.joined))
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::{Kind, Mode};

    use super::super::leases::tests::held;
    use super::*;

    const A: Token = Token { life: 1, count: 1 };
    const B: Token = Token { life: 2, count: 1 };

    fn permits(limit: u64) -> Permits {
        let mut permits = Permits::default();
        permits.asks(A, (2, limit), true);
        permits.asks(B, (2, limit), true);
        permits
    }

    #[test]
    fn a_grant_past_the_limit_is_seen_and_one_after_the_end_of_another_is_not() {
        let mut small = permits(3);
        small.granted(A, 0, 100, false, &[]).unwrap();
        assert_eq!(small.clone().granted(B, 99, 100, false, &[]).unwrap_err().invariant, "permits");
        small.granted(B, 100, 100, false, &[]).unwrap();
        let mut large = permits(4);
        large.granted(A, 0, 100, false, &[]).unwrap();
        large.granted(B, 0, 100, false, &[]).unwrap();
    }

    #[test]
    fn a_holder_that_believes_for_longer_than_the_server_keeps_it_is_seen() {
        let mut permits = permits(3);
        let mut lease = held(1, Mode::Exclusive, 500_000);
        (lease.kind, lease.token) = (Kind::Semaphore { permits: 2, limit: 3 }, Some(A));
        permits.granted(A, 0, 100, false, &[]).unwrap();
        assert!(permits.granted(B, 200, 100, false, &[&lease]).is_err());
    }

    #[test]
    fn a_holder_of_more_permits_than_the_limit_is_alone() {
        let mut permits = permits(1);
        assert!(permits.suffice(A, &[]) && !permits.suffice(A, &[B]));
        permits.granted(A, 0, 100, false, &[]).unwrap();
        assert!(permits.granted(B, 0, 100, false, &[]).is_err());
    }

    #[test]
    fn a_place_in_the_queue_without_a_caller_is_seen() {
        let mut semaphores = SemaphoreHolds::default();
        semaphores.joins(A);
        semaphores.check(1).unwrap();
        assert_eq!(semaphores.check(0).unwrap_err().invariant, "left-behind");
        semaphores.leaves(A);
        semaphores.check(0).unwrap();
    }
}
