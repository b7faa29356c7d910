//! A tenure: the time in which this client holds a name on the server, by one token, for any number of local holders.

use alloc::vec::Vec;
use core::time::Duration;

use crate::context::{Context, ResourceId};
use crate::event::{LeaseId, OpId};
use crate::fences::Fences;
use crate::lease::{drift, margin};
use crate::mutant::Mutant;
use crate::options::{AcquireOptions, Kind, Mode};
use crate::time::{Instant, millis};
use crate::timers::{Slot, Timer};
use crate::token::Token;

/// How long a client may go on handing over inside once it knows that another one waits.
const BUDGET_TIME: Duration = Duration::from_secs(1);

/// How long a lease may be handed over inside a client after the server confirmed it.
const CONFIRMED_FOR: Duration = Duration::from_secs(1);

pub(crate) struct Tenure {
    pub(crate) token: Token,
    pub(crate) kind: Kind,
    /// How the server has it.
    pub(crate) mode: Mode,
    pub(crate) validity: Validity,
    /// The server's time of the newest answer that said we hold, in µs.
    pub(crate) server: u64,
    pub(crate) fences: Fences,
    /// When the queue's length was last told.
    pub(crate) heard: Instant,
    pub(crate) budget: Option<Budget>,
    pub(crate) holders: Vec<LeaseId>,
    /// Whether somebody has held it: the first holder is no hand-over.
    pub(crate) used: bool,
    /// A holder was told that it lost: give the token back, hand nothing on.
    pub(crate) tainted: bool,
    pub(crate) strays: Strays,
    /// The TTL of the renewal that the next local holder waits for.
    pub(crate) passing: Option<Duration>,
    pub(crate) refill: Refill,
    pub(crate) converting: Option<Converting>,
    /// A local upgrade that waits for a fence.
    pub(crate) upgrading: Option<(OpId, LeaseId)>,
    pub(crate) timers: TenureTimers,
}

/// Until when the lease is ours by the local clock, whatever the server says later.
#[derive(Clone, Copy)]
pub(crate) struct Validity {
    pub(crate) until: Instant,
    /// What the last successful command set.
    pub(crate) granted: Duration,
    /// When that command was sent at the earliest.
    pub(crate) since: Instant,
    /// When its reply came; none for a grant by message.
    pub(crate) answered: Option<Instant>,
    /// At this moment, or later, the server had it as ours.
    pub(crate) confirmed: Instant,
}

impl Validity {
    /// From the *sending* of the command that set `granted`, less what clocks may differ by.
    pub(crate) fn new(cx: &Context, sent: Instant, granted: Duration) -> Self {
        let since = if cx.has(Mutant::ValidFromReply) { cx.now } else { sent };
        let drift = if cx.has(Mutant::NoDrift) { Duration::ZERO } else { drift(granted) };
        let margin = if cx.has(Mutant::NoMargin) { Duration::ZERO } else { margin(granted) };
        let until = since + granted.saturating_sub(drift).saturating_sub(margin);
        Self { until, granted, since, answered: Some(cx.now), confirmed: since }
    }
}

/// How many more local hand-overs another client's waiting allows.
pub(crate) struct Budget {
    pub(crate) left: u32,
    pub(crate) until: Instant,
}

/// Commands that may still take or change this token on the server.
#[derive(Clone, Copy, Default)]
pub(crate) struct Strays {
    pub(crate) unanswered: u32,
    /// One got no answer and never will: it may come late.
    pub(crate) lost: bool,
}

impl Strays {
    pub(crate) fn sent(&mut self) {
        self.unanswered = self.unanswered.saturating_add(1);
    }

    pub(crate) fn ended(&mut self, maybe_applied: bool) {
        self.unanswered = self.unanswered.saturating_sub(1);
        self.lost |= maybe_applied;
    }

    pub(crate) fn any(self) -> bool {
        self.lost || self.unanswered > 0
    }
}

#[derive(Default)]
pub(crate) struct Refill {
    pub(crate) unanswered: bool,
    /// How many fences the last answered one asked for.
    pub(crate) size: u64,
    /// How many the unanswered one asks for.
    pub(crate) asked: u64,
    pub(crate) failures: u32,
    pub(crate) timer: Slot,
}

/// A convert that has not been answered.
pub(crate) struct Converting {
    pub(crate) op: OpId,
    pub(crate) lease: LeaseId,
    pub(crate) new: Token,
    pub(crate) to: Mode,
    pub(crate) strays: Strays,
    pub(crate) failures: u32,
    pub(crate) timer: Slot,
}

#[derive(Default)]
pub(crate) struct TenureTimers {
    pub(crate) deadline: Slot,
    pub(crate) renewal: Slot,
    pub(crate) budget: Slot,
}

/// Whether the next local caller may hold under this tenure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// At once, without a round trip.
    Now,
    /// When a renewal has brought it time.
    AfterRenewal,
    /// When the server has reserved more fences, or has confirmed the lease.
    AfterRefill,
    /// When the present holders are gone.
    Later,
    /// Not under this token.
    Never,
}

impl Tenure {
    pub(crate) fn in_use(&self) -> bool {
        !self.holders.is_empty()
    }

    /// Whether a caller with these options may hold, given how the present holders hold.
    pub(crate) fn admits(&self, cx: &Context, options: &AcquireOptions) -> Admission {
        let insufficient = self.mode == Mode::Shared && options.mode == Mode::Exclusive;
        if self.tainted || insufficient || (self.used && self.is_spent(cx)) {
            return Admission::Never;
        }
        if self.converting.is_some() || self.upgrading.is_some() {
            return Admission::Later;
        }
        // An exclusive holder is always the only one.
        let beside = options.mode == Mode::Shared && self.holders.first().is_none_or(|id| is_reader(cx, *id));
        if !beside && self.in_use() {
            return Admission::Later;
        }
        let unconfirmed = self.used && !self.is_confirmed(cx) && !cx.has(Mutant::HandOverUnconfirmed);
        if unconfirmed || (self.fences.left() == 0 && !cx.has(Mutant::HandOverPastBlock)) {
            // While others wait the block is the budget's; asking for more would stretch it.
            return if self.budget.is_some() { Admission::Never } else { Admission::AfterRefill };
        }
        if self.has_time(cx.now, options) { Admission::Now } else { Admission::AfterRenewal }
    }

    /// Whether a caller that does not wait finds the lock busy. A reader may still ask beside readers.
    pub(crate) fn excludes(&self, cx: &Context, options: &AcquireOptions) -> bool {
        let asks = self.mode == Mode::Shared && options.mode == Mode::Shared && !cx.config.mixed_fleet;
        match self.admits(cx, options) {
            Admission::Now | Admission::AfterRenewal | Admission::AfterRefill => false,
            Admission::Later => true,
            Admission::Never => self.in_use() && !asks,
        }
    }

    /// Whether other clients' waiting has used up the local hand-overs.
    fn is_spent(&self, cx: &Context) -> bool {
        if cx.config.mixed_fleet && !self.in_use() {
            return true;
        }
        let spent = self.budget.as_ref().is_some_and(|budget| budget.left == 0 || budget.until <= cx.now);
        spent && !cx.has(Mutant::HandOverPastBudget)
    }

    /// Whether the server has said lately that it is ours. A client that has lost it without knowing hands it on for no longer than that.
    fn is_confirmed(&self, cx: &Context) -> bool {
        cx.now.since(self.validity.confirmed) < CONFIRMED_FOR
    }

    /// Whether the server is asked now, so that the next local holder need not wait for it.
    pub(crate) fn needs_confirming(&self, cx: &Context) -> bool {
        cx.now.since(self.validity.confirmed) >= CONFIRMED_FOR / 2
    }

    /// A renewed lease can do with a third of what it could have; a fixed one needs the whole, as from a fresh answer.
    fn has_time(&self, now: Instant, options: &AcquireOptions) -> bool {
        let Validity { until, granted, answered, .. } = self.validity;
        let left = until.since(now);
        if left.is_zero() {
            return false;
        }
        let fresh = answered == Some(now);
        if options.renew {
            fresh || left >= options.ttl.min(granted) / 3
        } else {
            // The server keeps whole milliseconds.
            let whole = Duration::from_millis(millis(options.ttl));
            left >= options.ttl || (fresh && granted >= whole)
        }
    }

    /// Takes in how many wait on the server.
    pub(crate) fn heard(&mut self, cx: &mut Context, resource: ResourceId, waiting: Option<u64>) {
        let Some(waiting) = waiting else { return };
        self.heard = cx.now;
        if waiting > 0 && self.budget.is_none() && !cx.has(Mutant::WaitingIgnored) {
            let until = cx.now + BUDGET_TIME;
            self.budget = Some(Budget { left: cx.config.local_handoffs, until });
            cx.timers.set(Timer::BudgetEnds(resource), &mut self.timers.budget, Some(until));
        }
    }

    /// Takes in a successful renewal or re-grant. A late answer never shortens it.
    pub(crate) fn extend(&mut self, cx: &mut Context, resource: ResourceId, validity: Validity) {
        let confirmed = validity.confirmed.max(self.validity.confirmed);
        if validity.until > self.validity.until {
            self.validity = validity;
        } else if validity.since > self.validity.since {
            // The server tells whole milliseconds, so a later answer may come out a moment short.
            self.validity = Validity { until: self.validity.until, ..validity };
        }
        self.validity.confirmed = confirmed;
        self.watch(cx, resource);
    }

    /// Sets the timers that follow from the validity.
    pub(crate) fn watch(&mut self, cx: &mut Context, resource: ResourceId) {
        let deadline = (!cx.has(Mutant::DeadlineIgnored)).then_some(self.validity.until);
        cx.timers.set(Timer::Deadline(resource), &mut self.timers.deadline, deadline);
        self.schedule_renewal(cx, resource);
    }

    /// The longest TTL that its holders need a renewal to set; none if they need no renewal.
    pub(crate) fn wants(&self, cx: &Context) -> Option<Duration> {
        self.holders.iter().filter_map(|id| cx.leases.get(id)?.wants(cx.now, self.validity.until)).max()
    }

    /// The next renewal: a third into what was granted, if a holder is renewed.
    pub(crate) fn schedule_renewal(&mut self, cx: &mut Context, resource: ResourceId) {
        let due = self.passing.is_some() || self.wants(cx).is_some();
        let at = due.then(|| together(self.validity.since + self.validity.granted / 3, self.validity.granted));
        cx.timers.set(Timer::Renewal(resource), &mut self.timers.renewal, at);
    }

    pub(crate) fn clear_timers(&mut self, cx: &mut Context, resource: ResourceId) {
        cx.timers.set(Timer::Deadline(resource), &mut self.timers.deadline, None);
        cx.timers.set(Timer::Renewal(resource), &mut self.timers.renewal, None);
        cx.timers.set(Timer::BudgetEnds(resource), &mut self.timers.budget, None);
        cx.timers.set(Timer::Refill(resource), &mut self.refill.timer, None);
        if let Some(converting) = &mut self.converting {
            cx.timers.set(Timer::Convert(resource), &mut converting.timer, None);
        }
    }
}

pub(crate) fn is_reader(cx: &Context, id: LeaseId) -> bool {
    cx.leases.get(&id).is_some_and(|lease| lease.mode == Mode::Shared)
}

/// Rounds down to a grid of a 48th of the TTL, so that renewals of many leases leave in one wake-up.
fn together(at: Instant, ttl: Duration) -> Instant {
    let micros = at.as_micros();
    let grid = crate::time::micros(ttl / 48).max(1);
    Instant::from_micros(micros.saturating_sub(micros.checked_rem(grid).unwrap_or(0)))
}
