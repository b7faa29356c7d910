//! A lease that its last holder has released, and that is kept for the next local caller.
//!
//! Chubby's clients cache locks in the same way: [Burrows, 2006](https://research.google/pubs/pub27897/), section 2.4.

use super::LockState;
use super::hold::Hold;
use crate::session::{Context, Timer};

impl LockState {
    /// Keeps the lease for the next local caller, if its last holder wanted that and no other client asks for the lock.
    pub(super) fn lingers(&mut self, cx: &mut Context) -> bool {
        let id = self.id;
        let Some(hold) = &mut self.hold else { return false };
        let Some(linger) = hold.linger.filter(|_| hold.may_linger(cx)) else { return false };
        if hold.timers.linger.is_none() {
            cx.timers.set(Timer::LingerEnds(id), &mut hold.timers.linger, Some(cx.now + linger));
            self.refill_if_low(cx);
        }
        true
    }

    /// Whether the lease is kept although nobody holds it.
    pub(crate) fn is_lingering(&self) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.timers.linger.is_some())
    }

    /// The lease was kept long enough.
    pub(crate) fn linger_ends(&mut self, cx: &mut Context) {
        if let Some(hold) = &mut self.hold {
            (hold.timers.linger, hold.linger) = (None, None);
        }
        self.settle(cx, None);
    }

    /// Another client tried to get the lock, and does not wait for it. If nobody holds the lease, it ends here.
    pub(crate) fn tried(&mut self, cx: &mut Context) {
        if let Some(hold) = &mut self.hold {
            hold.linger = None;
        }
        self.settle(cx, None);
    }
}

impl Hold {
    /// Whether the lease may be kept although nobody holds it. Other clients have not asked for the lock, and will be
    /// notified of when they do.
    fn may_linger(&self, cx: &Context) -> bool {
        let is_notified = !cx.subscription.is_polling() && !cx.draining && !cx.config.mixed_fleet;
        is_notified && !self.tainted && !self.is_kept(cx.now) && self.budget.is_none() && !self.is_in_transition()
    }
}
