//! What a manager's calls, leases and driver share: the engine, the waiting calls and the held leases.

use alloc::string::String;
use alloc::vec::Vec;

use core::task::Waker;
use core::time::Duration;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use leasehold_core::{
    Clock, Command, CommandId, Engine, Error, Grant, Input, Instant, LeaseId, LossReason, NodeId, OpId, Outcome, Output,
};

use crate::limits::Taken;

/// Keyed by our own numbers, which no outsider chooses.
pub(crate) type Table<K, V> = HashMap<K, V, FixedState>;

/// The result of a call, as the engine gives it.
pub(crate) type CallResult = Result<Outcome, Error>;

pub(crate) struct State {
    pub(crate) engine: Engine,
    pub(crate) clock: Clock,
    pub(crate) calls: Table<OpId, Waiting>,
    pub(crate) held: Table<LeaseId, Held>,
    pub(crate) work: Work,
    /// Wakes the driver. None while it is awake.
    pub(crate) driver: Option<Waker>,
    /// The tasks to wake once the state is no longer borrowed.
    pub(crate) wakers: Vec<Waker>,
    /// Whether the driver has stopped. Then nothing is sent any more.
    pub(crate) ended: bool,
    last: u64,
}

/// A call that the engine has not ended, or whose result was not fetched yet.
#[derive(Default)]
pub(crate) struct Waiting {
    /// For an acquire: the lock that it asks for.
    pub(crate) wanted: Option<Wanted>,
    pub(crate) wakers: Vec<Waker>,
    pub(crate) result: Option<CallResult>,
    /// Its part of the limit, until it has ended.
    pub(crate) taken: Option<Taken>,
}

/// What a lease keeps from the call that acquired it.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) ttl: Duration,
    pub(crate) max_hold: Option<Duration>,
}

/// What the engine doesn't know about a lease, as long as there is a handle to it.
pub(crate) struct Held {
    pub(crate) lost: Option<LossReason>,
    ttl: Duration,
    /// When `max-hold-ms` ends it.
    limit: Option<Instant>,
    /// The validity that was promised with the grant.
    due: Instant,
    /// The running calls of `hold`, and when each ends.
    keepers: Vec<(u64, Instant)>,
    pub(crate) watchers: Vec<Waker>,
}

/// The driver's work.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) sends: Vec<(NodeId, CommandId, Command)>,
    /// Channels to subscribe to (true) or to unsubscribe from (false), in this order.
    pub(crate) subscriptions: Vec<(String, bool)>,
    /// When to wake the engine at the latest.
    pub(crate) wake_at: Option<Instant>,
    /// The engine is closed and nothing is left to do.
    pub(crate) closed: bool,
}

impl State {
    pub(crate) fn new(engine: Engine) -> Self {
        Self {
            engine,
            clock: Clock::default(),
            calls: Table::default(),
            held: Table::default(),
            work: Work::default(),
            driver: None,
            wakers: Vec::new(),
            ended: false,
            last: 0,
        }
    }

    /// A number that was not given out before.
    pub(crate) fn next(&mut self) -> u64 {
        self.last = self.last.saturating_add(1);
        self.last
    }

    pub(crate) fn sort_outputs(&mut self, now: Instant) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Send { id, node, command } => self.work.sends.push((node, id, command)),
                // A quorum subscribes to nothing.
                Output::Subscribe { node: _, channel } => self.work.subscriptions.push((channel, true)),
                Output::Unsubscribe { node: _, channel } => self.work.subscriptions.push((channel, false)),
                Output::Completed { op, result } => self.complete(now, op, result),
                Output::Lost { lease, reason } => self.lose(now, lease, reason),
                // No call of the contract waits for replicas.
                Output::SendDedicated { .. } | Output::CloseDedicated { .. } => {}
            }
        }
    }

    fn complete(&mut self, now: Instant, op: OpId, result: CallResult) {
        self.work.closed |= matches!(result, Ok(Outcome::Closed { .. }));
        // If the caller has gone, nobody needs the result. An acquire was cancelled then, so it got no lease.
        let Some(waiting) = self.calls.get_mut(&op) else { return };
        let grant = result.as_ref().ok().and_then(Outcome::grant);
        waiting.result = Some(result);
        waiting.taken = None;
        self.wakers.append(&mut waiting.wakers);
        if let (Some(grant), Some(wanted)) = (grant, waiting.wanted.take()) {
            self.begin_lease(now, &grant, wanted);
        }
    }

    fn begin_lease(&mut self, now: Instant, grant: &Grant, wanted: Wanted) {
        let Wanted { ttl, max_hold } = wanted;
        // Nearly the whole TTL is good enough. A grant by message is valid for less, and is renewed once.
        let nearly = now + ttl / 3 * 2;
        let due = if grant.valid_until >= nearly { grant.valid_until } else { now + ttl };
        if let Some(held) = self.held.get_mut(&grant.lease) {
            // The owner of a reentrant lock gets the lease that it already has, for as long as it asks for now.
            held.due = held.due.max(due);
            return self.keep(now, grant.lease);
        }
        let held = Held {
            lost: None,
            ttl,
            limit: max_hold.map(|limit| now + limit),
            due,
            keepers: Vec::new(),
            watchers: Vec::new(),
        };
        self.held.insert(grant.lease, held);
        self.keep(now, grant.lease);
    }

    /// Tells the engine how long to renew the lease: while a `hold` runs, and up to what was promised.
    fn keep(&mut self, now: Instant, lease: LeaseId) {
        let Some(held) = self.held.get(&lease) else { return };
        let Some(valid_until) = self.engine.valid_until(lease) else { return };
        let kept = held.keepers.iter().map(|(_, until)| *until + held.ttl).max();
        let until = kept.unwrap_or(valid_until).max(valid_until).max(held.due);
        let until = held.limit.map_or(until, |limit| until.min(limit));
        self.engine.handle(now, Input::Keep { lease, until });
    }

    /// Registers a running `hold`. Returns the number with which to remove it.
    pub(crate) fn add_keeper(&mut self, now: Instant, lease: LeaseId, until: Instant) -> u64 {
        let keeper = self.next();
        if let Some(held) = self.held.get_mut(&lease) {
            held.keepers.push((keeper, until));
        }
        self.keep(now, lease);
        keeper
    }

    pub(crate) fn remove_keeper(&mut self, now: Instant, lease: LeaseId, keeper: u64) {
        if let Some(held) = self.held.get_mut(&lease) {
            held.keepers.retain(|(other, _)| *other != keeper);
        }
        self.keep(now, lease);
    }

    fn lose(&mut self, now: Instant, lease: LeaseId, reason: LossReason) {
        let Some(held) = self.held.get_mut(&lease) else { return };
        // The engine reports every end that it was given as `max-hold`.
        let limited = held.limit.is_some_and(|limit| limit <= now);
        let reason = if reason == LossReason::MaxHold && !limited { LossReason::Expired } else { reason };
        held.lost = Some(reason);
        self.wakers.append(&mut held.watchers);
    }

    /// The driver has stopped: fails the pending calls and ends the leases.
    pub(crate) fn end(&mut self, now: Instant) {
        self.ended = true;
        for waiting in self.calls.values_mut() {
            waiting.result.get_or_insert(Err(Error::Closed));
            self.wakers.append(&mut waiting.wakers);
        }
        let held: Vec<_> = self.held.iter().filter(|(_, held)| held.lost.is_none()).map(|(lease, _)| *lease).collect();
        for lease in held {
            self.lose(now, lease, LossReason::Expired);
        }
    }

    pub(crate) fn release(&mut self, now: Instant, op: OpId, lease: LeaseId) {
        self.engine.handle(now, Input::Release { op, lease });
        if let Some(held) = self.held.get_mut(&lease) {
            self.wakers.append(&mut held.watchers);
        }
        if self.engine.lease(lease).is_none() {
            self.held.remove(&lease);
        }
    }

    pub(crate) fn wake_driver_if_needed(&mut self) {
        if self.needs_driver() {
            self.wakers.extend(self.driver.take());
        }
    }

    /// Whether something can't wait until `wake_at`, when the driver wakes by itself.
    pub(crate) fn needs_driver(&self) -> bool {
        let sooner = match (self.engine.poll_timeout(), self.work.wake_at) {
            (Some((at, _)), Some(wake_at)) => at < wake_at,
            (wanted, _) => wanted.is_some(),
        };
        sooner || !self.work.sends.is_empty() || !self.work.subscriptions.is_empty() || self.work.closed
    }
}
