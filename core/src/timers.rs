//! Timers, each with the reason it was set for.

use alloc::collections::BTreeSet;

use crate::context::ResourceId;
use crate::event::{LeaseId, OpId, Reason};
use crate::subscription::Channel;
use crate::time::Instant;
use crate::token::Token;

/// What a timer is for. At most one of each is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A tenure's validity ends.
    Deadline(ResourceId),
    /// One lease ends before its tenure: a fixed end or `max_hold`.
    LeaseEnds(LeaseId),
    /// A tenure is due for renewal, or a renewal for another try.
    Renewal(ResourceId),
    /// A fence block was asked for and did not come.
    Refill(ResourceId),
    /// A request is due to be sent again.
    Heartbeat(ResourceId),
    /// The local hand-overs of a tenure are over.
    BudgetEnds(ResourceId),
    /// A user's call ends.
    OpEnds(OpId),
    /// A user's call is due to be sent again.
    OpAgain(OpId),
    /// An unanswered convert is due to be sent again.
    Convert(ResourceId),
    /// An unanswered release is due to be sent again.
    Release(Token),
    /// The subscription is due to be made again, or is overdue.
    Subscription(Channel),
}

impl Timer {
    fn reason(self) -> Reason {
        match self {
            Self::Deadline(_) | Self::LeaseEnds(_) => Reason::Deadline,
            Self::Renewal(_) => Reason::Renewal,
            Self::Heartbeat(_) => Reason::Heartbeat,
            Self::OpEnds(_) => Reason::WaitEnds,
            Self::Refill(_) | Self::OpAgain(_) | Self::Convert(_) | Self::Release(_) => Reason::Resend,
            Self::BudgetEnds(_) => Reason::BudgetEnds,
            Self::Subscription(_) => Reason::Subscription,
        }
    }
}

/// When a timer was set to, kept by whoever set it.
pub(crate) type Slot = Option<Instant>;

/// All timers. Ends of leases are kept apart: a late wake-up must tell them before anything else runs.
#[derive(Default)]
pub(crate) struct Timers {
    ends: BTreeSet<(Instant, Timer)>,
    others: BTreeSet<(Instant, Timer)>,
}

impl Timers {
    /// Sets `timer` to `to` instead of what `slot` holds.
    pub(crate) fn set(&mut self, timer: Timer, slot: &mut Slot, to: Slot) {
        if *slot == to {
            return;
        }
        let set = match timer {
            Timer::Deadline(_) | Timer::LeaseEnds(_) => &mut self.ends,
            _ => &mut self.others,
        };
        if let Some(at) = slot.take() {
            set.remove(&(at, timer));
        }
        if let Some(at) = to {
            set.insert((at, timer));
        }
        *slot = to;
    }

    /// Takes the next timer that is due: ends of leases first.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Timer> {
        for set in [&mut self.ends, &mut self.others] {
            if set.first().is_some_and(|(at, _)| *at <= now) {
                return set.pop_first().map(|(_, timer)| timer);
            }
        }
        None
    }

    /// The earliest timer.
    pub(crate) fn next(&self) -> Option<(Instant, Reason)> {
        let earliest = [self.ends.first(), self.others.first()].into_iter().flatten().min();
        earliest.map(|(at, timer)| (*at, timer.reason()))
    }
}
