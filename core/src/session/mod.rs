//! What all state machines share: the current time, the outputs, timers, users' calls, commands in flight, leases and
//! releases. Knows nothing about who is granted a lock.

mod commands;
mod flow;
mod gather;
mod giving_back;
mod holds;
mod id_map;
mod lease;
mod name_hash;
mod names;
mod op;
mod pause;
mod random;
mod release;
mod request;
mod slab;
mod subscription;
mod subscription_state;
mod timers;
mod unanswered;

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use self::flow::Flows;
use self::giving_back::Release;
use self::op::Op;
use self::random::Random;
use self::timers::Timers;
use self::unanswered::Unanswered;
use crate::error::{Error, LossReason};
use crate::event::{Outcome, Output};
use crate::ids::{Caller, ClientId, LeaseId, NodeId, PartId, Token};
use crate::options::{AcquireOptions, Config, Family, Wait, check_drain};
use crate::server::DeleteIfEqual;
use crate::time::{Duration, Instant};
use crate::wire::FenceCounter;

pub(crate) use commands::{has_fast_path, has_fast_script};
pub(crate) use flow::needed;
pub(crate) use giving_back::{ReleaseParams, ToStore};
pub(crate) use id_map::IdMap;
pub use lease::Renewal;
pub(crate) use lease::{Lease, Leased, covering, drift, margin, ttl_of};
pub(crate) use name_hash::NameHash;
pub(crate) use names::Names;
pub(crate) use op::{Gather, OpKind, PartEvent};
pub use pause::MOST_PAUSES;
pub(crate) use pause::late;
pub(crate) use request::{Acquire, AcquireMode, Body, Convert, Form, Old, Purpose, Queued, Renew, Request};
pub(crate) use slab::Slab;
pub(crate) use subscription_state::Subscription;
pub(crate) use timers::{Slot, Timer};
pub(crate) use unanswered::{InFlight, SentCommand};

/// The users' calls that have not ended.
pub(crate) type OpenCalls = IdMap<Caller, Op>;

#[derive(Clone, Hash)]
pub(crate) struct Context {
    pub(crate) now: Instant,
    /// The client's id as text. Every token begins with it.
    pub(crate) client: String,
    pub(crate) config: Config,
    pub(crate) claim_window: Duration,
    pub(crate) response_timeout: Duration,
    pub(crate) outputs: VecDeque<Output>,
    /// What happened to parts of calls and leases, and is not gathered yet.
    pub(crate) parts: Vec<(PartId, PartEvent)>,
    pub(crate) timers: Timers,
    pub(crate) unanswered: Unanswered,
    pub(crate) flows: Flows,
    pub(crate) counter: FenceCounter,
    /// The server's command for a release that is alone. Without it, that is a script.
    pub(crate) delete_if_equal: Option<DeleteIfEqual>,
    pub(crate) ops: OpenCalls,
    pub(crate) leases: IdMap<LeaseId, Lease>,
    /// The users' leases that were lost and have holds that are not released yet.
    lost: IdMap<LeaseId, Lease>,
    pub(crate) releases: IdMap<Token, Release>,
    /// How many of the releases were sent at least once without an answer.
    owed: usize,
    /// How many of the releases are for tokens that were held until they were given back, and may still be confirmed. And
    /// how many leases are being detached.
    unreleased: u32,
    /// When the server last confirmed the release of such a token.
    last_released: Instant,
    /// When this process last resumed after a pause, during which it read no answers. And when it resumed before that.
    resumed: Instant,
    resumed_before: Instant,
    pub(crate) subscription: Subscription,
    pub(crate) random: Random,
    /// Whether no further lease is granted: the client drains or is closed.
    pub(crate) draining: bool,
    pub(crate) closed: bool,
    /// How many leases wait for replicas, so that no caller has them. Known when the client is closed.
    pub(crate) unconfirmed: usize,
    /// How many leases were held by callers when the client was closed.
    pub(crate) lost_by_close: u32,
    /// The time limit for calls that don't wait.
    pub(crate) patience: Duration,
    /// How many fences an acquire for a single caller reserves.
    pub(crate) least_block: u64,
    /// Whether waiters queue here for the locks of a quorum.
    #[cfg(feature = "quorum")]
    pub(crate) has_queue: bool,
    /// Whether the current input is about a lock of a quorum that other clients want. Its fast path would do nothing.
    #[cfg(feature = "quorum")]
    pub(crate) is_contended: bool,
    last_token: u64,
    last_lease: u64,
}

impl Context {
    pub(crate) fn new(client: ClientId, config: Config) -> Self {
        let seed = client.seed();
        let response_timeout = config.response_timeout.into();
        Self {
            now: Instant::default(),
            client: client.text(),
            outputs: VecDeque::new(),
            parts: Vec::new(),
            timers: Timers::default(),
            patience: response_timeout,
            least_block: 1,
            #[cfg(feature = "quorum")]
            has_queue: false,
            #[cfg(feature = "quorum")]
            is_contended: false,
            unanswered: Unanswered::new(response_timeout),
            flows: Flows::new(config.max_in_flight),
            counter: FenceCounter::Server("leasehold:fence"),
            delete_if_equal: None,
            claim_window: config.claim_window.into(),
            response_timeout,
            config,
            ops: IdMap::default(),
            leases: IdMap::default(),
            lost: IdMap::default(),
            releases: IdMap::default(),
            owed: 0,
            unreleased: 0,
            last_released: Instant::default(),
            resumed: Instant::default(),
            resumed_before: Instant::default(),
            subscription: Subscription::new(),
            random: Random::new(seed),
            draining: false,
            closed: false,
            unconfirmed: 0,
            lost_by_close: 0,
            last_token: 0,
            last_lease: 0,
        }
    }

    /// Whether the server is one of a quorum. Only there, an acquire for a single caller reserves several fences.
    #[cfg(feature = "quorum")]
    pub(crate) const fn is_of_quorum(&self) -> bool {
        self.least_block > 1
    }

    /// Whether waiters poll, on equal terms with clients of other libraries.
    pub(crate) fn is_mixed(&self, family: Family) -> bool {
        self.config.mixed_fleet || family == Family::Reentrant
    }

    /// Names can be on different servers of a cluster.
    pub(crate) fn set_cluster(&mut self) {
        self.flows.by_slot();
        self.counter = FenceCounter::Slots("leasehold:fence:");
    }

    /// The server has this command. The servers of a cluster may have different versions.
    pub(crate) fn set_delete_if_equal(&mut self, how: Option<DeleteIfEqual>) {
        self.delete_if_equal = how.filter(|_| matches!(self.counter, FenceCounter::Server(_)));
    }

    pub(crate) fn new_token(&mut self) -> Token {
        self.last_token = self.last_token.saturating_add(1);
        Token(self.last_token)
    }

    /// Whether a token is being given back, or was never used.
    pub(crate) fn is_given_up_or_new(&self, token: Token) -> bool {
        token.0 > self.last_token || self.releases.contains_key(&token)
    }

    pub(crate) fn new_lease(&mut self) -> LeaseId {
        self.last_lease = self.last_lease.saturating_add(1);
        LeaseId(self.last_lease)
    }

    /// The client's own channel.
    fn channel(&self) -> String {
        ["leasehold:", &self.client].concat()
    }

    /// Sends a command now, or queues it until there is room. `soon` is how soon it is needed. Returns true
    /// if it has left: the caller then updates its state. For a queued command,
    /// [`Client::pump`](crate::client::Client::pump) does that later.
    pub(crate) fn send(&mut self, soon: Duration, purpose: Purpose, request: Request) -> bool {
        match self.flows.room(purpose, &request) {
            Some(flow) => {
                self.transmit(flow, purpose, Form::Digest, request);
                true
            }
            None => {
                let due = self.now + soon;
                self.flows.push(self.now, due, Queued::new(purpose, request));
                false
            }
        }
    }

    /// As [`send`](Self::send), for a request that tries its fast path first, and may share a batch with others:
    /// see `client/batch.rs`.
    pub(crate) fn send_fast(&mut self, soon: Duration, purpose: Purpose, request: Request) -> bool {
        #[cfg(feature = "quorum")]
        if self.is_contended {
            return self.send(soon, purpose, request);
        }
        // The renewal of a lease that ends soon doesn't wait for others, nor for replies that may be lost.
        if !self.config.batches || soon < needed::HEARTBEAT {
            return self.send(soon, purpose, request);
        }
        let entry = Queued::new(purpose, request);
        // Releases go first: what leaves at the same moment may want the same name.
        let soon = if matches!(purpose, Purpose::Release { .. }) { needed::NONE } else { soon };
        self.flows.push_to_batch(self.now, self.now + soon, entry);
        false
    }

    /// Sends a batch, or the fast path of a single request. Some have no use for that.
    pub(crate) fn transmit_batch(&mut self, flow: u8, form: Form, mut entries: Vec<Queued>) {
        if let [entry] = entries.as_slice()
            && self.skips_fast_path(entry.purpose)
        {
            let Some(entry) = entries.pop() else { return };
            return self.transmit(flow, entry.purpose, Form::Digest, entry.request);
        }
        let Some(name) = entries.first().map(|entry| entry.request.name.clone()) else { return };
        // Leases and batches share a counter.
        self.new_lease();
        self.transmit(flow, Purpose::Batch, form, Request { name, body: Body::Batch(entries) });
    }

    /// Whether a request that is the only entry is sent to its own script at once. A renewal is, because the server may
    /// know that script. A release is if others may wait, and this client learns of them only from time to time.
    const fn skips_fast_path(&self, purpose: Purpose) -> bool {
        #[cfg(feature = "quorum")]
        if self.has_queue && matches!(purpose, Purpose::Release { .. }) {
            return true;
        }
        matches!(purpose, Purpose::Renew { .. })
    }

    /// The user's call that a command is for, if it has a time limit of its own.
    pub(crate) fn call_behind(&self, purpose: Purpose) -> Option<Caller> {
        match purpose {
            Purpose::Renew { op, .. } => op,
            Purpose::Inspect { op } | Purpose::Force { op } => Some(op),
            Purpose::Release { token } => self.releases.get(&token).and_then(|release| release.op),
            _ => None,
        }
    }

    /// Whether a user's call that has not ended is a release.
    pub(crate) fn is_release(&self, op: Caller) -> bool {
        matches!(self.ops.get(&op).map(|op| &op.kind), Some(OpKind::Release { .. }))
    }

    /// A user's call sends another command. The time of the one before says nothing about this one.
    pub(crate) fn sends_another(&mut self, op: Caller) {
        if let Some(open) = self.ops.get_mut(&op) {
            open.sent = None;
        }
    }

    pub(crate) fn transmit(&mut self, flow: u8, purpose: Purpose, form: Form, request: Request) {
        let command = self.command(form, &request);
        let id = self.unanswered.open(SentCommand { at: self.now, purpose, form, flow }, request);
        self.flows.sent(flow);
        self.outputs.push_back(Output::Send { id, node: NodeId(0), command });
    }

    /// Opens a user's call that can't be answered at once. `patience` is its time limit.
    pub(crate) fn open(&mut self, op: Caller, kind: OpKind, patience: Option<Duration>) {
        let since = self.now;
        let mut open = Op { since, ends: None, again: None, failures: 0, sent: None, bounded: false, pauses: 0, kind };
        self.timers.set(Timer::OpEnds(op), &mut open.ends, patience.map(|patience| since + patience));
        self.ops.insert(op, open);
    }

    /// Opens an acquire, and records whether its caller set the time limit.
    pub(crate) fn open_acquire(
        &mut self,
        op: Caller,
        kind: OpKind,
        patience: Option<Duration>,
        options: &AcquireOptions,
    ) {
        self.open(op, kind, patience);
        if (options.within.is_some() || options.wait != Wait::No)
            && let Some(open) = self.ops.get_mut(&op)
        {
            open.bounded = true;
        }
    }

    /// A command of a user's call has left.
    pub(crate) fn op_sent(&mut self, op: Caller) {
        let now = self.now;
        if let Some(open) = self.ops.get_mut(&op) {
            open.sent.get_or_insert(now);
        }
    }

    /// Answers a user's call that was never opened.
    pub(crate) fn answer(&mut self, op: Caller, result: Result<Outcome, Error>) {
        match op {
            Caller::User(op) => self.outputs.push_back(Output::Completed { op, result }),
            Caller::Part(part) => self.parts.push((part, PartEvent::Ended(result))),
        }
    }

    /// Answers a user's call that was never opened with an error.
    #[inline(never)]
    pub(crate) fn refuse(&mut self, op: Caller, error: Error) {
        self.answer(op, Err(error));
    }

    /// The time limit for calls that don't wait.
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// Ends a user's call, unless it has already ended.
    pub(crate) fn complete(&mut self, op: Caller, result: Result<Outcome, Error>) {
        if self.close_op(op) {
            self.answer(op, result);
        }
    }

    /// Ends a user's call with an error, unless it has already ended.
    #[inline(never)]
    pub(crate) fn fail(&mut self, op: Caller, error: Error) {
        self.complete(op, Err(error));
    }

    /// Removes a user's call. The caller of this function answers it. False if it has already ended.
    pub(crate) fn close_op(&mut self, op: Caller) -> bool {
        let Some(mut ended) = self.ops.remove(&op) else { return false };
        self.timers.set(Timer::OpEnds(op), &mut ended.ends, None);
        self.timers.set(Timer::OpAgain(op), &mut ended.again, None);
        true
    }

    /// Sets the time limit of a user's call.
    pub(crate) fn limit_op(&mut self, op: Caller, patience: Duration) {
        if let Some(open) = self.ops.get_mut(&op) {
            self.timers.set(Timer::OpEnds(op), &mut open.ends, Some(self.now + patience));
        }
    }

    /// No further lease is granted from now on. False if the call ends at once, because the time is out of its bounds.
    pub(crate) fn begin_drain(&mut self, op: Caller, grace: Duration) -> bool {
        if let Err(error) = check_drain(grace) {
            self.refuse(op, error);
            return false;
        }
        self.draining = true;
        self.open(op, OpKind::Drain, Some(grace));
        true
    }

    /// The client is closed from now on. What it holds is about to be released.
    pub(crate) fn begin_close(&mut self) {
        (self.draining, self.closed) = (true, true);
        let held = self.leases.values().filter(|lease| matches!(lease.caller, Caller::User(_))).count();
        let lost = held.saturating_sub(self.unconfirmed);
        self.lost_by_close = self.lost_by_close.saturating_add(u32::try_from(lost).unwrap_or(u32::MAX));
    }

    /// Ends the drains once no lease is held.
    pub(crate) fn end_drain(&mut self) {
        if !self.draining || !self.leases.is_empty() {
            return;
        }
        while let Some(op) = self.ops.first(|open| matches!(open.kind, OpKind::Drain)) {
            self.complete(op, Ok(Outcome::Drained));
        }
    }

    /// Ends the close calls once every token is given back or can't be. Tokens that were never held get only a short
    /// time, because the server forgets them by itself. But until it has, the next waiter may wait for them.
    pub(crate) fn end_close(&mut self) {
        if !self.closed || self.unreleased > 0 {
            return;
        }
        while let Some(op) = self.ops.first(|open| matches!(open.kind, OpKind::Close)) {
            // Two round trips (the server may lack the script), on a busy machine.
            let brief = self.flows.resend_after(1, Duration::from_millis(100)).min(self.response_timeout);
            let spent = self.ops.get(&op).map_or(brief, |open| self.now.time_since(open.since));
            let pending = || self.releases.values().any(|release| !release.refused);
            if spent < brief && pending() && self.flows.failure_since(Instant::default()).is_none() {
                return self.limit_op(op, brief.saturating_sub(spent));
            }
            self.complete_close(op);
        }
    }

    /// The time limit of a close is over. It is extended as long as the server keeps confirming releases.
    pub(crate) fn close_ends(&mut self, op: Caller, since: Instant) {
        let ends = self.last_released.max(since) + self.patience();
        if self.unreleased > 0 && ends > self.now {
            return self.limit_op(op, ends.time_since(self.now));
        }
        self.complete_close(op);
    }

    fn complete_close(&mut self, op: Caller) {
        self.complete(op, Ok(Outcome::Closed { lost: self.lost_by_close, unreleased: self.unreleased() }));
    }

    /// A lease is being detached. A close waits for that.
    pub(crate) fn begin_detaching(&mut self) {
        self.unreleased = self.unreleased.saturating_add(1);
    }

    pub(crate) fn end_detaching(&mut self) {
        self.unreleased = self.unreleased.saturating_sub(1);
        self.end_close();
    }

    /// How many leases were given back without the server's confirmation.
    pub(crate) fn unreleased(&self) -> u32 {
        let leases = self.releases.values().filter(|release| release.is_a_lease()).count();
        u32::try_from(leases).unwrap_or(u32::MAX)
    }

    /// Removes a lease, and ends the calls that wait for it.
    pub(crate) fn end_lease(&mut self, id: LeaseId, error: &Error) -> Option<Lease> {
        let mut lease = self.leases.remove(&id)?;
        self.timers.set(Timer::LeaseEnds(id), &mut lease.ends, None);
        for op in core::mem::take(&mut lease.pending) {
            self.fail(op, error.clone());
        }
        self.end_drain();
        Some(lease)
    }

    /// Notifies the holder that its lease was lost.
    pub(crate) fn lose_lease(&mut self, id: LeaseId, reason: LossReason) {
        if let Some(mut lease) = self.end_lease(id, &Error::Lost(reason)) {
            match lease.caller {
                Caller::User(_) => {
                    lease.lost = Some(reason);
                    self.lost.insert(id, lease);
                    self.outputs.push_back(Output::Lost { lease: id, reason });
                }
                Caller::Part(part) => self.parts.push((part, PartEvent::Lost(reason))),
            }
        }
    }
}
