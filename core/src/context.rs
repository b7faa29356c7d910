//! What every machine of the engine works with: the present time, the outputs, and what is shared between names.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use core::time::Duration;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::calls::{Call, Calls, Purpose};
use crate::command::Command;
use crate::error::{Error, LossReason};
use crate::event::{LeaseId, NodeId, OpId, Outcome, Output};
use crate::flow::Flows;
use crate::lease::Lease;
use crate::mutant::Mutant;
use crate::numbering::ByNumber;
use crate::op::{Op, OpKind};
use crate::options::{AcquireOptions, Config, Family};
use crate::random::Random;
use crate::releases::Release;
use crate::several::INNER;
use crate::subscription::Subscription;
use crate::time::Instant;
use crate::timers::{Timer, Timers};
use crate::token::{ClientId, Token};

/// A name in use. Numbers are used again; tokens tell a later user from an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ResourceId(pub(crate) u32);

pub(crate) type Table<K, V> = HashMap<K, V, FixedState>;

pub(crate) struct Context {
    pub(crate) now: Instant,
    /// The client's id as text, which every token begins with.
    pub(crate) client: String,
    pub(crate) config: Config,
    pub(crate) outputs: VecDeque<Output>,
    /// What is told to the engine's own callers, see [`INNER`](crate::several::INNER).
    pub(crate) inner: VecDeque<Output>,
    pub(crate) timers: Timers,
    pub(crate) calls: Calls,
    pub(crate) flows: Flows,
    pub(crate) ops: HashMap<OpId, Op, ByNumber>,
    pub(crate) leases: HashMap<LeaseId, Lease, ByNumber>,
    pub(crate) releases: HashMap<Token, Release, ByNumber>,
    /// How many of these were sent in vain at least once.
    pub(crate) owed: usize,
    /// How many of these held until they were given back.
    pub(crate) unreleased: u32,
    /// When the server last confirmed that one is given back.
    pub(crate) last_released: Instant,
    pub(crate) subscription: Subscription,
    pub(crate) random: Random,
    pub(crate) closed: bool,
    #[cfg(feature = "mutants")]
    pub(crate) mutant: Option<Mutant>,
    /// How long a call that is no wait goes on trying.
    pub(crate) patience: Duration,
    last_token: u64,
    last_lease: u64,
}

impl Context {
    pub(crate) fn new(client: ClientId, config: Config) -> Self {
        let seed = client.seed();
        Self {
            now: Instant::default(),
            client: format!("{client}"),
            outputs: VecDeque::new(),
            inner: VecDeque::new(),
            timers: Timers::default(),
            patience: config.response_timeout,
            calls: Calls::new(config.response_timeout),
            flows: Flows::new(config.max_in_flight),
            config,
            ops: HashMap::default(),
            leases: HashMap::default(),
            releases: HashMap::default(),
            owed: 0,
            unreleased: 0,
            last_released: Instant::default(),
            subscription: Subscription::new(),
            random: Random::new(seed),
            closed: false,
            #[cfg(feature = "mutants")]
            mutant: None,
            last_token: 0,
            last_lease: 0,
        }
    }

    /// Whether a deliberate fault is switched on. Never, outside `cargo xtask mutants`.
    #[cfg(feature = "mutants")]
    pub(crate) fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Whether a deliberate fault is switched on. Never, outside `cargo xtask mutants`.
    #[cfg(not(feature = "mutants"))]
    #[allow(clippy::unused_self)]
    pub(crate) const fn has(&self, _mutant: Mutant) -> bool {
        false
    }

    /// Whether everybody who waits asks again and again, on equal terms with clients of other libraries.
    pub(crate) fn is_mixed(&self, family: Family) -> bool {
        self.config.mixed_fleet || family == Family::Reentrant
    }

    pub(crate) fn new_token(&mut self) -> Token {
        self.last_token = self.last_token.saturating_add(1);
        Token(self.last_token)
    }

    pub(crate) fn new_lease(&mut self) -> LeaseId {
        self.last_lease = self.last_lease.saturating_add(1);
        LeaseId(self.last_lease)
    }

    /// The client's own channel.
    pub(crate) fn channel(&self) -> String {
        format!("leasehold:{}", self.client)
    }

    /// Sends a command now, or queues it until there is room for it; `within` is how soon it is needed. True if it has left: the caller then
    /// notes what follows from that. For one that was queued [`Node::pump`](crate::node::Node::pump) does.
    pub(crate) fn send(&mut self, within: Duration, purpose: Purpose, command: Command) -> bool {
        match self.flows.room(&command).or(self.has(Mutant::UnboundedInFlight).then_some(0)) {
            Some(flow) => {
                self.transmit(flow, purpose, command);
                true
            }
            None => {
                if is_by_source(&command) {
                    self.waits_again(purpose);
                }
                let last_first = Instant::from_micros(u64::MAX.saturating_sub(self.now.as_micros()));
                let due = if self.has(Mutant::QueueStarves) { last_first } else { self.now + within };
                self.flows.push(self.now, due, purpose, command);
                false
            }
        }
    }

    /// A user's call goes out once more, with the script's source, and waits for room once more.
    fn waits_again(&mut self, purpose: Purpose) {
        let op = match purpose {
            Purpose::Renew { op: Some(op), .. } | Purpose::Inspect { op } | Purpose::Force { op } => Some(op),
            Purpose::Release { token } => self.releases.get(&token).and_then(|release| release.op),
            _ => None,
        };
        if let Some(open) = op.and_then(|op| self.ops.get_mut(&op)) {
            open.sent = None;
        }
    }

    pub(crate) fn transmit(&mut self, flow: u8, purpose: Purpose, command: Command) {
        let by_source = is_by_source(&command);
        let call = self.calls.open(Call { sent: self.now, purpose, by_source, flow });
        self.flows.sent(flow);
        self.outputs.push_back(Output::Send { call, node: NodeId(0), command });
    }

    /// Opens a user's call that can't be answered at once. `patience` is when it ends at the latest.
    pub(crate) fn open(&mut self, op: OpId, kind: OpKind, patience: Option<Duration>) {
        let since = self.now;
        let mut open = Op { since, ends: None, again: None, failures: 0, sent: None, bounded: false, kind };
        self.timers.set(Timer::OpEnds(op), &mut open.ends, patience.map(|patience| since + patience));
        self.ops.insert(op, open);
    }

    /// Notes that a try has a deadline of its caller's.
    pub(crate) fn bound(&mut self, op: OpId, options: &AcquireOptions) {
        if options.within.is_some()
            && let Some(open) = self.ops.get_mut(&op)
        {
            open.bounded = true;
        }
    }

    /// A command of a user's call has left.
    pub(crate) fn op_sent(&mut self, op: OpId) {
        let now = self.now;
        if let Some(open) = self.ops.get_mut(&op) {
            open.sent.get_or_insert(now);
        }
    }

    /// Answers a user's call that was never opened.
    pub(crate) fn answer(&mut self, op: OpId, result: Result<Outcome, Error>) {
        self.told(op.0).push_back(Output::Completed { op, result });
    }

    /// Where whoever has this number is told.
    fn told(&mut self, number: u64) -> &mut VecDeque<Output> {
        if number & INNER == 0 { &mut self.outputs } else { &mut self.inner }
    }

    /// How long a call that is no wait goes on trying.
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// Ends a user's call, if it has not ended before.
    pub(crate) fn complete(&mut self, op: OpId, result: Result<Outcome, Error>) {
        if self.close_op(op) {
            self.answer(op, result);
        }
    }

    /// Forgets a user's call, which is to be answered now. False if it has ended before.
    pub(crate) fn close_op(&mut self, op: OpId) -> bool {
        let Some(mut ended) = self.ops.remove(&op) else { return false };
        self.timers.set(Timer::OpEnds(op), &mut ended.ends, None);
        self.timers.set(Timer::OpAgain(op), &mut ended.again, None);
        true
    }

    /// Gives a user's call a time to end.
    pub(crate) fn end_op_within(&mut self, op: OpId, patience: Duration) {
        if let Some(open) = self.ops.get_mut(&op) {
            self.timers.set(Timer::OpEnds(op), &mut open.ends, Some(self.now + patience));
        }
    }

    /// Ends the calls that wait for the client's end, once every token is back. Tokens that never held are waited for only briefly: the server
    /// forgets them by itself.
    pub(crate) fn end_close(&mut self) {
        if !self.closed || self.unreleased > 0 {
            return;
        }
        let is_close = |(op, open): (&OpId, &Op)| matches!(open.kind, OpKind::Close).then_some(*op);
        // The oldest first: a table's own order differs between machines.
        while let Some(op) = self.ops.iter().filter_map(is_close).min() {
            if !self.releases.is_empty() && self.flows.trouble(Instant::default()).is_none() {
                let brief = self.flows.resend_after(0, Duration::ZERO).min(self.config.response_timeout);
                return self.end_op_within(op, brief);
            }
            self.complete(op, Ok(Outcome::Closed { unreleased: 0 }));
        }
    }

    /// A close has run out of time. It goes on as long as leases come back.
    pub(crate) fn close_ends(&mut self, op: OpId, since: Instant) {
        let ends = self.last_released.max(since) + self.patience();
        if self.unreleased > 0 && ends > self.now {
            return self.end_op_within(op, ends.since(self.now));
        }
        let unreleased = self.releases.values().filter(|release| release.is_a_lease()).count();
        self.complete(op, Ok(Outcome::Closed { unreleased: u32::try_from(unreleased).unwrap_or(u32::MAX) }));
    }

    /// Forgets a lease, and ends the calls that wait for it.
    pub(crate) fn end_lease(&mut self, id: LeaseId, error: &Error) -> Option<Lease> {
        let mut lease = self.leases.remove(&id)?;
        self.timers.set(Timer::LeaseEnds(id), &mut lease.ends, None);
        for op in core::mem::take(&mut lease.pending) {
            self.complete(op, Err(error.clone()));
        }
        Some(lease)
    }

    /// Tells the holder that its lease ended.
    pub(crate) fn lose_lease(&mut self, id: LeaseId, reason: LossReason) {
        if self.end_lease(id, &Error::Lost(reason)).is_some() && !self.has(Mutant::LossUntold) {
            self.told(id.0).push_back(Output::Lost { lease: id, reason });
        }
    }
}

fn is_by_source(command: &Command) -> bool {
    command.words().next() == Some(b"EVAL")
}
