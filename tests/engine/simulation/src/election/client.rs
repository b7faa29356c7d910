//! One client: its process, and what its user does.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_core::{AcquireOptions, CommandId, Input, LeaseId, OpId};
use leasehold_harness::{Clock, Micros, Rng};

use crate::process::Process;

/// The election.
pub(super) const NAME: &str = "chief";

pub(super) struct Client {
    pub(super) process: Process,
    /// What it tells when it leads.
    pub(super) value: String,
    /// Its event loop is slow for so long: everything that it does comes later by up to the second time.
    pub(super) slow: (Micros, Micros),
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

impl Client {
    pub(super) fn start(rng: &mut Rng, life: u64, claim_ms: u64, drift_ppm: u64, now: Micros) -> Self {
        let clock = |rng: &mut Rng| {
            let drift = rng.range((0, 2 * drift_ppm)) as i64 - drift_ppm as i64;
            Clock::new(rng.below(1_000_000_000), drift)
        };
        Self {
            process: Process::start(rng, life, claim_ms, clock),
            value: format!("client {life}"),
            slow: (0, 0),
            campaign: None,
            term: None,
            observes: None,
            told: None,
            heard: (now, 0),
            doubts: false,
            woke: now,
            questions: Questions { since: now, ..Questions::default() },
            closes: false,
        }
    }

    /// Whether it believes that it leads. It only looks at its clock.
    pub(super) fn leads(&self, now: Micros) -> bool {
        let until = self.term.and_then(|lease| self.process.engine.as_ref()?.valid_until(lease));
        until.is_some_and(|until| until > self.process.clock.instant(now))
    }

    /// What its user asks next, if it has nothing to do.
    pub(super) fn campaigns(&mut self) -> OpId {
        let op = self.process.next_op();
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
