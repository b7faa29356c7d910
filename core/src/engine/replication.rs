//! Waits until enough replicas have a new lease, before its caller gets it.
//!
//! ```text
//! acquiring --granted--> touching --renewed--> waiting --enough replicas--> the caller gets the lease
//!     |                     |                     |
//!     | refused             '---- anything else --'--> giving back --released--> the call fails
//!     '--> the call fails
//! ```
//!
//! `WAIT` covers only the writes of its own connection, and blocks that connection. So the engine asks for a dedicated
//! connection, writes to the lease there, and then sends `WAIT`. Replicas receive that write after the grant, so a replica
//! that confirms the write has the grant too. If the write finds the lease, this server is the one that granted it, and not
//! another one that was promoted since.
//!
//! <https://redis.io/docs/latest/commands/wait/>

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem;

use super::locks::Locks;
use crate::error::{Error, Failure, LossReason};
use crate::event::{Grant, Input, Outcome, Output, Reason};
use crate::ids::{LeaseId, OpId};
use crate::options::Replicas;
use crate::session::MOST_PAUSES;
use crate::time::api::Duration;
use crate::time::{Instant, millis};
use crate::wire::{Command, Reply, Scalar};

/// The acquires that wait for replicas.
#[derive(Clone, Hash)]
pub(super) struct Replication {
    response_timeout: Duration,
    /// The oldest first. Few calls wait for replicas at the same time, and this takes less code than a map.
    acquires: Vec<ReplicatedAcquire>,
    outputs: VecDeque<Output>,
    now: Instant,
}

/// An acquire that waits for replicas.
#[derive(Clone, Hash)]
struct ReplicatedAcquire {
    op: OpId,
    replicas: Replicas,
    /// How long the lock stays taken from its grant on, once the caller has the lease.
    at_least: Option<Duration>,
    /// The lease, which the caller does not know yet.
    grant: Option<Grant>,
    /// When the lease was granted.
    since: Instant,
    /// Since when the server is being asked. After a pause of this process, this time begins again.
    asked: Instant,
    /// How often this process was paused.
    pauses: u8,
    stage: Stage,
}

#[derive(Clone, Hash)]
enum Stage {
    /// The lock is not granted yet.
    Acquiring,
    /// A write to the lease is under way. This is the same write with the script's text, if it was not sent yet.
    Touching(Option<Command>),
    /// The replicas are asked.
    Waiting,
    /// The lease is being released. Then, or when the time is over, the call fails with this error.
    GivingBack(Error),
    /// The call has failed, but its release has not ended.
    Failed,
}

impl Replication {
    pub(crate) fn new(response_timeout: Duration) -> Self {
        Self { response_timeout, acquires: Vec::new(), outputs: VecDeque::new(), now: Instant::default() }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.acquires.is_empty() && self.outputs.is_empty()
    }

    /// Whether inputs go through this part of the engine: while an acquire waits for replicas, or is about to.
    pub(super) fn takes(&self, input: &Input<'_>) -> bool {
        !self.acquires.is_empty() || wanted_replicas(input).is_some()
    }

    /// Takes an input that is for this part of the engine, and passes the others on.
    pub(super) fn handle(&mut self, locks: &mut Locks, now: Instant, input: Input<'_>) {
        if let Some((op, replicas, at_least)) = wanted_replicas(&input) {
            if let Some(problem) = unsupported(locks, &input) {
                let result = Err(Error::Unsupported(problem.into()));
                return self.outputs.push_back(Output::Completed { op, result });
            }
            let (grant, since, pauses) = (None, now, 0);
            let stage = Stage::Acquiring;
            self.acquires.push(ReplicatedAcquire { op, replicas, at_least, grant, since, asked: now, pauses, stage });
        }
        self.now = self.now.max(now);
        // A lease that has expired meanwhile is lost first.
        locks.handle(self.now, Input::Wake);
        self.end_overdue(locks);
        match input {
            Input::DedicatedReply { op, result } => return self.replied(locks, op, result),
            Input::Cancel { op } if self.acquire(op).is_some_and(ReplicatedAcquire::is_asking) => {
                return self.fail(locks, op, Error::Cancelled);
            }
            _ => {}
        }
        let ends = matches!(input, Input::Drain { .. } | Input::Close { .. });
        if let Input::Close { .. } = input {
            locks.set_unconfirmed(self.unconfirmed(locks));
        }
        locks.handle(now, input);
        if ends {
            // While the locks still granted, a lease that fails would go to its next caller.
            for op in self.by(&ReplicatedAcquire::is_asking) {
                self.fail(locks, op, Error::Closed);
            }
        }
    }

    pub(super) fn poll_output(&mut self, locks: &mut Locks) -> Option<Output> {
        loop {
            let Some(output) = locks.poll_output() else { return self.outputs.pop_front() };
            let is_for_driver = match &output {
                Output::Completed { op, result } => self.completed(locks, *op, result),
                Output::Lost { lease, reason } => self.lost(locks, *lease, *reason),
                _ => true,
            };
            if is_for_driver {
                return Some(output);
            }
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<(Instant, Reason)> {
        let ends = self.acquires.iter().filter_map(|acquire| self.ends(acquire)).min();
        ends.map(|at| (at, Reason::ResponseTimeout))
    }

    /// After a pause of this process, each call gets more time.
    pub(super) fn resume(&mut self, now: Instant) {
        let has_again = |acquire: &&mut ReplicatedAcquire| acquire.is_asking() && acquire.pauses < MOST_PAUSES;
        for acquire in self.acquires.iter_mut().filter(has_again) {
            (acquire.asked, acquire.pauses) = (now, acquire.pauses + 1);
        }
    }

    /// When the present stage of a call ends at the latest.
    fn ends(&self, acquire: &ReplicatedAcquire) -> Option<Instant> {
        match acquire.stage {
            Stage::Touching(_) => Some(acquire.asked + self.response_timeout),
            Stage::Waiting | Stage::GivingBack(_) => {
                Some(acquire.asked + acquire.replicas.timeout + self.response_timeout)
            }
            Stage::Acquiring | Stage::Failed => None,
        }
    }

    fn end_overdue(&mut self, locks: &mut Locks) {
        for op in self.by(&|acquire| self.ends(acquire).is_some_and(|at| at <= self.now)) {
            match self.acquire(op) {
                Some(ReplicatedAcquire { stage: Stage::GivingBack(_), .. }) => self.end_failed(op),
                _ => self.replied(locks, op, Err(Failure::TimedOut)),
            }
        }
    }

    /// A call of the locks has ended: the acquire, or the release of its lease. Returns whether that ends the caller's call.
    fn completed(&mut self, locks: &mut Locks, op: OpId, result: &Result<Outcome, Error>) -> bool {
        let Some(acquire) = self.acquire(op) else { return true };
        match (&acquire.stage, result) {
            (Stage::Acquiring, Ok(Outcome::Acquired(grant))) => {
                self.touch(locks, op, *grant);
                false
            }
            (Stage::GivingBack(_) | Stage::Failed, _) => {
                self.end_failed(op);
                self.remove(op);
                false
            }
            _ => {
                self.remove(op);
                true
            }
        }
    }

    /// A lease was lost. Returns whether the driver knows the lease.
    fn lost(&mut self, locks: &mut Locks, lease: LeaseId, reason: LossReason) -> bool {
        let ours = self.by(&|acquire| acquire.grant.is_some_and(|grant| grant.lease == lease));
        for op in &ours {
            self.fail(locks, *op, Error::Lost(reason));
        }
        // Only the owner of a reentrant lock may have another hold on it.
        ours.is_empty() || locks.lease(lease).is_some()
    }

    /// Tells the caller why the call failed.
    fn end_failed(&mut self, op: OpId) {
        let Some(acquire) = find(&mut self.acquires, op) else { return };
        if let Stage::GivingBack(error) = mem::replace(&mut acquire.stage, Stage::Failed) {
            self.outputs.push_back(Output::Completed { op, result: Err(error) });
        }
    }

    fn touch(&mut self, locks: &mut Locks, op: OpId, grant: Grant) {
        let Some(acquire) = find(&mut self.acquires, op) else { return };
        (acquire.grant, acquire.since, acquire.stage) = (Some(grant), self.now, Stage::Touching(None));
        acquire.asked = self.now;
        let Some([command, source]) = locks.touch(grant.lease) else {
            return self.fail(locks, op, Error::Lost(LossReason::Gone));
        };
        acquire.stage = Stage::Touching(Some(source));
        self.outputs.push_back(Output::SendDedicated { op, command });
    }

    fn replied(&mut self, locks: &mut Locks, op: OpId, result: Result<Reply, Failure>) {
        let Some(acquire) = find(&mut self.acquires, op).filter(|acquire| acquire.is_asking()) else { return };
        let ReplicatedAcquire { replicas, at_least, grant: Some(grant), since, .. } = *acquire else { return };
        let waited = self.now.since(since);
        let error = match (&mut acquire.stage, result) {
            (Stage::Touching(source), Err(failure)) if failure.lacks_script() && source.is_some() => {
                let command = source.take().map(|command| Output::SendDedicated { op, command });
                return self.outputs.extend(command);
            }
            (_, Err(failure)) => Error::of_connecting(failure, waited),
            (Stage::Touching(_), Ok(reply)) => match first_word(&reply) {
                b"renewed" => {
                    acquire.stage = Stage::Waiting;
                    return self.outputs.push_back(Output::SendDedicated { op, command: wait(replicas) });
                }
                b"taken" => Error::Lost(LossReason::Taken),
                _ => Error::Lost(LossReason::Gone),
            },
            (_, Ok(Reply::One(Scalar::Int(confirmed)))) => {
                let (confirmed, wanted) = (u32::try_from(confirmed).unwrap_or(0), replicas.min);
                let valid_until = locks.valid_until(grant.lease).filter(|until| *until > self.now);
                if confirmed >= wanted
                    && let Some(valid_until) = valid_until
                {
                    if let Some(least) = at_least {
                        locks.stays(grant.lease, since + least);
                    }
                    let result = Ok(Outcome::Acquired(Grant { valid_until, ..grant }));
                    self.remove(op);
                    self.outputs.push_back(Output::CloseDedicated { op });
                    return self.outputs.push_back(Output::Completed { op, result });
                }
                Error::NotReplicated { confirmed, wanted, waited }
            }
            (_, Ok(reply)) => Error::Protocol(["`WAIT` answered ", &reply.shown()].concat()),
        };
        self.fail(locks, op, error);
    }

    /// Releases the lease of a call that fails. If the lease was lost meanwhile, that is the better error.
    fn fail(&mut self, locks: &mut Locks, op: OpId, error: Error) {
        let Some(acquire) = find(&mut self.acquires, op).filter(|acquire| acquire.is_asking()) else { return };
        let Some(grant) = acquire.grant else { return };
        let error = match locks.lease(grant.lease).and_then(|lease| lease.lost) {
            Some(reason) => Error::Lost(reason),
            None => error,
        };
        acquire.stage = Stage::GivingBack(error);
        let until = acquire.asked + acquire.replicas.timeout + self.response_timeout;
        self.outputs.push_back(Output::CloseDedicated { op });
        // The acquire has ended, so its number can be used for the release.
        locks.handle(self.now, Input::Release { op, lease: grant.lease });
        if until <= self.now {
            self.end_failed(op);
        }
    }

    /// How many leases no caller has yet. A lease with further holds has an owner.
    fn unconfirmed(&self, locks: &Locks) -> usize {
        let is_sole = |lease| locks.lease(lease).is_some_and(|lease| lease.holds == 1);
        let asking = self.acquires.iter().filter(|acquire| acquire.is_asking());
        asking.filter(|acquire| acquire.grant.is_some_and(|grant| is_sole(grant.lease))).count()
    }

    fn acquire(&self, op: OpId) -> Option<&ReplicatedAcquire> {
        self.acquires.iter().find(|acquire| acquire.op == op)
    }

    fn remove(&mut self, op: OpId) {
        self.acquires.retain(|acquire| acquire.op != op);
    }

    /// The calls that fit, the oldest first.
    fn by(&self, fits: &dyn Fn(&ReplicatedAcquire) -> bool) -> Vec<OpId> {
        self.acquires.iter().filter(|acquire| fits(acquire)).map(|acquire| acquire.op).collect()
    }
}

fn find(acquires: &mut [ReplicatedAcquire], op: OpId) -> Option<&mut ReplicatedAcquire> {
    acquires.iter_mut().find(|acquire| acquire.op == op)
}

impl ReplicatedAcquire {
    /// Whether the server or its replicas are being asked.
    const fn is_asking(&self) -> bool {
        matches!(self.stage, Stage::Touching(_) | Stage::Waiting)
    }
}

/// The replicas that an acquire waits for, and its `at_least`.
fn wanted_replicas(input: &Input<'_>) -> Option<(OpId, Replicas, Option<Duration>)> {
    match input {
        Input::Acquire { op, options, .. }
        | Input::Adopt { op, options, .. }
        | Input::AcquireAll { op, options, .. } => Some((*op, options.replicas?, options.at_least)),
        _ => None,
    }
}

/// Why a lease of these locks can't wait for replicas. None if it can.
const fn unsupported(locks: &Locks, input: &Input<'_>) -> Option<&'static str> {
    match (locks, input) {
        (_, Input::AcquireAll { .. }) => Some("several names can't wait for replicas; take them one by one"),
        #[cfg(feature = "quorum")]
        (Locks::Quorum(_), _) => Some("a quorum can't wait for replicas; its servers are independent of each other"),
        _ => None,
    }
}

fn wait(Replicas { min, timeout }: Replicas) -> Command {
    let mut command = Command::with_capacity(32, 3);
    command.push(b"WAIT");
    command.push_number(min.into());
    // `WAIT` takes 0 for no limit.
    command.push_number(millis(timeout).max(1));
    command
}

fn first_word(reply: &Reply) -> &[u8] {
    match reply {
        Reply::List(items) => match items.first() {
            Some(Scalar::Text(text)) => text,
            _ => b"",
        },
        Reply::One(_) => b"",
    }
}
