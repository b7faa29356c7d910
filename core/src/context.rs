//! What every machine of the engine works with: the present time, the outputs, and what is shared between names.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use core::time::Duration;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::calls::{Calls, Purpose};
use crate::command::Command;
use crate::error::{Error, LossReason};
use crate::event::{LeaseId, NodeId, OpId, Outcome, Output};
use crate::lease::Lease;
use crate::mutant::Mutant;
use crate::numbering::ByNumber;
use crate::op::{Op, OpKind};
use crate::options::{Config, Family};
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
    pub(crate) ops: HashMap<OpId, Op, ByNumber>,
    pub(crate) leases: HashMap<LeaseId, Lease, ByNumber>,
    pub(crate) releases: HashMap<Token, Release, ByNumber>,
    /// How many of these were sent in vain at least once.
    pub(crate) owed: usize,
    pub(crate) subscription: Subscription,
    pub(crate) random: Random,
    pub(crate) closed: bool,
    #[cfg(feature = "mutants")]
    pub(crate) mutant: Option<Mutant>,
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
            calls: Calls::new(config.response_timeout),
            config,
            ops: HashMap::default(),
            leases: HashMap::default(),
            releases: HashMap::default(),
            owed: 0,
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

    pub(crate) fn send(&mut self, purpose: Purpose, command: Command) {
        let call = self.calls.open(self.now, purpose, command.words().next() == Some(b"EVAL"));
        self.outputs.push_back(Output::Send { call, node: NodeId(0), command });
    }

    /// Opens a user's call that can't be answered at once. `patience` is when it ends at the latest.
    pub(crate) fn open(&mut self, op: OpId, kind: OpKind, patience: Option<Duration>) {
        let since = self.now;
        let mut open = Op { since, ends: None, again: None, failures: 0, kind };
        self.timers.set(Timer::OpEnds(op), &mut open.ends, patience.map(|patience| since + patience));
        self.ops.insert(op, open);
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
        self.config.response_timeout.saturating_mul(2)
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

    /// Ends the calls that wait for the client's end, once every token is back.
    pub(crate) fn end_close(&mut self) {
        if self.closed && self.releases.is_empty() {
            let is_close = |(op, open): (&OpId, &Op)| matches!(open.kind, OpKind::Close).then_some(*op);
            // The oldest first: a table's own order differs between machines.
            while let Some(op) = self.ops.iter().filter_map(is_close).min() {
                self.complete(op, Ok(Outcome::Closed { unreleased: 0 }));
            }
        }
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
