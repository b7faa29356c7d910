//! The state behind a client's mutex: the engine, the pending calls, the held leases, and the driver's work.

use std::sync::Arc;
use std::task::Waker;

use hashbrown::HashMap;
use leasehold_core::{
    ByNumber, CallId, Command, Engine, Error, Grant, Input, Instant, LeaseId, LossReason, Mode, NodeId, OpId, Outcome,
    Output,
};
use tokio::sync::watch;

use crate::net::Wish;

/// The result of a user's call, as the engine returns it.
pub(super) type CallResult = Result<Outcome, Error>;

pub(super) struct State {
    pub(super) engine: Engine,
    pub(super) calls: HashMap<OpId, Waiting, ByNumber>,
    pub(super) held: HashMap<LeaseId, Held, ByNumber>,
    next_op: u64,
    pub(super) work: Work,
    /// Whether the driver was notified and has not run since.
    pub(super) rung: bool,
    /// Whether the client is closing, so that its leases are being given back.
    pub(super) closing: bool,
    /// How many of the leases the server did not confirm as released in time.
    pub(super) unreleased: u32,
    /// Whether the driver has stopped, so that nothing is sent any more.
    pub(super) ended: bool,
}

/// A user's call that is still running, or whose result was not fetched yet.
pub(super) struct Waiting {
    /// The lock's name, if the call is an acquire.
    pub(super) name: Option<Arc<str>>,
    pub(super) waker: Option<Waker>,
    pub(super) result: Option<CallResult>,
}

/// A lease that has at least one handle.
pub(super) struct Held {
    name: Option<Arc<str>>,
    pub(super) handles: u32,
    pub(super) fence: u64,
    pub(super) mode: Mode,
    pub(super) lost: Option<LossReason>,
    /// Created when a task first asks to be notified. Dropped with the last handle.
    pub(super) told: Option<Told>,
}

/// Notifies the tasks that watch a lease.
pub(super) type Told = watch::Sender<Option<LossReason>>;

/// What the driver has to do.
#[derive(Default)]
pub(super) struct Work {
    pub(super) sends: Vec<(NodeId, CallId, Command)>,
    /// Channels to subscribe to or to leave, in this order.
    pub(super) subscriptions: Vec<Wish>,
    /// When to wake the engine at the latest.
    pub(super) wake_at: Option<Instant>,
    /// Whether the engine is closed and nothing is left to do.
    pub(super) closed: bool,
}

/// What to do after unlocking, because wakers, watchers and logs run foreign code.
#[derive(Default)]
pub(super) struct After {
    pub(super) ring: bool,
    pub(super) wakers: Vec<Waker>,
    pub(super) lost: Vec<(Option<Arc<str>>, Option<Told>, LossReason)>,
    released: Vec<Held>,
    closed: Vec<Told>,
}

impl State {
    pub(super) fn new(engine: Engine) -> Self {
        Self {
            engine,
            calls: HashMap::default(),
            held: HashMap::default(),
            next_op: 0,
            work: Work::default(),
            rung: false,
            closing: false,
            unreleased: 0,
            ended: false,
        }
    }

    pub(super) fn next_op(&mut self) -> OpId {
        self.next_op += 1;
        OpId(self.next_op)
    }

    pub(super) fn sort_outputs(&mut self, now: Instant, after: &mut After) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Send { call, node, command } => self.work.sends.push((node, call, command)),
                Output::Subscribe { node, channel } => {
                    self.work.subscriptions.push(Wish { node, channel, wanted: true });
                }
                Output::Unsubscribe { node, channel } => {
                    self.work.subscriptions.push(Wish { node, channel, wanted: false });
                }
                Output::Completed { op, result } => self.complete(now, op, result, after),
                Output::Lost { lease, reason } => self.lose(lease, reason, after),
            }
        }
    }

    fn complete(&mut self, now: Instant, op: OpId, result: CallResult, after: &mut After) {
        match &result {
            Ok(Outcome::Closed { unreleased }) => {
                self.work.closed = true;
                self.unreleased = *unreleased;
            }
            Ok(Outcome::Converted(grant)) => {
                if let Some(held) = self.held.get_mut(&grant.lease) {
                    (held.fence, held.mode) = (grant.fence, grant.mode);
                }
            }
            _ => {}
        }
        match self.calls.get_mut(&op) {
            Some(waiting) => {
                if let Some(grant) = result.as_ref().ok().and_then(grant_of) {
                    let name = waiting.name.take();
                    // The owner of a reentrant lock may get a lease that it already has.
                    let held = self.held.entry(grant.lease).or_insert_with(|| Held::new(name, &grant));
                    held.handles = held.handles.saturating_add(1);
                }
                waiting.result = Some(result);
                after.wakers.extend(waiting.waker.take());
            }
            None => {
                if let Some(grant) = result.as_ref().ok().and_then(grant_of) {
                    let op = self.next_op();
                    self.engine.handle(now, Input::Release { op, lease: grant.lease });
                }
            }
        }
    }

    fn lose(&mut self, lease: LeaseId, reason: LossReason, after: &mut After) {
        let Some(held) = self.held.get_mut(&lease) else { return };
        held.lost = Some(reason);
        after.lost.push((held.name.clone(), held.told.clone(), reason));
    }

    /// The driver has stopped: fails the pending calls, and reports the leases as lost because they can't be renewed any more.
    pub(super) fn end(&mut self, after: &mut After) {
        self.ended = true;
        for waiting in self.calls.values_mut() {
            waiting.result.get_or_insert(Err(Error::Closed));
            after.wakers.extend(waiting.waker.take());
        }
        if self.closing {
            return;
        }
        let held: Vec<_> = self.held.iter().filter(|(_, held)| held.lost.is_none()).map(|(lease, _)| *lease).collect();
        for lease in held {
            self.lose(lease, LossReason::Expired, after);
        }
    }

    /// The engine gives every lease back, so losses are no longer reported.
    pub(super) fn close_leases(&mut self, after: &mut After) {
        self.closing = true;
        after.closed.extend(self.held.values_mut().filter_map(|held| held.told.take()));
    }

    pub(super) fn give_back(&mut self, now: Instant, lease: LeaseId, after: &mut After) {
        self.drop_handle(lease, after);
        let op = self.next_op();
        self.engine.handle(now, Input::Release { op, lease });
    }

    /// Removes one handle from a lease. Returns how the lease was lost, if it was.
    pub(super) fn drop_handle(&mut self, lease: LeaseId, after: &mut After) -> Option<LossReason> {
        let held = self.held.get_mut(&lease)?;
        let lost = held.lost;
        held.handles = held.handles.saturating_sub(1);
        if held.handles == 0 {
            after.released.extend(self.held.remove(&lease));
        }
        lost
    }

    /// The driver wakes by itself at `work.wake_at`. This notifies it if there is something to do sooner.
    pub(super) fn ring_if_needed(&mut self, after: &mut After) {
        if self.rung {
            return;
        }
        let sooner = match (self.engine.poll_timeout(), self.work.wake_at) {
            (Some((at, _)), Some(wake_at)) => at < wake_at,
            (wanted, _) => wanted.is_some(),
        };
        if sooner || !self.work.sends.is_empty() || !self.work.subscriptions.is_empty() || self.work.closed {
            self.rung = true;
            after.ring = true;
        }
    }
}

/// The lease that a call was granted. For several names, the greatest fence is the lease's fence.
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

impl Held {
    fn new(name: Option<Arc<str>>, grant: &Grant) -> Self {
        Self { name, handles: 0, fence: grant.fence, mode: grant.mode, lost: None, told: None }
    }
}
