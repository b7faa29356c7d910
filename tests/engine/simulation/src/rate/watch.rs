//! The promises of a rate, by the server's record.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_harness::Micros;

use crate::invariants::{Verdict, broken};

/// A waiter that can be granted is granted within this time and four trips, if nothing goes wrong.
const AT_ONCE: Micros = 40_000;

#[derive(Default)]
pub(super) struct Watch {
    pub(super) verdict: Option<Verdict>,
    /// The server's µs of each grant, and its permits.
    grants: Vec<(u64, u64)>,
    /// The tokens that a caller may have started with, by the fence that the server told.
    told: BTreeMap<u64, BTreeSet<String>>,
    started: BTreeSet<(String, u64)>,
    /// Since when the first waiter could be granted.
    idle_since: Option<Micros>,
}

/// What the server has: the time, and the live waiters in order with the permits that they want.
pub(super) struct Seen {
    pub(super) us: u64,
    pub(super) waiters: Vec<(String, u64)>,
}

impl Watch {
    pub(super) fn check(&mut self, verdict: Verdict) {
        if verdict.is_err() && self.verdict.is_none() {
            self.verdict = Some(verdict);
        }
    }

    /// The server has granted tokens in one call, in this order: each with its fence and permits. `before` are those that
    /// waited, and `caller` is the token of the call.
    pub(super) fn granted(
        &mut self,
        seen: &Seen,
        granted: &[(String, u64, u64)],
        caller: &str,
        (limit, per): (u64, u64),
    ) {
        for (place, (token, fence, permits)) in granted.iter().enumerate() {
            self.grants.push((seen.us, *permits));
            self.told.entry(*fence).or_default().insert(token.clone());
            // The caller enters past nobody: all that waited were granted, too.
            let expected = seen.waiters.get(place).map(|(token, _)| token.as_str());
            if expected.unwrap_or(caller) != token {
                let order = &seen.waiters;
                self.check(broken("rate-order", format!("{token} was granted, while these waited: {order:?}")));
            }
        }
        let from = seen.us.saturating_sub(per * 1_000);
        self.grants.retain(|(us, _)| *us > from);
        let used: u64 = self.grants.iter().map(|(_, permits)| permits).sum();
        if used > limit {
            self.check(broken("rate", format!("{used} permits of {limit} in {per} ms: {:?}", self.grants)));
        }
    }

    /// The server has told a token again that it was granted.
    pub(super) fn again(&mut self, token: &str, fence: u64) {
        self.told.entry(fence).or_default().insert(token.to_owned());
    }

    /// A caller of this client has started with this fence.
    pub(super) fn starts(&mut self, client: &str, fence: u64) {
        let tokens = self.told.get(&fence).into_iter().flatten();
        let mut own = tokens.filter(|token| token.starts_with(client));
        match own.find(|token| !self.started.contains(&((*token).clone(), fence))).cloned() {
            Some(token) => _ = self.started.insert((token, fence)),
            None => self.check(broken("rate-start", format!("a caller of {client} started with {fence}, ungranted"))),
        }
    }

    /// Looks whether a waiter is kept although it could be granted. `trip` is the longest.
    pub(super) fn look(&mut self, now: Micros, seen: &Seen, (limit, per): (u64, u64), trip: Micros) {
        let counted = |us: u64| us / 1_000 + per + 1 > seen.us / 1_000;
        let used: u64 = self.grants.iter().filter(|(us, _)| counted(*us)).map(|(_, permits)| permits).sum();
        let could = seen.waiters.first().is_some_and(|(_, wanted)| used + wanted <= limit);
        let since = *self.idle_since.get_or_insert(now);
        if !could {
            self.idle_since = None;
        } else if now > since + AT_ONCE + 4 * trip {
            self.check(broken("rate-idle", format!("{:?} waits, and {used} of {limit} count", seen.waiters.first())));
        }
    }

    /// Something goes wrong that can delay everybody.
    pub(super) fn disturb(&mut self) {
        self.idle_since = None;
    }
}
