//! A driver sets how long a renewed lease is kept.

use crate::event::LeaseId;
use crate::node::Node;
use crate::time::Instant;
use crate::timers::Timer;

impl Node {
    /// Moves the end of a renewed lease.
    pub(crate) fn keep(&mut self, id: LeaseId, until: Instant) {
        let Some(lease) = self.cx.leases.get_mut(&id) else { return self.keep_all(id, until) };
        if !lease.renew {
            return;
        }
        let resource = lease.resource;
        self.cx.timers.set(Timer::LeaseEnds(id), &mut lease.ends, Some(until));
        self.with(resource, |resource, cx| {
            let Some(tenure) = &mut resource.tenure else { return };
            // A renewal in flight has its own timer for the next attempt.
            if tenure.timers.renewal.is_none() {
                tenure.schedule_renewal(cx, resource.id);
            }
        });
    }
}
