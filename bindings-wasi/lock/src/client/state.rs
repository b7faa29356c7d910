//! The state of a client: the engine, the pending operations, the held leases, and the driver's next actions.

use alloc::vec::Vec;

use core::task::Waker;
use core::time::Duration;

use leasehold_core::{
    AcquireOptions, CallResult, Clock, Driven, Engine, Event, Grant, Input, Instant, Labels, LeaseId, LossReason, OpId,
    Operation, Outcome,
};

use crate::limits::Permit;

pub(super) struct State {
    pub(super) driven: Driven<Pending, LeaseState>,
    pub(super) clock: Clock,
    /// Wakes the driver. None while it is running.
    pub(super) driver: Option<Waker>,
    /// The tasks to wake once the state is no longer borrowed.
    pub(super) wakers: Vec<Waker>,
}

/// What the engine doesn't know about an operation.
pub(super) struct Pending {
    /// What an acquire asks for. None for other operations.
    pub(super) options: Option<LeaseOptions>,
    pub(super) wakers: Vec<Waker>,
    /// Its part of the limit of calls. Returned when the engine completes the operation.
    pub(super) permit: Option<Permit>,
}

/// What an acquire asks for.
#[derive(Clone, Copy)]
pub(super) struct LeaseOptions {
    pub(super) ttl: Duration,
    pub(super) max_hold: Option<Duration>,
}

impl LeaseOptions {
    pub(super) const fn of(options: &AcquireOptions) -> Self {
        Self { ttl: options.ttl, max_hold: options.max_hold }
    }
}

/// What the engine doesn't know about a lease. Dropped with the last hold.
pub(super) struct LeaseState {
    pub(super) loss: Option<LossReason>,
    ttl: Duration,
    /// When `max-hold-ms` ends the lease.
    max_end: Option<Instant>,
    /// The lease was granted with this validity, so it is renewed until then even without a `hold`.
    promised_until: Instant,
    /// The running calls of `hold`, and when each ends.
    keepers: Vec<(u64, Instant)>,
    /// The tasks that wait for the end of the lease.
    pub(super) watchers: Vec<Waker>,
}

impl State {
    pub(super) fn new(engine: Engine, labels: Option<Labels>) -> Self {
        Self { driven: Driven::new(engine, labels), clock: Clock::default(), driver: None, wakers: Vec::new() }
    }

    pub(super) fn drain_outputs(&mut self, now: Instant) {
        self.driven.keep_label(now, |_| None);
        while let Some(event) = self.driven.poll(|| now) {
            match event {
                Event::Completed { op, result } => self.complete(now, op, result),
                Event::Lost { lease, reason } => self.record_loss(now, lease, reason),
                // Leases have no labels here, and elections no observers.
                Event::Asked(_) | Event::Leader { .. } => {}
            }
        }
    }

    fn complete(&mut self, now: Instant, op: OpId, result: CallResult) {
        // If the future was dropped, nobody needs the result. An acquire was cancelled then, so it got no lease.
        let Some(call) = self.driven.calls.get_mut(&op) else { return };
        let grant = result.as_ref().ok().and_then(Outcome::grant);
        call.result = Some(result);
        call.kept.permit = None;
        self.wakers.append(&mut call.kept.wakers);
        if let (Some(grant), Some(options)) = (grant, call.kept.options.take()) {
            self.add_lease(now, &grant, options);
        }
    }

    fn add_lease(&mut self, now: Instant, grant: &Grant, options: LeaseOptions) {
        let LeaseOptions { ttl, max_hold } = options;
        // A grant that arrives as a message is valid for less than the TTL, and is renewed once. The other grants are
        // valid for nearly the whole TTL, and that is enough.
        let enough = now + ttl / 3 * 2;
        let promised_until = if grant.valid_until >= enough { grant.valid_until } else { now + ttl };
        if let Some(lease) = self.driven.leases.get_mut(&grant.lease) {
            // The owner of a reentrant lock may get a lease that it already has. It keeps the longer promise.
            lease.promised_until = lease.promised_until.max(promised_until);
            return self.keep(now, grant.lease);
        }
        let lease = LeaseState {
            loss: None,
            ttl,
            max_end: max_hold.map(|max_hold| now + max_hold),
            promised_until,
            keepers: Vec::new(),
            watchers: Vec::new(),
        };
        self.driven.leases.insert(grant.lease, lease);
        self.keep(now, grant.lease);
    }

    /// Tells the engine how long to renew the lease: while a `hold` runs, and for as long as the grant promised.
    fn keep(&mut self, now: Instant, lease: LeaseId) {
        let Some(state) = self.driven.leases.get(&lease) else { return };
        let Some(valid_until) = self.driven.engine.valid_until(lease) else { return };
        let kept = state.keepers.iter().map(|(_, until)| *until + state.ttl).max();
        let until = kept.unwrap_or(valid_until).max(valid_until).max(state.promised_until);
        let until = state.max_end.map_or(until, |max_end| until.min(max_end));
        self.driven.engine.handle(now, Input::Keep { lease, until });
    }

    /// Registers a running `hold`. Returns its number, for [`remove_keeper`](Self::remove_keeper).
    pub(super) fn add_keeper(&mut self, now: Instant, lease: LeaseId, until: Instant) -> u64 {
        let keeper = self.driven.next_id();
        if let Some(lease) = self.driven.leases.get_mut(&lease) {
            lease.keepers.push((keeper, until));
        }
        self.keep(now, lease);
        keeper
    }

    pub(super) fn remove_keeper(&mut self, now: Instant, lease: LeaseId, keeper: u64) {
        if let Some(lease) = self.driven.leases.get_mut(&lease) {
            lease.keepers.retain(|(other, _)| *other != keeper);
        }
        self.keep(now, lease);
    }

    fn record_loss(&mut self, now: Instant, lease: LeaseId, reason: LossReason) {
        let Some(lease) = self.driven.leases.get_mut(&lease) else { return };
        // The engine reports `MaxHold` whenever a lease reaches the end that `Input::Keep` gave it. To the user, only the
        // end by `max-hold-ms` has this reason.
        let max_end_reached = lease.max_end.is_some_and(|max_end| max_end <= now);
        let reason = if reason == LossReason::MaxHold && !max_end_reached { LossReason::Expired } else { reason };
        lease.loss = Some(reason);
        self.wakers.append(&mut lease.watchers);
    }

    /// The driver has stopped. Fails the pending operations, and reports the leases as lost, because nothing renews them.
    pub(super) fn stop(&mut self, now: Instant) {
        self.driven.stop();
        for call in self.driven.calls.values_mut() {
            self.wakers.append(&mut call.kept.wakers);
        }
        let leases = self.driven.leases.iter();
        let held: Vec<_> = leases.filter(|(_, lease)| lease.loss.is_none()).map(|(id, _)| *id).collect();
        for lease in held {
            self.record_loss(now, lease, LossReason::Expired);
        }
    }

    /// Starts an operation. The release of a hold ends the calls that wait for it.
    pub(super) fn start(&mut self, now: Instant, op: OpId, operation: &Operation<'_>) {
        if let Operation::Release { lease } | Operation::Detach { lease, .. } | Operation::Store { lease, .. } =
            operation
            && let Some(lease) = self.driven.leases.get_mut(lease)
        {
            self.wakers.append(&mut lease.watchers);
        }
        drop(self.driven.start(now, op, operation));
    }

    pub(super) fn wake_driver_if_needed(&mut self) {
        if self.needs_driver() {
            self.wakers.extend(self.driver.take());
        }
    }

    /// Whether the driver has something to do before it wakes by itself.
    pub(super) fn needs_driver(&self) -> bool {
        self.driven.outbox.is_due(self.driven.engine.poll_timeout().map(|(at, _)| at))
    }
}
