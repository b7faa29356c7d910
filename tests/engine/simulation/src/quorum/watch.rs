//! The invariants of a quorum, checked at every step by true time.

use leasehold_core::{Instant, LeaseId, LossReason, Mode};
use leasehold_harness::Micros;

use crate::invariants::{Verdict, broken};

/// A lease that its client takes to be valid. One of several names is here once for each name.
pub(crate) struct Belief {
    pub(crate) life: u32,
    pub(crate) lease: LeaseId,
    pub(crate) name: usize,
    pub(crate) mode: Mode,
    pub(crate) since: Micros,
    /// When it ends by its client's own clock, in true time.
    pub(crate) until: Micros,
    pub(crate) renew: bool,
    /// When it ends at the latest, by its client's clock.
    pub(crate) ends: Option<Instant>,
}

pub(crate) struct Watch {
    pub(crate) beliefs: Vec<Belief>,
    /// The lease whose release is being called. Its end may come in the same microsecond.
    releasing: Option<Belief>,
    /// The fences of each name, when they were given out, and to whom.
    fences: Vec<Vec<(Micros, u64, Mode)>>,
    /// When each server last forgot everything.
    forgot: Vec<Option<Micros>>,
    verdict: Verdict,
}

impl Watch {
    pub(crate) fn new(names: usize, servers: usize) -> Self {
        Self {
            beliefs: Vec::new(),
            releasing: None,
            fences: vec![Vec::new(); names],
            forgot: vec![None; servers],
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

    pub(crate) fn forgot(&mut self, server: usize, now: Micros) {
        self.forgot[server] = Some(now);
    }

    /// Whether some server forgot a lease that was granted at `since`.
    pub(crate) fn excuses(&self, since: Micros) -> bool {
        self.forgot.iter().flatten().any(|at| *at >= since)
    }

    pub(crate) fn granted(&mut self, belief: Belief, fence: u64, now: Micros) {
        // If servers forgot it on its way, the fence is above those that were given out before it was drawn.
        let until = if self.excuses(belief.since) { belief.since } else { now };
        // Readers need not have other fences than the readers beside them.
        let excluded = |mode: Mode| belief.mode == Mode::Exclusive || mode == Mode::Exclusive;
        let earlier = self.fences[belief.name].iter().filter(|(at, _, mode)| *at <= until && excluded(*mode));
        let earlier = earlier.map(|(_, fence, _)| *fence);
        if let Some(last) = earlier.max().filter(|last| fence <= *last) {
            let detail = format!("life {} gets {fence} after {last} for name {}", belief.life, belief.name);
            self.check(broken("fence-order", detail));
            return;
        }
        self.fences[belief.name].push((now, fence, belief.mode));
        self.believes(belief, now);
    }

    /// A lease is valid until then. No other caller may have a valid lease of the same name in that time, except readers
    /// beside a reader.
    fn believes(&mut self, belief: Belief, now: Micros) {
        let Belief { life, lease, name, mode, .. } = belief;
        let excluded = |other: &Belief| mode == Mode::Exclusive || other.mode == Mode::Exclusive;
        let same =
            |other: &&Belief| other.name == name && (other.life, other.lease) != (life, lease) && excluded(other);
        let overlaps = |other: &&Belief| other.until > now && !self.excuses(other.since.min(belief.since));
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

    /// Its holder moves the end of a lease. Nothing changes for a fixed lease.
    pub(crate) fn kept(&mut self, life: u32, lease: LeaseId, ends: Instant) {
        let held = self.beliefs.iter_mut().filter(|belief| (belief.life, belief.lease) == (life, lease));
        for belief in held.filter(|belief| belief.renew) {
            belief.ends = Some(ends);
        }
    }

    /// A lease is lost at `local` by its client's clock.
    pub(crate) fn lost(&mut self, life: u32, lease: LeaseId, reason: LossReason, local: Instant) {
        let releasing = self.releasing.take_if(|belief| (belief.life, belief.lease) == (life, lease));
        let Some(held) = self.take(life, lease).or(releasing) else {
            return self.check(broken("loss-twice", format!("life {life} {lease:?}")));
        };
        if reason == LossReason::MaxHold && held.ends.is_none_or(|ends| local < ends) {
            let detail = format!("life {life} loses {lease:?} at {local:?}, its end is {:?}", held.ends);
            self.check(broken("max-hold", detail));
        }
    }

    /// Its user releases a lease and does not rely on it any more.
    pub(crate) fn release_begins(&mut self, life: u32, lease: LeaseId) {
        self.releasing = self.take(life, lease);
    }

    /// The engine has taken the call.
    pub(crate) fn release_called(&mut self) {
        self.releasing = None;
    }

    /// Removes a lease with all of its names.
    fn take(&mut self, life: u32, lease: LeaseId) -> Option<Belief> {
        self.beliefs.extract_if(.., |belief| (belief.life, belief.lease) == (life, lease)).last()
    }

    pub(crate) fn gone(&mut self, life: u32) {
        self.beliefs.retain(|belief| belief.life != life);
    }
}
