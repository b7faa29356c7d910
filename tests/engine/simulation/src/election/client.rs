//! One client: an engine, its clock, and what its user does.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold_core::{
    AcquireOptions, ClientId, CommandId, Config, Engine, Failure, Input, Instant, LeaseId, OpId, Reply,
};
use leasehold_harness::{Clock, Micros, Rng};

/// The election.
pub(super) const NAME: &str = "chief";

pub(super) struct Client {
    /// Its number, unique in the run. A crash ends its life, and another client takes its place.
    pub(super) life: u64,
    /// None after a crash or a close.
    pub(super) engine: Option<Engine>,
    pub(super) clock: Clock,
    /// What it tells when it leads.
    pub(super) value: String,
    pub(super) asleep_until: Option<Micros>,
    /// What arrived while it slept.
    pub(super) inbox: Vec<Delivery>,
    /// Its event loop is slow for so long: everything that it does comes later by up to the second time.
    pub(super) slow: (Micros, Micros),
    /// The channels on which the server sends it messages.
    pub(super) listens: BTreeSet<String>,
    pub(super) wake: (Option<Instant>, u32),
    pub(super) campaign: Option<OpId>,
    pub(super) term: Option<LeaseId>,
    pub(super) observes: Option<OpId>,
    /// What its observer was told last: the fence of a term, and whether it is over. None before the first answer.
    pub(super) told: Option<(u64, bool)>,
    /// When it last heard of a leader, and the longest time that one had left.
    pub(super) heard: (Micros, Micros),
    /// Whether it was told that nobody leads because it had heard nothing. The same term may come back then.
    pub(super) doubts: bool,
    /// When it last woke up from a sleep.
    pub(super) woke: Micros,
    pub(super) questions: Questions,
    pub(super) closes: bool,
    last_op: u64,
}

/// What its observer has asked, and may ask.
#[derive(Default)]
pub(super) struct Questions {
    pub(super) asked: u64,
    /// Those without an answer, and when they were sent.
    pub(super) open: BTreeMap<CommandId, Micros>,
    /// Subscriptions, questions without an answer, terms, and messages that come again or late, which may each cost one.
    pub(super) reasons: u64,
    pub(super) since: Micros,
    /// Whether it was without messages at some time.
    pub(super) deaf: bool,
}

/// What reaches a client.
pub(super) enum Delivery {
    Reply(CommandId, Result<Reply, Failure>),
    Message(String, Vec<u8>),
    Subscribed(String),
    Unsubscribed(String, Failure),
}

impl Client {
    pub(super) fn start(rng: &mut Rng, life: u64, claim_ms: u64, drift_ppm: u64, now: Micros) -> Self {
        let mut id = [0; 16];
        id.iter_mut().for_each(|byte| *byte = rng.below(256) as u8);
        let config = Config { claim_window: Duration::from_millis(claim_ms), ..Config::default() };
        let engine = Engine::new(ClientId::from_random(id), config).expect("valid options");
        let drift = rng.range((0, 2 * drift_ppm)) as i64 - drift_ppm as i64;
        Self {
            life,
            engine: Some(engine),
            clock: Clock::new(rng.below(1_000_000_000), drift),
            value: format!("client {life}"),
            asleep_until: None,
            inbox: Vec::new(),
            slow: (0, 0),
            listens: BTreeSet::new(),
            wake: (None, 0),
            campaign: None,
            term: None,
            observes: None,
            told: None,
            heard: (now, 0),
            doubts: false,
            woke: now,
            questions: Questions { since: now, ..Questions::default() },
            closes: false,
            last_op: 0,
        }
    }

    pub(super) fn is_awake(&self) -> bool {
        self.engine.is_some() && self.asleep_until.is_none()
    }

    pub(super) fn next_op(&mut self) -> OpId {
        self.last_op += 1;
        OpId(self.last_op)
    }

    /// Whether it believes that it leads. It only looks at its clock.
    pub(super) fn leads(&self, now: Micros) -> bool {
        let until = self.term.and_then(|lease| self.engine.as_ref()?.valid_until(lease));
        until.is_some_and(|until| until > self.clock.instant(now))
    }

    /// What its user asks next, if it has nothing to do.
    pub(super) fn campaigns(&mut self) -> OpId {
        let op = self.next_op();
        self.campaign = Some(op);
        op
    }
}

pub(super) fn options(ttl_ms: u64) -> AcquireOptions {
    AcquireOptions { ttl: Duration::from_millis(ttl_ms), ..AcquireOptions::default() }
}

pub(super) fn campaign<'a>(op: OpId, value: &'a str, options: &'a AcquireOptions) -> Input<'a> {
    Input::Campaign { op, name: NAME, value, options }
}
