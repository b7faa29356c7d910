//! The invariants of such a run, checked at every step by true time.

use std::collections::HashMap;
use std::ops::Range;

use leasehold_core::{Instant, Kind, LeaseId, LossReason, Mode};
use leasehold_harness::Micros;

use crate::invariants::{Verdict, broken};
use crate::quorum::client::Wanted;
use crate::quorum::world::Mix;
use crate::wire::{Life, Token};

/// How long it takes at most until a client gives back what no user holds any more.
const GIVEN_BACK: Micros = 1_000_000;
/// How long a token that was given up keeps its tombstone.
const TOMBSTONE: Micros = 60_000_000;

/// A lease that its client takes to be valid. One of several names is here once for each name.
pub(crate) struct Belief {
    pub(crate) life: Life,
    pub(crate) lease: LeaseId,
    pub(crate) part: Wanted,
    pub(crate) since: Micros,
    /// When it ends by its client's own clock, in true time.
    pub(crate) until: Micros,
    pub(crate) renew: bool,
    /// When it ends at the latest, by its client's clock.
    pub(crate) ends: Option<Instant>,
    /// The earlier end that its user has chosen, and whether it counts: the next choice lifts it.
    pub(crate) shortened: Option<(Instant, bool)>,
    pub(crate) ttl: Micros,
    /// When it was granted, or since when it has needed renewals without a break.
    pub(crate) wanted_since: Micros,
}

impl Belief {
    /// When it ends at the latest, by its client's clock.
    pub(crate) fn end(&self) -> Option<Instant> {
        let shortened = self.shortened.filter(|(_, counts)| *counts).map(|(ends, _)| ends);
        self.ends.into_iter().chain(shortened).min()
    }
}

pub(crate) struct Watch {
    pub(crate) beliefs: Vec<Belief>,
    /// The lease whose release is being called. Its end may come in the same microsecond.
    releasing: Option<Belief>,
    /// The fences of each name, when they were given out, and to whom.
    fences: Vec<Vec<(Micros, u64, Mode)>>,
    /// When a server last forgot each name.
    forgot: Vec<Option<Micros>>,
    /// How soon a holder must be notified of that.
    told_within: Micros,
    /// Whether nothing keeps clients from renewing their leases.
    calm: bool,
    /// Until when tokens that were given up have a tombstone, on a single server.
    tombstones: HashMap<Token, Micros>,
    /// Since when a client has a name that none of its users holds.
    idle: HashMap<(Life, usize), Micros>,
    verdict: Verdict,
}

impl Watch {
    pub(crate) fn new(mix: &Mix) -> Self {
        Self {
            beliefs: Vec::new(),
            releasing: None,
            fences: vec![Vec::new(); mix.names],
            forgot: vec![None; mix.names],
            told_within: mix.told_within(),
            calm: mix.is_single() && mix.chance == 0,
            tombstones: HashMap::new(),
            idle: HashMap::new(),
            verdict: Ok(()),
        }
    }

    pub(crate) fn check(&mut self, verdict: Verdict) {
        if self.verdict.is_ok() {
            self.verdict = verdict;
        }
    }

    pub(crate) fn verdict(&self) -> Verdict {
        self.verdict.clone()
    }

    /// A server has forgotten these names.
    pub(crate) fn forgot(&mut self, names: Range<usize>, now: Micros) {
        self.forgot[names].fill(Some(now));
    }

    /// The names that a client has for long although no user holds them, if these are those that it has now.
    pub(crate) fn idle_for(&mut self, life: Life, names: &[usize], now: Micros) -> Vec<usize> {
        self.idle.retain(|(of, name), _| *of != life || names.contains(name));
        names.iter().for_each(|name| _ = self.idle.entry((life, *name)).or_insert(now));
        let long = |name: &&usize| self.idle[&(life, **name)] + GIVEN_BACK < now;
        names.iter().filter(long).copied().collect()
    }

    /// Whether a server has ever forgotten this name.
    pub(crate) fn has_forgot(&self, name: usize) -> bool {
        self.forgot[name].is_some()
    }

    /// A replica without the last writes has taken over. Tombstones may be among these.
    pub(crate) fn forgot_tombstones(&mut self) {
        self.tombstones.clear();
    }

    /// Whether some server forgot a lease of this name that was granted at `since`.
    fn excuses(&self, name: usize, since: Micros) -> bool {
        self.forgot[name].is_some_and(|at| at >= since)
    }

    /// Too few servers have a lease that its holder takes to be valid.
    pub(crate) fn unbacked(&self, belief: &Belief, now: Micros, detail: String) -> Verdict {
        match self.forgot[belief.part.name].filter(|at| *at >= belief.since) {
            None => broken("unbacked", detail),
            Some(at) if at + self.told_within < now => broken("loss-untold", detail),
            Some(_) => Ok(()),
        }
    }

    /// A token was given up.
    pub(crate) fn left_tombstone(&mut self, token: Token, now: Micros) {
        self.tombstones.insert(token, now + TOMBSTONE);
    }

    /// A token that was given up does not hold a name again.
    pub(crate) fn holds(&mut self, token: Option<Token>, now: Micros) {
        if token.and_then(|token| self.tombstones.get(&token)).is_some_and(|until| *until > now) {
            self.check(broken("token-returns", format!("{token:?} was given up, and holds again")));
        }
    }

    pub(crate) fn granted(&mut self, belief: Belief, fence: u64, now: Micros) {
        // If servers forgot it on its way, the fence is above those that were given out before it was drawn.
        let until = if self.excuses(belief.part.name, belief.since) { belief.since } else { now };
        // A semaphore's tokens have blocks of fences, from which they draw in any order.
        if belief.part.permits() > 0 {
            return self.believes(belief, now);
        }
        // Readers need not have other fences than the readers beside them.
        let excluded = |mode: Mode| belief.part.mode == Mode::Exclusive || mode == Mode::Exclusive;
        let earlier = self.fences[belief.part.name].iter().filter(|(at, _, mode)| *at <= until && excluded(*mode));
        let earlier = earlier.map(|(_, fence, _)| *fence);
        if let Some(last) = earlier.max().filter(|last| fence <= *last) {
            let detail = format!("life {} gets {fence} after {last} for name {}", belief.life, belief.part.name);
            self.check(broken("fence-order", detail));
            return;
        }
        self.fences[belief.part.name].push((now, fence, belief.part.mode));
        self.believes(belief, now);
    }

    /// A lease is valid until then. No other caller may have a valid lease of the same name in that time, except readers
    /// beside a reader.
    fn believes(&mut self, belief: Belief, now: Micros) {
        let Belief { life, lease, part: Wanted { name, mode, .. }, .. } = belief;
        self.idle.remove(&(life, name));
        let excluded = |other: &Belief| mode == Mode::Exclusive || other.part.mode == Mode::Exclusive;
        let same =
            |other: &&Belief| other.part.name == name && (other.life, other.lease) != (life, lease) && excluded(other);
        let overlaps = |other: &&Belief| other.until > now && !self.excuses(name, other.since.min(belief.since));
        if let Kind::Semaphore { permits, limit } = belief.part.kind {
            let others: u32 = self.beliefs.iter().filter(same).filter(overlaps).map(|other| other.part.permits()).sum();
            if others + permits > limit {
                let detail = format!("life {life} has {permits} of {limit} of name {name} at {now}, others {others}");
                return self.check(broken("permits", detail));
            }
            return self.beliefs.push(belief);
        }
        let overlap = self.beliefs.iter().filter(same).find(overlaps);
        if let Some(other) = overlap {
            let detail = format!(
                "life {life} holds name {name} at {now}, and life {} believes until {} in one of {}",
                other.life, other.until, other.since
            );
            return self.check(broken("exclusive", detail));
        }
        self.beliefs.push(belief);
    }

    /// Its holder moves the end of a lease that is valid until then. Nothing changes for a fixed lease.
    pub(crate) fn kept(
        &mut self,
        life: Life,
        lease: LeaseId,
        now: Micros,
        (ends, valid_until): (Instant, Option<Instant>),
    ) {
        let held = self.beliefs.iter_mut().filter(|belief| (belief.life, belief.lease) == (life, lease));
        for belief in held.filter(|belief| belief.renew) {
            if belief.ends.is_some() && valid_until >= belief.ends {
                belief.wanted_since = now;
            }
            belief.ends = Some(ends);
        }
    }

    /// A lease is not renewed any more, and its user may choose an earlier end.
    pub(crate) fn fixed(&mut self, life: Life, lease: LeaseId, ends: Option<Instant>) {
        for belief in self.beliefs.iter_mut().filter(|belief| (belief.life, belief.lease) == (life, lease)) {
            (belief.renew, belief.ttl) = (false, 0);
            belief.shortened = ends.map(|ends| (ends, true)).or(belief.shortened);
        }
    }

    /// A lease is to have another end.
    pub(crate) fn lifts_its_end(&mut self, life: Life, lease: LeaseId) {
        for belief in self.beliefs.iter_mut().filter(|belief| (belief.life, belief.lease) == (life, lease)) {
            belief.shortened = belief.shortened.map(|(ends, _)| (ends, false));
        }
    }

    /// A lease is lost, at `local` by its client's clock.
    pub(crate) fn lost(&mut self, life: Life, lease: LeaseId, reason: LossReason, (now, local): (Micros, Instant)) {
        let of = |belief: &&Belief| (belief.life, belief.lease) == (life, lease);
        let excused = self.beliefs.iter().filter(of).any(|belief| self.excuses(belief.part.name, belief.since));
        let releasing = self.releasing.take_if(|belief| (belief.life, belief.lease) == (life, lease));
        let Some(held) = self.take(life, lease).or(releasing) else {
            return self.check(broken("loss-twice", format!("life {life} {lease:?}")));
        };
        let first = held.ends.into_iter().chain(held.shortened.map(|(ends, _)| ends)).min();
        if reason == LossReason::MaxHold && first.is_none_or(|ends| local < ends) {
            let detail = format!("life {life} loses {lease:?} at {local:?}, its end is {:?}", held.ends);
            self.check(broken("max-hold", detail));
        }
        let needless = match held.renew {
            true => held.wanted_since + held.ttl / 3 < now,
            // It lasts its whole time, less what clocks may differ by and the margin for a late timer.
            false => now + held.ttl / 10 + 50_000 < held.wanted_since + held.ttl,
        };
        let at_its_end = first.is_some_and(|ends| ends <= local);
        if self.calm && needless && reason == LossReason::Expired && !excused && !at_its_end {
            let detail = format!("{lease:?} of {life} expires at {local:?}, its end is {:?}", held.ends);
            self.check(broken("loss-needless", detail));
        }
    }

    /// Its user releases a lease and does not rely on it any more.
    pub(crate) fn release_begins(&mut self, life: Life, lease: LeaseId) {
        self.releasing = self.take(life, lease);
    }

    /// The engine has taken the call.
    pub(crate) fn release_called(&mut self) {
        self.releasing = None;
    }

    /// Removes a lease with all of its names.
    fn take(&mut self, life: Life, lease: LeaseId) -> Option<Belief> {
        self.beliefs.extract_if(.., |belief| (belief.life, belief.lease) == (life, lease)).last()
    }

    pub(crate) fn gone(&mut self, life: Life) {
        self.beliefs.retain(|belief| belief.life != life);
    }
}
