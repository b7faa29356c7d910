//! The state behind a client's mutex: the engine, the pending operations, the held leases, and the driver's next actions.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, SystemTime};

use leasehold_core::{
    BusyHolder, Call, CallResult, Driven, Engine, Event, Input, Instant, Labels, Leader, LeaseId, LossReason, Mode,
    OpId, Outcome, Output, Question,
};
use tokio::sync::watch;

use super::clock::Clock;
use super::ending::Ending;
use super::named::Named;

pub(super) struct State {
    clock: Clock,
    pub(super) driven: Driven<Pending, LeaseState>,
    /// The operation that is starting now. Most end at once, so they don't need a place in the map.
    pub(super) starting: Option<(OpId, Call<Pending>)>,
    /// Whether the driver was notified and has not run since.
    pub(super) driver_notified: bool,
    /// Whether the client is closing, so that its leases are being released.
    closing: bool,
}

/// What the engine doesn't know about an operation.
pub(super) struct Pending {
    /// The lock, if the operation is an acquire.
    pub(super) lock: Option<Named>,
    /// How it is to hold that lock.
    pub(super) mode: Mode,
    /// When it began.
    pub(super) since: Instant,
    pub(super) waker: Option<Waker>,
    /// What an observation has learned last, if its caller has not fetched that yet.
    pub(super) leader: Option<Option<Elected>>,
}

/// The leader of an election, as it was when an observation learned of it.
pub(crate) struct Elected {
    pub(crate) leader: Leader,
    /// Since when it leads, by this machine's clock.
    pub(crate) since: SystemTime,
}

/// What the engine doesn't know about a lease. Dropped with the last hold.
pub(super) struct LeaseState {
    lock: Option<Named>,
    /// When it was granted.
    pub(super) since: Instant,
    /// Created when a task first asks to be notified.
    pub(super) loss_sender: Option<LossSender>,
    /// Created when a token is first asked for, and dropped when the lease ends.
    pub(super) ending: Option<Ending>,
    /// When the lease was lost.
    pub(super) lost_at: Option<Instant>,
}

impl LeaseState {
    const fn new(lock: Option<Named>, since: Instant) -> Self {
        Self { lock, since, loss_sender: None, ending: None, lost_at: None }
    }
}

/// The locks that a client has and wants, by name and mode.
pub(crate) struct Listed {
    pub(crate) held: Vec<(Arc<str>, Mode)>,
    pub(crate) pending: Vec<(Arc<str>, Mode)>,
    pub(crate) lingering: Vec<(Arc<str>, Mode)>,
}

/// Notifies the tasks that watch a lease.
pub(super) type LossSender = watch::Sender<Option<LossReason>>;

/// What to do after the mutex is unlocked, because wakers, watchers and loggers run foreign code.
#[derive(Default)]
#[must_use = "tasks wait for it"]
pub(super) struct Deferred {
    pub(super) notify_driver: bool,
    /// The holders have had their time, so the client closes.
    pub(super) drained: bool,
    pub(super) wakers: Few<Waker>,
    pub(super) losses: Vec<(Option<Arc<str>>, Option<LossSender>, LossReason)>,
    /// The endings of lost leases.
    pub(super) endings: Vec<Ending>,
    /// Locks whose key has no TTL, and for how long callers have found it.
    pub(super) blocked: Vec<(String, Duration)>,
}

/// A list that allocates nothing for its first value. A hand-over wakes one task.
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
        Self { clock, driven: Driven::new(engine, labels), starting: None, driver_notified: false, closing: false }
    }

    /// The driver has no other input, so what the engine has to send leaves now. Moves it to `commands` if these are only
    /// commands. Otherwise, the driver does all of it.
    pub(super) fn take_commands(&mut self, now: Instant, deferred: &mut Deferred, commands: &mut Vec<Output>) {
        self.driven.handle(now, Input::Wake);
        self.drain_outputs(now, deferred);
        if self.driven.outbox.outputs.iter().all(|output| matches!(output, Output::Send { .. })) {
            commands.append(&mut self.driven.outbox.outputs);
        }
    }

    pub(super) fn drain_outputs(&mut self, now: Instant, deferred: &mut Deferred) {
        while let Some(event) = self.driven.poll(|| self.clock.now()) {
            match event {
                Event::Completed { op, result } => {
                    deferred.drained |= !self.closing && matches!(result, Ok(Outcome::Drained));
                    self.complete(now, op, result, deferred);
                }
                // `lose_all` or `stop` has reported every lease.
                Event::Lost { .. } if self.closing || self.driven.stopped => {}
                Event::Lost { lease, reason } => self.notify_loss(lease, reason, deferred),
                Event::Leader { op, leader } => self.learn(op, leader, deferred),
                Event::Asked(question) => self.answer(now, &question),
            }
        }
        while let Some(blocked) = self.driven.labels.as_mut().and_then(Labels::poll_blocked) {
            deferred.blocked.push(blocked);
        }
    }

    /// Tells what this client has of a lock.
    #[inline(never)]
    fn answer(&mut self, now: Instant, question: &Question) {
        let Driven { labels: Some(labels), leases, calls, .. } = &mut self.driven else { return };
        fn found<'a>(lock: &'a Option<Named>, since: Instant, name: &str) -> Option<(Instant, Option<&'a str>)> {
            Some((since, lock.as_ref()?.lease_of(name)?))
        }
        let leases = leases.values().map(|lease| found(&lease.lock, lease.since, question.name()));
        let waits = calls.values().filter(|call| call.result.is_none()).map(|call| &call.kept);
        labels.answer(now, question, leases, waits.map(|wait| found(&wait.lock, wait.since, question.name())));
    }

    /// The locks of this client, each in the order of their calls.
    pub(super) fn list(&self) -> Listed {
        let Driven { engine, leases, calls, .. } = &self.driven;
        let mut held: Vec<_> = leases.iter().collect();
        held.sort_unstable_by_key(|(id, _)| **id);
        let held = held.into_iter().filter_map(|(id, lease)| {
            let info = engine.lease(*id).filter(|_| self.loss(*id).is_none())?;
            Some((Arc::clone(&lease.lock.as_ref()?.name), info.mode))
        });
        let mut pending: Vec<_> = calls.iter().filter(|(_, call)| call.result.is_none()).collect();
        pending.sort_unstable_by_key(|(op, _)| **op);
        let pending = pending.into_iter().map(|(_, call)| &call.kept);
        let pending = pending.filter_map(|wait| Some((Arc::clone(&wait.lock.as_ref()?.name), wait.mode)));
        let lingering = engine.lingering().into_iter().map(|(name, mode)| (Arc::from(name), mode));
        Listed { held: held.collect(), pending: pending.collect(), lingering: lingering.collect() }
    }

    /// Who holds a lock that a caller did not get.
    pub(super) fn holder(&self, name: &str) -> Option<BusyHolder> {
        let labels = self.driven.labels.as_ref()?;
        // A caller of this client has it, or the holder is unknown. A long search is not worth it.
        let is_of = |lease: &LeaseState| lease.lock.as_ref().is_some_and(|lock| &*lock.name == name);
        let here = || self.driven.leases.values().take(1000).any(is_of);
        labels.holder(self.clock.now(), name).or_else(|| here().then(|| labels.own()))
    }

    // Separate from the loop, which mostly finds nothing to take.
    #[inline(never)]
    fn complete(&mut self, now: Instant, op: OpId, result: CallResult, deferred: &mut Deferred) {
        let Driven { engine, labels, calls, leases, .. } = &mut self.driven;
        // If the future was dropped, nobody needs the result. An acquire was cancelled then, so it got no lease.
        let starting = self.starting.as_mut().filter(|(starting, _)| *starting == op).map(|(_, call)| call);
        let Some(Call { kept, result: place, .. }) = starting.or_else(|| calls.get_mut(&op)) else { return };
        if let Some(grant) = result.as_ref().ok().and_then(Outcome::grant) {
            let lock = kept.lock.take();
            // The permits of a rate are no lease.
            let is_held = engine.lease(grant.lease).is_some();
            if let (Some(labels), Some(lock)) = (labels, &lock) {
                labels.granted(&lock.name);
                if is_held {
                    labels.holds(now);
                }
            }
            if is_held {
                // The owner of a reentrant lock may get a lease that it already has.
                leases.entry(grant.lease).or_insert(LeaseState::new(lock, now));
            }
        }
        *place = Some(result);
        if let Some(waker) = kept.waker.take() {
            deferred.wakers.push(waker);
        }
    }

    /// An observation has learned who leads.
    #[inline(never)]
    fn learn(&mut self, op: OpId, leader: Option<Leader>, deferred: &mut Deferred) {
        let starting = self.starting.as_mut().filter(|(starting, _)| *starting == op).map(|(_, call)| call);
        let Some(call) = starting.or_else(|| self.driven.calls.get_mut(&op)) else { return };
        let now = SystemTime::now();
        call.kept.leader = Some(leader.map(|leader| {
            let since = now.checked_sub(leader.led).unwrap_or(now);
            Elected { leader, since }
        }));
        if let Some(waker) = call.kept.waker.take() {
            deferred.wakers.push(waker);
        }
    }

    fn notify_loss(&mut self, lease: LeaseId, reason: LossReason, deferred: &mut Deferred) {
        let now = self.clock.now();
        let Some(LeaseState { lock, loss_sender, ending, lost_at, .. }) = self.driven.leases.get_mut(&lease) else {
            return;
        };
        *lost_at = Some(now);
        deferred.endings.extend(ending.take());
        let name = lock.as_ref().map(|lock| Arc::clone(&lock.name));
        deferred.losses.push((name, loss_sender.clone(), reason));
    }

    /// How a lease was lost. None if it wasn't.
    pub(super) fn loss(&self, lease: LeaseId) -> Option<LossReason> {
        let info = self.driven.engine.lease(lease);
        let lost = info.as_ref().and_then(|lease| lease.lost);
        if self.closing {
            // After a close, the engine knows only the leases that were lost before the close.
            return self.driven.leases.contains_key(&lease).then(|| lost.unwrap_or(LossReason::Closed));
        }
        // Nothing renews a lease after the driver has stopped.
        lost.or(info.filter(|_| self.driven.stopped).map(|_| LossReason::Expired))
    }

    /// The driver has stopped. Fails the pending operations, and reports the leases as lost, because nothing renews them.
    pub(super) fn stop(&mut self, now: Instant, deferred: &mut Deferred) {
        if !self.driven.outbox.closed {
            self.driven.unreleased = self.driven.engine.unreleased(now);
        }
        self.driven.stop();
        self.driven
            .calls
            .values_mut()
            .filter_map(|call| call.kept.waker.take())
            .for_each(|it| deferred.wakers.push(it));
        if !self.closing {
            self.notify_losses(LossReason::Expired, deferred);
        }
    }

    /// Reports every lease as lost. After that, a close releases them.
    pub(super) fn lose_all(&mut self, now: Instant, deferred: &mut Deferred) {
        if self.closing || self.driven.stopped {
            return;
        }
        // The engine reports the leases that have expired before, with their own reason.
        self.driven.engine.handle(now, Input::Wake);
        self.drain_outputs(now, deferred);
        self.notify_losses(LossReason::Closed, deferred);
        self.closing = true;
    }

    fn notify_losses(&mut self, reason: LossReason, deferred: &mut Deferred) {
        let Driven { engine, leases, .. } = &self.driven;
        let is_held = |id: &LeaseId| engine.lease(*id).is_some_and(|lease| lease.lost.is_none());
        let held: Vec<LeaseId> = leases.keys().copied().filter(is_held).collect();
        held.into_iter().for_each(|lease| self.notify_loss(lease, reason, deferred));
    }

    /// When to wake the engine and the labels at the latest.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let engine = self.driven.engine.poll_timeout().map(|(at, _)| at);
        let labels = self.driven.labels.as_ref().and_then(|labels| labels.poll_timeout(self.driven.uses_locks()));
        engine.into_iter().chain(labels).min()
    }

    /// Notifies the driver if there is something to do before it wakes by itself.
    pub(super) fn notify_driver_if_needed(&mut self, deferred: &mut Deferred) {
        if !self.driver_notified && self.driven.outbox.is_due(self.poll_timeout()) {
            self.driver_notified = true;
            deferred.notify_driver = true;
        }
    }
}
