//! Timers, each with its purpose.

use alloc::collections::BTreeSet;

use crate::context::ResourceId;
use crate::event::{LeaseId, OpId, Reason};
use crate::subscription::Channel;
use crate::time::Instant;
use crate::token::Token;

/// The purpose of a timer. At most one timer of each is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A tenure's validity ends.
    Deadline(ResourceId),
    /// A lease ends before its tenure: the end of a fixed lease, or `max_hold`.
    LeaseEnds(LeaseId),
    /// A tenure is due for renewal, or for another attempt.
    Renewal(ResourceId),
    /// A refill got no answer.
    Refill(ResourceId),
    /// A request's command is due to be sent again.
    Heartbeat(ResourceId),
    /// The time for a tenure's local hand-overs is over.
    BudgetEnds(ResourceId),
    /// A user's call ends.
    OpEnds(OpId),
    /// A user's call is due to be sent again.
    OpAgain(OpId),
    /// An unanswered convert is due to be resent.
    Convert(ResourceId),
    /// An unanswered release is due to be resent.
    Release(Token),
    /// A subscription is due to be retried, or is overdue.
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

/// The time of a timer. It is stored with the object that the timer belongs to.
pub(crate) type Slot = Option<Instant>;

/// All timers. The ends of leases are separate, because a late wake-up must handle them before anything else.
#[derive(Default)]
pub(crate) struct Timers {
    ends: BTreeSet<(Instant, Timer)>,
    others: BTreeSet<(Instant, Timer)>,
}

impl Timers {
    /// Changes `timer` from the time in `slot` to `to`.
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

    /// Removes and returns the next timer that is due. Ends of leases come first.
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
