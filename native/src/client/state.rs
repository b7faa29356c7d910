//! The state behind a client's mutex: the engine, the pending operations, the held leases, and the driver's next actions.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use hashbrown::HashMap;
use leasehold_core::{
    BusyHolder, ByNumber, Command, CommandId, Engine, Error, Failure, Input, Instant, Labels, LeaseId, LossReason,
    NodeId, OpId, Outcome, Output, Question, Reply,
};
use tokio::sync::watch;

use super::clock::Clock;
use super::operation::Named;
use crate::net::ChannelRequest;

/// The result of an operation, as the engine returns it.
pub(super) type OperationResult = Result<Outcome, Error>;

pub(super) struct State {
    clock: Clock,
    pub(super) engine: Engine,
    /// None for a quorum.
    labels: Option<Labels>,
    /// The operation that is starting now. Most end at once, so they don't need a place in the map.
    pub(super) starting: Option<(OpId, PendingOperation)>,
    pub(super) operations: HashMap<OpId, PendingOperation, ByNumber>,
    pub(super) leases: HashMap<LeaseId, LeaseState, ByNumber>,
    next_op: u64,
    pub(super) actions: Actions,
    /// Whether the driver was notified and has not run since.
    pub(super) driver_notified: bool,
    /// Whether the client is closing, so that its leases are being released.
    pub(super) closing: bool,
    /// How many leases the server has not confirmed as released, once the client is closed or the driver has stopped.
    pub(super) unreleased: u32,
    /// Whether the driver has stopped, so that nothing is sent any more.
    pub(super) stopped: bool,
}

/// An operation that is still running, or whose result was not fetched yet.
pub(super) struct PendingOperation {
    /// The lock, if the operation is an acquire.
    pub(super) lock: Option<Named>,
    /// When it began.
    pub(super) since: Instant,
    pub(super) waker: Option<Waker>,
    pub(super) result: Option<OperationResult>,
}

/// What the engine doesn't know about a lease. Dropped with the last hold.
pub(super) struct LeaseState {
    lock: Option<Named>,
    /// When it was granted.
    since: Instant,
    /// Created when a task first asks to be notified.
    pub(super) loss_sender: Option<LossSender>,
}

/// Notifies the tasks that watch a lease.
pub(super) type LossSender = watch::Sender<Option<LossReason>>;

/// What the driver has to do.
#[derive(Default)]
pub(super) struct Actions {
    pub(super) commands: Vec<(NodeId, CommandId, Command)>,
    /// Commands for a dedicated connection of this operation. None closes the connection.
    pub(super) dedicated: Vec<(OpId, Option<Command>)>,
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
    pub(super) wakers: Few<Waker>,
    pub(super) losses: Vec<(Option<Arc<str>>, Option<LossSender>, LossReason)>,
    /// Locks whose key has no TTL, and for how long callers have found it.
    pub(super) blocked: Vec<(String, Duration)>,
    released: Few<LeaseState>,
}

/// A list that allocates nothing for its first value. A hand-over wakes one task and ends one lease.
pub(super) struct Few<T> {
    first: Option<T>,
    more: Vec<T>,
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self { first: None, more: Vec::new() }
    }
}

impl<T> Few<T> {
    fn push(&mut self, value: T) {
        if self.first.is_none() {
            self.first = Some(value);
        } else {
            self.more.push(value);
        }
    }

    pub(super) fn for_each(self, act: impl Fn(T)) {
        if let Some(first) = self.first {
            act(first);
            self.more.into_iter().for_each(act);
        }
    }
}

impl State {
    pub(super) fn new(engine: Engine, labels: Option<Labels>, clock: Clock) -> Self {
        Self {
            clock,
            engine,
            labels,
            starting: None,
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
        while let Some(mut output) = self.engine.poll_output() {
            if self.labels.as_mut().is_some_and(|labels| labels.holds_back(|| self.clock.now(), &mut output)) {
                continue;
            }
            self.take_output(now, output, deferred);
        }
        while let Some(question) = self.labels.as_mut().and_then(Labels::poll_question) {
            self.answer(now, &question);
        }
        let Some(labels) = &mut self.labels else { return };
        if let Some(channel) = labels.wants_channel() {
            self.actions.channel_requests.push(ChannelRequest::Subscribe { node: NodeId(0), channel });
        }
        while let Some((id, command)) = labels.poll_command() {
            self.actions.commands.push((NodeId(0), id, command));
        }
        while let Some(blocked) = labels.poll_blocked() {
            deferred.blocked.push(blocked);
        }
        while let Some((op, outcome)) = self.labels.as_mut().and_then(Labels::poll_completed) {
            self.complete(now, op, Ok(outcome), deferred);
        }
    }

    /// Tells what this client has of a lock.
    #[inline(never)]
    fn answer(&mut self, now: Instant, question: &Question) {
        let Some(labels) = &mut self.labels else { return };
        fn found<'a>(lock: &'a Option<Named>, since: Instant, name: &str) -> Option<(Instant, Option<&'a str>)> {
            Some((since, lock.as_ref()?.lease_of(name)?))
        }
        let leases = self.leases.values().map(|lease| found(&lease.lock, lease.since, question.name()));
        let waits = self.operations.values().filter(|wait| wait.result.is_none());
        labels.answer(now, question, leases, waits.map(|wait| found(&wait.lock, wait.since, question.name())));
    }

    // Separate from the loop, which mostly finds nothing to take.
    #[inline(never)]
    fn take_output(&mut self, now: Instant, output: Output, deferred: &mut Deferred) {
        match output {
            Output::Send { id, node, command } => self.actions.commands.push((node, id, command)),
            Output::SendDedicated { op, command } => self.actions.dedicated.push((op, Some(command))),
            Output::CloseDedicated { op } => self.actions.dedicated.push((op, None)),
            Output::Subscribe { node, channel } => {
                self.actions.channel_requests.push(ChannelRequest::Subscribe { node, channel });
            }
            Output::Unsubscribe { node: _, channel } => {
                self.actions.channel_requests.push(ChannelRequest::Unsubscribe { channel });
            }
            Output::Completed { op, result } => self.complete(now, op, result, deferred),
            // `lose_all` or `stop` has reported every lease.
            Output::Lost { .. } if self.closing || self.stopped => {}
            Output::Lost { lease, reason } => self.notify_loss(lease, reason, deferred),
        }
    }

    /// The result of a command of the engine or about a label.
    pub(super) fn reply(&mut self, now: Instant, id: CommandId, result: Result<Reply, Failure>) {
        let of_labels = self.labels.as_mut().is_some_and(|labels| labels.takes(now, id, &result, &self.engine));
        if !of_labels {
            self.engine.handle(now, Input::Reply { id, result });
        }
    }

    /// Writes the client's label once it has held a lease for a second, and again before the server forgets it.
    pub(super) fn keep_label(&mut self, now: Instant) {
        let uses_locks = self.uses_locks();
        if let Some(labels) = self.labels.as_mut().filter(|_| uses_locks) {
            labels.keep(now, || self.leases.values().map(|lease| lease.since).min());
        }
    }

    fn uses_locks(&self) -> bool {
        !self.leases.is_empty() || !self.operations.is_empty()
    }

    /// Who holds a lock that a caller did not get.
    pub(super) fn holder(&self, name: &str) -> Option<BusyHolder> {
        let labels = self.labels.as_ref()?;
        // A caller of this client has it, or the holder is unknown. A long search is not worth it.
        let is_of = |lease: &LeaseState| lease.lock.as_ref().is_some_and(|lock| &*lock.name == name);
        let here = || self.leases.values().take(1000).any(is_of);
        labels.holder(self.clock.now(), name).or_else(|| here().then(|| labels.own()))
    }

    fn complete(&mut self, now: Instant, op: OpId, result: OperationResult, deferred: &mut Deferred) {
        if let Ok(Outcome::Closed { unreleased }) = result {
            self.actions.closed = true;
            self.unreleased = unreleased;
        }
        // If the future was dropped, nobody needs the result. An acquire was cancelled then, so it got no lease.
        let starting = self.starting.as_mut().filter(|(starting, _)| *starting == op).map(|(_, operation)| operation);
        let Some(operation) = starting.or_else(|| self.operations.get_mut(&op)) else { return };
        if let Some(grant) = result.as_ref().ok().and_then(Outcome::grant) {
            let lock = operation.lock.take();
            if let (Some(labels), Some(lock)) = (&mut self.labels, &lock) {
                labels.granted(&lock.name);
                labels.holds(now);
            }
            // The owner of a reentrant lock may get a lease that it already has.
            self.leases.entry(grant.lease).or_insert(LeaseState { lock, since: now, loss_sender: None });
        }
        operation.result = Some(result);
        if let Some(waker) = operation.waker.take() {
            deferred.wakers.push(waker);
        }
    }

    fn notify_loss(&self, lease: LeaseId, reason: LossReason, deferred: &mut Deferred) {
        let Some(LeaseState { lock, loss_sender, .. }) = self.leases.get(&lease) else { return };
        let name = lock.as_ref().map(|lock| Arc::clone(&lock.name));
        deferred.losses.push((name, loss_sender.clone(), reason));
    }

    /// How a lease was lost. None if it wasn't.
    pub(super) fn loss(&self, lease: LeaseId) -> Option<LossReason> {
        if self.closing {
            return self.losses_at_close(lease);
        }
        // Nothing renews a lease after the driver has stopped.
        let stopped = self.stopped.then_some(LossReason::Expired);
        self.engine.lease(lease)?.lost.or(stopped)
    }

    /// After a close, the engine knows only the leases that were lost before the close.
    fn losses_at_close(&self, lease: LeaseId) -> Option<LossReason> {
        let is_unreleased = self.leases.contains_key(&lease);
        let before = self.engine.lease(lease).and_then(|lease| lease.lost);
        is_unreleased.then(|| before.unwrap_or(LossReason::Closed))
    }

    /// The driver has stopped. Fails the pending operations, and reports the leases as lost, because nothing renews them.
    pub(super) fn stop(&mut self, now: Instant, deferred: &mut Deferred) {
        self.stopped = true;
        if !self.actions.closed {
            self.unreleased = self.engine.unreleased(now);
        }
        for operation in self.operations.values_mut() {
            operation.result.get_or_insert(Err(Error::Closed));
            if let Some(waker) = operation.waker.take() {
                deferred.wakers.push(waker);
            }
        }
        if self.closing {
            return;
        }
        for lease in self.leases.keys() {
            if self.engine.lease(*lease).is_some_and(|lease| lease.lost.is_none()) {
                self.notify_loss(*lease, LossReason::Expired, deferred);
            }
        }
    }

    /// Reports every lease as lost. After that, `close` releases them.
    pub(super) fn lose_all(&mut self, now: Instant, deferred: &mut Deferred) {
        if self.closing || self.stopped {
            return;
        }
        // The engine reports the leases that have expired before, with their own reason.
        self.engine.handle(now, Input::Wake);
        self.drain_outputs(now, deferred);
        for lease in self.leases.keys() {
            if self.engine.lease(*lease).is_some_and(|lease| lease.lost.is_none()) {
                self.notify_loss(*lease, LossReason::Closed, deferred);
            }
        }
        self.closing = true;
    }

    /// Closes the engine, which gives every lease back.
    pub(super) fn close(&mut self, now: Instant, op: OpId) {
        self.engine.handle(now, Input::Close { op });
        if let Some(labels) = &mut self.labels {
            labels.close();
        }
    }

    pub(super) fn release(&mut self, now: Instant, op: OpId, lease: LeaseId, deferred: &mut Deferred) {
        self.engine.handle(now, Input::Release { op, lease });
        if self.engine.lease(lease).is_none()
            && let Some(released) = self.leases.remove(&lease)
        {
            deferred.released.push(released);
        }
    }

    /// When to wake the engine and the labels at the latest.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let engine = self.engine.poll_timeout().map(|(at, _)| at);
        let labels = self.labels.as_ref().and_then(|labels| labels.poll_timeout(self.uses_locks()));
        engine.into_iter().chain(labels).min()
    }

    /// Time has passed.
    pub(super) fn wake(&mut self, now: Instant) {
        self.engine.handle(now, Input::Wake);
        if let Some(labels) = &mut self.labels {
            labels.wake(now);
        }
    }

    /// An event for the engine, or about the labels of leases.
    pub(super) fn handle(&mut self, now: Instant, input: Input<'_>) {
        let of_labels = self.labels.as_mut().is_some_and(|labels| match &input {
            Input::Message { channel, payload, .. } => labels.hears(now, channel, payload),
            Input::Subscribed { channel, .. } => labels.channel(channel, None),
            Input::Unsubscribed { channel, cause, .. } => labels.channel(channel, Some(cause)),
            _ => false,
        });
        if !of_labels {
            self.engine.handle(now, input);
        }
    }

    /// The clients that an inspect finds are asked about their leases.
    pub(super) fn inspects(&mut self, op: OpId, name: &str) {
        if let Some(labels) = &mut self.labels {
            labels.inspects(op, name);
        }
    }

    /// The driver wakes by itself at `actions.wake_at`. This notifies it if there is something to do sooner.
    pub(super) fn notify_driver_if_needed(&mut self, deferred: &mut Deferred) {
        if self.driver_notified {
            return;
        }
        let sooner = match (self.poll_timeout(), self.actions.wake_at) {
            (Some(at), Some(wake_at)) => at < wake_at,
            (wanted, _) => wanted.is_some(),
        };
        let Actions { commands, dedicated, channel_requests, closed, .. } = &self.actions;
        let any = !commands.is_empty() || !dedicated.is_empty() || !channel_requests.is_empty();
        if sooner || any || *closed {
            self.driver_notified = true;
            deferred.notify_driver = true;
        }
    }
}
