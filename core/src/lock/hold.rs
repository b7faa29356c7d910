//! A hold: the time during which this client holds a name on the server with one token, for any number of local holders.

use alloc::vec::Vec;
use core::mem;

use super::change::{Change, Converting};
use super::fences::Fences;
use crate::ids::{LeaseId, LockId, Token};
use crate::options::{AcquireOptions, Kind, Mode};
use crate::session::{Context, InFlight, Slot, Timer, ToStore, drift, margin};
use crate::time::{Duration, Instant};

/// How long a client may go on handing over locally once it knows that another client waits.
const BUDGET_TIME: Duration = Duration::from_secs(1);

/// How long after the server's last confirmation a lease may be handed over locally.
const CONFIRMED_FOR: Duration = Duration::from_secs(1);

/// Whether to give the token of a lost lease back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum GiveBack {
    /// The server may still have it.
    Always,
    /// The server doesn't have it, unless one of its commands arrives late.
    IfInFlight,
}

#[derive(Clone, Hash)]
pub(crate) struct Hold {
    pub(crate) token: Token,
    pub(crate) kind: Kind,
    /// The mode on the server.
    pub(crate) mode: Mode,
    pub(crate) validity: Validity,
    /// The server's time, in µs, of the newest answer that said that we hold the lock, and when that answer arrived.
    pub(crate) server: u64,
    pub(super) server_at: Instant,
    /// The fence in the lock's key, if it is known.
    pub(super) stamp: Option<u64>,
    pub(super) fences: Fences,
    /// When the client last learned the length of the queue.
    pub(super) waiting_known_at: Instant,
    /// How many other clients waited then.
    pub(super) waiting: u32,
    pub(crate) budget: Option<Budget>,
    /// In the order in which they were granted.
    pub(crate) holders: Vec<LeaseId>,
    /// Whether a local caller has held it. The first holder is not a hand-over.
    pub(super) served: bool,
    /// How long the lease is kept after the newest holder.
    pub(super) linger: Option<Duration>,
    /// Until when the lock stays taken, even if no caller holds it: `at_least`, or the end of a lease that was detached.
    pub(super) keep: Option<Instant>,
    /// The token must be given back and not handed over, for example because a holder was notified of a loss.
    pub(crate) tainted: bool,
    pub(crate) in_flight: InFlight,
    pub(super) refill: Refill,
    pub(super) change: Change,
    /// The new token of the last convert that the server refused. A delayed copy may still be carried out.
    pub(super) refused: Option<Token>,
    /// The result of a once, which is stored when the token is given back.
    pub(crate) result: Option<ToStore>,
    pub(crate) timers: HoldTimers,
}

/// Until when we hold the lease by the local clock, whatever the server says later.
#[derive(Clone, Copy, Hash)]
pub(crate) struct Validity {
    pub(crate) until: Instant,
    /// The TTL that the last successful command set.
    pub(super) granted: Duration,
    /// The earliest time at which that command was sent.
    pub(crate) since: Instant,
    /// When its reply arrived. None for a grant by message.
    pub(super) answered: Option<Instant>,
    /// The server had the lease at this time or later.
    pub(super) confirmed: Instant,
}

impl Validity {
    /// Validity is measured from the time the command was *sent*, less drift and margin.
    #[inline(never)]
    pub(crate) fn new(cx: &Context, sent: Instant, granted: Duration) -> Self {
        Self { until: end(sent, granted), granted, since: sent, answered: Some(cx.now), confirmed: sent }
    }

    /// Until when we would hold the lease if the last successful command had set this TTL.
    pub(crate) fn until_with(&self, ttl: Duration) -> Instant {
        end(self.since, ttl)
    }
}

fn end(sent: Instant, granted: Duration) -> Instant {
    sent + granted.saturating_sub(drift(granted)).saturating_sub(margin(granted))
}

/// How many more local hand-overs are allowed while another client waits. `Config::handoffs` says for how long any number is.
#[derive(Clone, Hash)]
pub(crate) struct Budget {
    left: u32,
    /// When the client learned that another client waits.
    since: Instant,
}

#[derive(Clone, Hash, Default)]
pub(crate) struct Refill {
    pub(crate) unanswered: bool,
    /// The size of the last answered refill. In a quorum, how many fences it gave.
    pub(super) size: u64,
    /// The size of the unanswered refill.
    pub(super) asked: u64,
    pub(crate) failures: u32,
    pub(crate) timer: Slot,
}

#[derive(Clone, Hash, Default)]
pub(crate) struct HoldTimers {
    pub(crate) deadline: Slot,
    pub(crate) renewal: Slot,
    pub(crate) budget: Slot,
    /// Set while the lease lingers: nobody holds it, and it is kept for the next local caller.
    pub(crate) linger: Slot,
}

/// Whether the next local caller may hold the lock under this hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// At once, without a round trip.
    Now,
    /// After a renewal, which gives it enough time.
    NeedsRenewal,
    /// After the server has reserved more fences or confirmed the lease.
    NeedsFences,
    /// After the current holders have released.
    Blocked,
    /// Not with this token.
    Incompatible,
}

impl Hold {
    /// Whether it can't be given back: a caller holds it, or the lock stays taken and the server has not answered how.
    pub(super) fn in_use(&self, now: Instant) -> bool {
        !self.holders.is_empty() || self.is_detaching() || (self.is_kept(now) && self.is_converting())
    }

    /// Whether the lock must stay taken, even if no caller holds it.
    pub(super) fn is_kept(&self, now: Instant) -> bool {
        self.keep.is_some_and(|keep| keep > now)
    }

    /// Whether the lease has ended here and is being detached.
    pub(super) fn is_detaching(&self) -> bool {
        self.converting().is_some_and(|converting| converting.lease.is_none())
    }

    pub(crate) const fn converting(&self) -> Option<&Converting> {
        if let Change::Convert(converting) = &self.change { Some(converting) } else { None }
    }

    pub(crate) const fn converting_mut(&mut self) -> Option<&mut Converting> {
        if let Change::Convert(converting) = &mut self.change { Some(converting) } else { None }
    }

    pub(crate) const fn is_converting(&self) -> bool {
        matches!(self.change, Change::Convert(_))
    }

    /// Whether its mode or its token is about to change.
    pub(super) const fn is_in_transition(&self) -> bool {
        matches!(self.change, Change::Convert(_) | Change::Upgrade { .. })
    }

    /// The TTL of a renewal that the holders don't need.
    pub(super) const fn extra_renewal(&self) -> Option<Duration> {
        if let Change::Renewal(ttl) = self.change { Some(ttl) } else { None }
    }

    /// The convert has ended, if it is this one.
    pub(super) fn take_converting(&mut self, is_this: impl FnOnce(&Converting) -> bool) -> Option<Converting> {
        match mem::take(&mut self.change) {
            Change::Convert(converting) if is_this(&converting) => Some(converting),
            other => {
                self.change = other;
                None
            }
        }
    }

    /// The renewal that the holders don't need is not needed by others either.
    pub(super) fn end_extra_renewal(&mut self) {
        if self.extra_renewal().is_some() {
            self.change = Change::None;
        }
    }

    /// Whether the server has or may have the lease under this token.
    pub(super) fn has(&self, token: Token) -> bool {
        let converting = self.converting();
        self.token == token || converting.is_some_and(|converting| converting.new == token)
    }

    /// Whether the server may have a lease that this client gives back.
    pub(crate) fn is_ours(&self, now: Instant) -> bool {
        self.validity.until > now && !self.is_detaching()
    }

    /// No caller gets a fence of this hold any more. Returns the greatest that was used, if the server may not have it.
    pub(super) fn last_use(&mut self) -> u64 {
        self.tainted = true;
        self.fences.used_fence()
    }

    /// The last fence that this hold may use.
    #[cfg(feature = "quorum")]
    pub(crate) const fn last_fence(&self) -> u64 {
        self.fences.last()
    }

    /// A quorum gives out this fence.
    #[cfg(feature = "quorum")]
    pub(crate) fn gives_out(&mut self, fence: u64) {
        self.fences.gives_out(fence);
    }

    /// A fence for a holder of a quorum that this client has let in.
    #[cfg(feature = "quorum")]
    pub(crate) fn above_given(&self, fence: u64) -> u64 {
        self.fences.above_given(fence)
    }

    /// Whether a caller with these options may hold the lock beside the current holders.
    pub(crate) fn admits(&self, cx: &Context, options: &AcquireOptions) -> Admission {
        let insufficient = self.mode == Mode::Shared && options.mode == Mode::Exclusive;
        let kept = self.holders.is_empty() && self.is_kept(cx.now);
        if self.tainted || kept || insufficient || (self.served && self.is_spent(cx)) {
            return Admission::Incompatible;
        }
        if self.is_in_transition() {
            return Admission::Blocked;
        }
        // An exclusive holder is always alone.
        let beside = options.mode == Mode::Shared && self.holders.first().is_none_or(|id| is_reader(cx, *id));
        if !beside && self.in_use(cx.now) {
            return Admission::Blocked;
        }
        let unconfirmed = self.served && !self.is_confirmed(cx);
        if unconfirmed || self.fences.left() == 0 {
            // While other clients wait, the block of fences is part of the budget. More fences would extend it.
            return if self.budget.is_some() { Admission::Incompatible } else { Admission::NeedsFences };
        }
        if self.has_time(cx.now, options) { Admission::Now } else { Admission::NeedsRenewal }
    }

    /// Whether the lock is busy for a caller that does not wait. A reader may still ask the server while other readers hold it.
    pub(super) fn excludes(&self, cx: &Context, options: &AcquireOptions) -> bool {
        let asks = self.mode == Mode::Shared && options.mode == Mode::Shared && !cx.config.mixed_fleet;
        match self.admits(cx, options) {
            Admission::Now | Admission::NeedsRenewal | Admission::NeedsFences => false,
            Admission::Blocked => true,
            Admission::Incompatible => self.in_use(cx.now) && !asks,
        }
    }

    /// Whether the local hand-overs are used up because other clients wait.
    fn is_spent(&self, cx: &Context) -> bool {
        if cx.config.mixed_fleet && !self.in_use(cx.now) {
            return true;
        }
        self.budget.as_ref().is_some_and(|budget| {
            let most = if budget.left == 0 { cx.config.handoffs().1 } else { BUDGET_TIME };
            cx.now.time_since(budget.since) >= most
        })
    }

    /// Whether the server has confirmed the lease recently. This limits how long a client can hand over a lease that
    /// was lost without its knowledge.
    fn is_confirmed(&self, cx: &Context) -> bool {
        cx.now.time_since(self.validity.confirmed) < CONFIRMED_FOR
    }

    /// Whether the server has confirmed the lease since then, or recently. The latter is not enough if another process may
    /// have adopted it.
    pub(super) fn is_confirmed_since(&self, cx: &Context, since: Instant) -> bool {
        self.validity.confirmed >= since || !self.tainted && self.is_confirmed(cx)
    }

    /// Whether to ask the server now, so that the next local holder doesn't have to wait for a confirmation.
    pub(super) fn needs_confirming(&self, cx: &Context) -> bool {
        cx.now.time_since(self.validity.confirmed) >= CONFIRMED_FOR / 2
    }

    /// Whether enough time is left. A renewed lease needs a third of its TTL. A fixed lease needs all of it, as after a new answer.
    fn has_time(&self, now: Instant, options: &AcquireOptions) -> bool {
        let Validity { until, granted, answered, .. } = self.validity;
        let left = until.time_since(now);
        if left.is_zero() {
            return false;
        }
        let (fresh, ttl) = (answered == Some(now), Duration::from(options.ttl));
        if options.renew {
            fresh || left >= ttl.min(granted) / 3
        } else {
            // The server stores whole milliseconds.
            let whole = Duration::from_millis(ttl.as_millis());
            left >= ttl || (fresh && granted >= whole)
        }
    }

    /// Processes the number of waiters on the server.
    pub(crate) fn note_waiting(&mut self, cx: &mut Context, lock: LockId, waiting: Option<u64>) {
        let Some(waiting) = waiting else { return };
        self.waiting_known_at = cx.now;
        self.waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
        if waiting > 0 && self.budget.is_none() {
            self.budget = Some(Budget { left: cx.config.handoffs().0, since: cx.now });
            cx.timers.set(Timer::BudgetEnds(lock), &mut self.timers.budget, Some(cx.now + BUDGET_TIME));
        }
    }

    /// Counts a local hand-over.
    pub(super) fn handed_over(&mut self, cx: &mut Context, lock: LockId) {
        let Some(budget) = &mut self.budget else { return };
        budget.left = budget.left.saturating_sub(1);
        let ends = budget.since + cx.config.handoffs().1;
        if budget.left == 0 && ends > cx.now {
            cx.timers.set(Timer::BudgetEnds(lock), &mut self.timers.budget, Some(ends));
        }
    }

    /// The server has said at this time that we hold the lock.
    pub(super) fn confirmed_at(&mut self, cx: &Context, server: u64) {
        if server > self.server {
            (self.server, self.server_at) = (server, cx.now);
        }
    }

    /// The greatest fence that was used, if the next grant might not be above it by the server's clock alone. Else 0.
    pub(super) fn used_fence(&self, cx: &Context) -> u64 {
        let elapsed = cx.now.time_since(self.server_at);
        let clock = earliest(self.server).saturating_add(elapsed.saturating_sub(elapsed / 100).as_micros());
        let used_fence = self.fences.used_fence();
        if used_fence < clock { 0 } else { used_fence }
    }

    /// Processes a successful renewal or new grant. A late answer never shortens the validity.
    pub(super) fn extend(&mut self, cx: &mut Context, lock: LockId, validity: Validity) {
        let confirmed = validity.confirmed.max(self.validity.confirmed);
        if validity.until > self.validity.until {
            self.validity = validity;
        } else if validity.since > self.validity.since {
            // The server reports whole milliseconds, so a later answer may come out slightly shorter.
            self.validity = Validity { until: self.validity.until, ..validity };
        }
        self.validity.confirmed = confirmed;
        self.watch(cx, lock);
    }

    /// Sets the timers that follow from the validity.
    pub(super) fn watch(&mut self, cx: &mut Context, lock: LockId) {
        cx.timers.set(Timer::Deadline(lock), &mut self.timers.deadline, Some(self.validity.until));
        self.schedule_renewal(cx, lock);
    }

    /// The longest TTL that a renewal must set for its holders. None if they need no renewal.
    pub(super) fn wants(&self, cx: &Context) -> Option<Duration> {
        self.holders.iter().filter_map(|id| cx.leases.get(id)?.wants(cx.now, self.validity.until)).max()
    }

    /// Whether a renewal is possible and of use.
    pub(crate) fn renews(&self, cx: &Context) -> bool {
        !self.is_converting() && (self.extra_renewal().is_some() || self.wants(cx).is_some())
    }

    /// Schedules the next renewal after a third of the granted time, if a holder is renewed.
    pub(crate) fn schedule_renewal(&mut self, cx: &mut Context, lock: LockId) {
        // A local caller waits for the renewal under way. The time of its next attempt stays.
        if self.extra_renewal().is_some() && self.timers.renewal.is_some() {
            return;
        }
        let due = self.extra_renewal().is_some() || self.wants(cx).is_some();
        let at = due.then(|| on_grid(self.validity.since + self.validity.granted / 3, self.validity.granted));
        cx.timers.set(Timer::Renewal(lock), &mut self.timers.renewal, at);
    }

    pub(super) fn clear_timers(&mut self, cx: &mut Context, lock: LockId) {
        cx.timers.set(Timer::Deadline(lock), &mut self.timers.deadline, None);
        cx.timers.set(Timer::Renewal(lock), &mut self.timers.renewal, None);
        cx.timers.set(Timer::BudgetEnds(lock), &mut self.timers.budget, None);
        cx.timers.set(Timer::LingerEnds(lock), &mut self.timers.linger, None);
        cx.timers.set(Timer::Refill(lock), &mut self.refill.timer, None);
        if let Some(converting) = self.converting_mut() {
            cx.timers.set(Timer::Convert(lock), &mut converting.timer, None);
        }
    }
}

/// The earliest time that the server can have meant. A script that may not run `TIME` knows only the millisecond, and tells its
/// last microsecond. Another user's script may know more.
pub(super) const fn earliest(server: u64) -> u64 {
    let part = server % 1_000;
    server - if part == 999 { part } else { 0 }
}

fn is_reader(cx: &Context, id: LeaseId) -> bool {
    cx.leases.get(&id).is_some_and(|lease| lease.mode == Mode::Shared)
}

/// Rounds down to a grid of 1/48 of the TTL, so that many leases are renewed in one wake-up.
fn on_grid(at: Instant, ttl: Duration) -> Instant {
    let micros = at.as_micros();
    let grid = (ttl / 48).as_micros().max(1);
    Instant::from_micros(micros.saturating_sub(micros.checked_rem(grid).unwrap_or(0)))
}
