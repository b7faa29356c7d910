//! The state behind a client's mutex: the engine, the pending operations, the held leases, and the driver's next actions.

use std::sync::Arc;
use std::task::Waker;

use hashbrown::HashMap;
use leasehold_core::{
    ByNumber, CallId, Command, Engine, Error, Grant, Input, Instant, LeaseId, LossReason, Mode, NodeId, OpId, Outcome,
    Output,
};
use tokio::sync::watch;

use crate::net::ChannelRequest;

/// The result of an operation, as the engine returns it.
pub(super) type OperationResult = Result<Outcome, Error>;

pub(super) struct State {
    pub(super) engine: Engine,
    pub(super) operations: HashMap<OpId, PendingOperation, ByNumber>,
    pub(super) leases: HashMap<LeaseId, LeaseState, ByNumber>,
    next_op: u64,
    pub(super) actions: Actions,
    /// Whether the driver was notified and has not run since.
    pub(super) driver_notified: bool,
    /// Whether the client is closing, so that its leases are being released.
    pub(super) closing: bool,
    /// How many of the leases the server did not confirm as released in time.
    pub(super) unreleased: u32,
    /// Whether the driver has stopped, so that nothing is sent any more.
    pub(super) stopped: bool,
}

/// An operation that is still running, or whose result was not fetched yet.
pub(super) struct PendingOperation {
    /// The lock's name, if the operation is an acquire.
    pub(super) name: Option<Arc<str>>,
    pub(super) waker: Option<Waker>,
    pub(super) result: Option<OperationResult>,
}

/// A lease that has at least one hold.
pub(super) struct LeaseState {
    name: Option<Arc<str>>,
    pub(super) holds: u32,
    pub(super) fence: u64,
    pub(super) mode: Mode,
    pub(super) lost: Option<LossReason>,
    /// Created when a task first asks to be notified. Dropped with the last hold.
    pub(super) loss_sender: Option<LossSender>,
}

/// Notifies the tasks that watch a lease.
pub(super) type LossSender = watch::Sender<Option<LossReason>>;

/// What the driver has to do.
#[derive(Default)]
pub(super) struct Actions {
    pub(super) commands: Vec<(NodeId, CallId, Command)>,
    /// Channels to subscribe to or to leave, in this order.
    pub(super) channel_requests: Vec<ChannelRequest>,
    /// When to wake the engine at the latest.
    pub(super) wake_at: Option<Instant>,
    /// Whether the engine is closed and nothing is left to do.
    pub(super) closed: bool,
}

/// What to do after the mutex is unlocked, because wakers, watchers and loggers run foreign code.
#[derive(Default)]
pub(super) struct Deferred {
    pub(super) notify_driver: bool,
    pub(super) wakers: Vec<Waker>,
    pub(super) losses: Vec<(Option<Arc<str>>, Option<LossSender>, LossReason)>,
    released: Vec<LeaseState>,
    closed: Vec<LossSender>,
}

impl State {
    pub(super) fn new(engine: Engine) -> Self {
        Self {
            engine,
            operations: HashMap::default(),
            leases: HashMap::default(),
            next_op: 0,
            actions: Actions::default(),
            driver_notified: false,
            closing: false,
            unreleased: 0,
            stopped: false,
        }
    }

    pub(super) fn next_op(&mut self) -> OpId {
        self.next_op += 1;
        OpId(self.next_op)
    }

    pub(super) fn drain_outputs(&mut self, now: Instant, deferred: &mut Deferred) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Send { call, node, command } => self.actions.commands.push((node, call, command)),
                Output::Subscribe { node, channel } => {
                    self.actions.channel_requests.push(ChannelRequest::Subscribe { node, channel });
                }
                Output::Unsubscribe { node: _, channel } => {
                    self.actions.channel_requests.push(ChannelRequest::Unsubscribe { channel });
                }
                Output::Completed { op, result } => self.complete(now, op, result, deferred),
                Output::Lost { lease, reason } => self.mark_lost(lease, reason, deferred),
            }
        }
    }

    fn complete(&mut self, now: Instant, op: OpId, result: OperationResult, deferred: &mut Deferred) {
        match &result {
            Ok(Outcome::Closed { unreleased }) => {
                self.actions.closed = true;
                self.unreleased = *unreleased;
            }
            Ok(Outcome::Converted(grant)) => {
                if let Some(lease) = self.leases.get_mut(&grant.lease) {
                    (lease.fence, lease.mode) = (grant.fence, grant.mode);
                }
            }
            _ => {}
        }
        let grant = result.as_ref().ok().and_then(grant_of);
        match self.operations.get_mut(&op) {
            Some(operation) => {
                if let Some(grant) = grant {
                    let name = operation.name.take();
                    // The owner of a reentrant lock may get a lease that it already has.
                    let lease = self.leases.entry(grant.lease).or_insert_with(|| LeaseState::new(name, &grant));
                    lease.holds = lease.holds.saturating_add(1);
                }
                operation.result = Some(result);
                deferred.wakers.extend(operation.waker.take());
            }
            // The future of this acquire was dropped.
            None => {
                if let Some(grant) = grant {
                    let op = self.next_op();
                    self.engine.handle(now, Input::Release { op, lease: grant.lease });
                }
            }
        }
    }

    fn mark_lost(&mut self, lease: LeaseId, reason: LossReason, deferred: &mut Deferred) {
        let Some(state) = self.leases.get_mut(&lease) else { return };
        state.lost = Some(reason);
        deferred.losses.push((state.name.clone(), state.loss_sender.clone(), reason));
    }

    /// The driver has stopped. Fails the pending operations, and reports the leases as lost, because nothing renews them.
    pub(super) fn stop(&mut self, deferred: &mut Deferred) {
        self.stopped = true;
        for operation in self.operations.values_mut() {
            operation.result.get_or_insert(Err(Error::Closed));
            deferred.wakers.extend(operation.waker.take());
        }
        if self.closing {
            return;
        }
        let held: Vec<_> =
            self.leases.iter().filter(|(_, state)| state.lost.is_none()).map(|(lease, _)| *lease).collect();
        for lease in held {
            self.mark_lost(lease, LossReason::Expired, deferred);
        }
    }

    /// The engine releases every lease, so losses are no longer reported.
    pub(super) fn close_leases(&mut self, deferred: &mut Deferred) {
        self.closing = true;
        deferred.closed.extend(self.leases.values_mut().filter_map(|lease| lease.loss_sender.take()));
    }

    pub(super) fn release(&mut self, now: Instant, lease: LeaseId, deferred: &mut Deferred) {
        self.drop_hold(lease, deferred);
        let op = self.next_op();
        self.engine.handle(now, Input::Release { op, lease });
    }

    /// Removes one hold from a lease. Returns how the lease was lost, if it was.
    pub(super) fn drop_hold(&mut self, lease: LeaseId, deferred: &mut Deferred) -> Option<LossReason> {
        let state = self.leases.get_mut(&lease)?;
        let lost = state.lost;
        state.holds = state.holds.saturating_sub(1);
        if state.holds == 0 {
            deferred.released.extend(self.leases.remove(&lease));
        }
        lost
    }

    /// The driver wakes by itself at `actions.wake_at`. This notifies it if there is something to do sooner.
    pub(super) fn notify_driver_if_needed(&mut self, deferred: &mut Deferred) {
        if self.driver_notified {
            return;
        }
        let sooner = match (self.engine.poll_timeout(), self.actions.wake_at) {
            (Some((at, _)), Some(wake_at)) => at < wake_at,
            (wanted, _) => wanted.is_some(),
        };
        let Actions { commands, channel_requests, closed, .. } = &self.actions;
        if sooner || !commands.is_empty() || !channel_requests.is_empty() || *closed {
            self.driver_notified = true;
            deferred.notify_driver = true;
        }
    }
}

/// The lease that an operation was granted. For several names, the greatest fence is the lease's fence.
pub(crate) fn grant_of(outcome: &Outcome) -> Option<Grant> {
    match outcome {
        Outcome::Acquired(grant) => Some(*grant),
        Outcome::AcquiredAll { lease, fences, valid_until } => {
            let fence = fences.iter().copied().max().unwrap_or_default();
            Some(Grant { lease: *lease, mode: Mode::Exclusive, fence, valid_until: *valid_until, local: false })
        }
        _ => None,
    }
}

impl LeaseState {
    fn new(name: Option<Arc<str>>, grant: &Grant) -> Self {
        Self { name, holds: 0, fence: grant.fence, mode: grant.mode, lost: None, loss_sender: None }
    }
}
