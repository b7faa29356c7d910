//! The state of a client: the engine, the pending operations, the held leases, and the driver's next actions.

use alloc::string::String;
use alloc::vec::Vec;

use core::task::Waker;
use core::time::Duration;

use hashbrown::HashMap;
use leasehold_core::{
    ByNumber, Clock, Command, CommandId, Engine, Error, Grant, Input, Instant, Labels, LeaseId, LossReason, NodeId,
    OpId, Outcome, Output,
};

use crate::limits::Permit;

/// The keys are numbers of this component, so nobody can choose colliding ones.
pub(super) type Table<K, V> = HashMap<K, V, ByNumber>;

/// The result of an operation, as the engine returns it.
pub(super) type OperationResult = Result<Outcome, Error>;

pub(super) struct State {
    pub(super) engine: Engine,
    /// None for a quorum.
    pub(super) labels: Option<Labels>,
    pub(super) clock: Clock,
    pub(super) operations: Table<OpId, PendingOperation>,
    pub(super) leases: Table<LeaseId, LeaseState>,
    pub(super) actions: Actions,
    /// Wakes the driver. None while it is running.
    pub(super) driver: Option<Waker>,
    /// The tasks to wake once the state is no longer borrowed.
    pub(super) wakers: Vec<Waker>,
    /// Whether the driver has stopped, so that nothing is sent any more.
    pub(super) stopped: bool,
    last_id: u64,
}

/// An operation that is still running, or whose result was not fetched yet.
pub(super) struct PendingOperation {
    /// What an acquire asks for. None for other operations.
    pub(super) options: Option<LeaseOptions>,
    pub(super) wakers: Vec<Waker>,
    pub(super) result: Option<OperationResult>,
    /// Its part of the limit of calls. Returned when the engine completes the operation.
    pub(super) permit: Option<Permit>,
}

/// What an acquire asks for.
#[derive(Clone, Copy)]
pub(super) struct LeaseOptions {
    pub(super) ttl: Duration,
    pub(super) max_hold: Option<Duration>,
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

/// What the driver has to do.
#[derive(Default)]
pub(super) struct Actions {
    pub(super) commands: Vec<(NodeId, CommandId, Command)>,
    /// Channels to subscribe to or to leave, in this order.
    pub(super) channel_requests: Vec<ChannelRequest>,
    /// When to wake the engine at the latest.
    pub(super) wake_at: Option<Instant>,
    /// Whether the engine is closed and nothing is left to do.
    pub(super) closed: bool,
}

/// A change of the subscriptions. All are on one server, because a quorum subscribes at its first one.
pub(super) enum ChannelRequest {
    Subscribe(String),
    Unsubscribe(String),
}

impl State {
    pub(super) fn new(engine: Engine, labels: Option<Labels>) -> Self {
        Self {
            engine,
            labels,
            clock: Clock::default(),
            operations: Table::default(),
            leases: Table::default(),
            actions: Actions::default(),
            driver: None,
            wakers: Vec::new(),
            stopped: false,
            last_id: 0,
        }
    }

    pub(super) fn next_op(&mut self) -> OpId {
        OpId(self.next_id())
    }

    fn next_id(&mut self) -> u64 {
        self.last_id = self.last_id.saturating_add(1);
        self.last_id
    }

    pub(super) fn drain_outputs(&mut self, now: Instant) {
        while let Some(mut output) = self.engine.poll_output() {
            if self.labels.as_mut().is_some_and(|labels| labels.holds_back(|| now, &mut output)) {
                continue;
            }
            match output {
                Output::Send { id, node, command } => self.actions.commands.push((node, id, command)),
                Output::Subscribe { node: _, channel } => {
                    self.actions.channel_requests.push(ChannelRequest::Subscribe(channel));
                }
                Output::Unsubscribe { node: _, channel } => {
                    self.actions.channel_requests.push(ChannelRequest::Unsubscribe(channel));
                }
                Output::Completed { op, result } => self.complete(now, op, result),
                Output::Lost { lease, reason } => self.record_loss(now, lease, reason),
                // The contract has no call that waits for replicas.
                Output::SendDedicated { .. } | Output::CloseDedicated { .. } => {}
            }
        }
        let Some(labels) = &mut self.labels else { return };
        if !self.leases.is_empty() || !self.operations.is_empty() {
            labels.keep(now, || None);
        }
        while let Some((id, command)) = labels.poll_command() {
            self.actions.commands.push((NodeId(0), id, command));
        }
        while let Some((op, outcome)) = self.labels.as_mut().and_then(Labels::poll_completed) {
            self.complete(now, op, Ok(outcome));
        }
    }

    pub(super) fn handle(&mut self, now: Instant, input: Input<'_>) {
        if let (Some(labels), Input::Reply { id, result }) = (&mut self.labels, &input)
            && labels.takes(now, *id, result, &self.engine)
        {
            return;
        }
        self.engine.handle(now, input);
    }

    /// The client closes. Its close ends when the server has deleted its label.
    pub(super) fn delete_label(&mut self) {
        if let Some(labels) = &mut self.labels {
            labels.close();
        }
    }

    fn complete(&mut self, now: Instant, op: OpId, result: OperationResult) {
        self.actions.closed |= matches!(result, Ok(Outcome::Closed { .. }));
        // If the future was dropped, nobody needs the result. An acquire was cancelled then, so it got no lease.
        let Some(operation) = self.operations.get_mut(&op) else { return };
        let grant = result.as_ref().ok().and_then(Outcome::grant);
        operation.result = Some(result);
        operation.permit = None;
        self.wakers.append(&mut operation.wakers);
        if let (Some(grant), Some(options)) = (grant, operation.options.take()) {
            self.add_lease(now, &grant, options);
        }
    }

    fn add_lease(&mut self, now: Instant, grant: &Grant, options: LeaseOptions) {
        let LeaseOptions { ttl, max_hold } = options;
        // A grant that arrives as a message is valid for less than the TTL, and is renewed once. The other grants are
        // valid for nearly the whole TTL, and that is enough.
        let enough = now + ttl / 3 * 2;
        let promised_until = if grant.valid_until >= enough { grant.valid_until } else { now + ttl };
        if let Some(lease) = self.leases.get_mut(&grant.lease) {
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
        self.leases.insert(grant.lease, lease);
        self.keep(now, grant.lease);
    }

    /// Tells the engine how long to renew the lease: while a `hold` runs, and for as long as the grant promised.
    fn keep(&mut self, now: Instant, lease: LeaseId) {
        let Some(state) = self.leases.get(&lease) else { return };
        let Some(valid_until) = self.engine.valid_until(lease) else { return };
        let kept = state.keepers.iter().map(|(_, until)| *until + state.ttl).max();
        let until = kept.unwrap_or(valid_until).max(valid_until).max(state.promised_until);
        let until = state.max_end.map_or(until, |max_end| until.min(max_end));
        self.engine.handle(now, Input::Keep { lease, until });
    }

    /// Registers a running `hold`. Returns its number, for [`remove_keeper`](Self::remove_keeper).
    pub(super) fn add_keeper(&mut self, now: Instant, lease: LeaseId, until: Instant) -> u64 {
        let keeper = self.next_id();
        if let Some(lease) = self.leases.get_mut(&lease) {
            lease.keepers.push((keeper, until));
        }
        self.keep(now, lease);
        keeper
    }

    pub(super) fn remove_keeper(&mut self, now: Instant, lease: LeaseId, keeper: u64) {
        if let Some(lease) = self.leases.get_mut(&lease) {
            lease.keepers.retain(|(other, _)| *other != keeper);
        }
        self.keep(now, lease);
    }

    fn record_loss(&mut self, now: Instant, lease: LeaseId, reason: LossReason) {
        let Some(lease) = self.leases.get_mut(&lease) else { return };
        // The engine reports `MaxHold` whenever a lease reaches the end that `Input::Keep` gave it. To the user, only the
        // end by `max-hold-ms` has this reason.
        let max_end_reached = lease.max_end.is_some_and(|max_end| max_end <= now);
        let reason = if reason == LossReason::MaxHold && !max_end_reached { LossReason::Expired } else { reason };
        lease.loss = Some(reason);
        self.wakers.append(&mut lease.watchers);
    }

    /// The driver has stopped. Fails the pending operations, and reports the leases as lost, because nothing renews them.
    pub(super) fn stop(&mut self, now: Instant) {
        self.stopped = true;
        for operation in self.operations.values_mut() {
            operation.result.get_or_insert(Err(Error::Closed));
            self.wakers.append(&mut operation.wakers);
        }
        let held: Vec<_> = self.leases.iter().filter(|(_, lease)| lease.loss.is_none()).map(|(id, _)| *id).collect();
        for lease in held {
            self.record_loss(now, lease, LossReason::Expired);
        }
    }

    pub(super) fn release(&mut self, now: Instant, op: OpId, lease: LeaseId) {
        self.engine.handle(now, Input::Release { op, lease });
        if let Some(lease) = self.leases.get_mut(&lease) {
            self.wakers.append(&mut lease.watchers);
        }
        if self.engine.lease(lease).is_none() {
            self.leases.remove(&lease);
        }
    }

    pub(super) fn wake_driver_if_needed(&mut self) {
        if self.needs_driver() {
            self.wakers.extend(self.driver.take());
        }
    }

    /// The driver wakes by itself at `actions.wake_at`. Returns whether there is something to do sooner.
    pub(super) fn needs_driver(&self) -> bool {
        let sooner = match (self.engine.poll_timeout(), self.actions.wake_at) {
            (Some((at, _)), Some(wake_at)) => at < wake_at,
            (wanted, _) => wanted.is_some(),
        };
        let Actions { commands, channel_requests, closed, .. } = &self.actions;
        sooner || !commands.is_empty() || !channel_requests.is_empty() || *closed
    }
}
