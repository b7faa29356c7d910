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
use alloc::format;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use super::Locks;
use crate::error::{Error, Failure, LossReason};
use crate::event::{Grant, Input, Outcome, Output, Reason};
use crate::ids::{LeaseId, OpId};
use crate::options::Replicas;
use crate::time::{Instant, millis};
use crate::wire::{Command, Reply, Scalar};

/// The acquires that wait for replicas.
pub(crate) struct Replication {
    response_timeout: Duration,
    /// The oldest first. Few calls wait for replicas at the same time, and this takes less code than a map.
    calls: Vec<Call>,
    outputs: VecDeque<Output>,
    now: Instant,
}

/// An acquire that waits for replicas.
struct Call {
    op: OpId,
    replicas: Replicas,
    stage: Stage,
}

enum Stage {
    /// The lock is not granted yet.
    Acquiring,
    /// A write to the lease is under way. `source` is the same write with the script's text, if it was not sent yet.
    Touching { grant: Grant, since: Instant, source: Option<Command> },
    /// The replicas are asked.
    Waiting { grant: Grant, since: Instant },
    /// The lease is being released. Then the call fails with this error, or at `until`.
    GivingBack { lease: LeaseId, error: Error, until: Instant },
    /// The call has failed, but its release has not ended.
    Failed { lease: LeaseId },
}

impl Replication {
    pub(crate) fn new(response_timeout: Duration) -> Self {
        Self { response_timeout, calls: Vec::new(), outputs: VecDeque::new(), now: Instant::default() }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.calls.is_empty() && self.outputs.is_empty()
    }

    /// Takes an input that is for this part of the engine. Returns the others.
    pub(crate) fn intercept<'a>(&mut self, locks: &mut Locks, now: Instant, input: Input<'a>) -> Option<Input<'a>> {
        match &input {
            Input::Acquire { op, options, .. } | Input::AcquireAll { op, options, .. }
                if options.replicas.is_some() =>
            {
                if let Some(problem) = unsupported(locks, &input) {
                    let result = Err(Error::Unsupported(problem.into()));
                    self.outputs.push_back(Output::Completed { op: *op, result });
                    return None;
                }
                let replicas = options.replicas?;
                self.calls.push(Call { op: *op, replicas, stage: Stage::Acquiring });
            }
            _ if self.calls.is_empty() => return Some(input),
            _ => {}
        }
        self.now = self.now.max(now);
        // A lease that has expired meanwhile is lost first.
        locks.handle(self.now, Input::Wake);
        self.end_overdue(locks);
        match input {
            Input::DedicatedReply { op, result } => {
                self.replied(locks, op, result);
                None
            }
            Input::Cancel { op } if self.call(op).is_some_and(|call| call.stage.grant().is_some()) => {
                self.fail(locks, op, Error::Cancelled);
                None
            }
            Input::Close { .. } => {
                for op in self.by(&|call| call.stage.grant().is_some()) {
                    self.fail(locks, op, Error::Closed);
                }
                Some(input)
            }
            input => Some(input),
        }
    }

    pub(crate) fn poll_output(&mut self, locks: &mut Locks) -> Option<Output> {
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

    pub(crate) fn poll_timeout(&self) -> Option<(Instant, Reason)> {
        let ends = self.calls.iter().filter_map(|call| self.ends(call)).min();
        ends.map(|at| (at, Reason::ResponseTimeout))
    }

    /// When the present stage of a call ends at the latest.
    fn ends(&self, call: &Call) -> Option<Instant> {
        match call.stage {
            Stage::Touching { since, .. } => Some(since + self.response_timeout),
            Stage::Waiting { since, .. } => Some(since + self.longest(call.replicas)),
            Stage::GivingBack { until, .. } => Some(until),
            Stage::Acquiring | Stage::Failed { .. } => None,
        }
    }

    /// How long a call takes at most after its lease is granted.
    fn longest(&self, replicas: Replicas) -> Duration {
        replicas.timeout.saturating_add(self.response_timeout)
    }

    fn end_overdue(&mut self, locks: &mut Locks) {
        for op in self.by(&|call| self.ends(call).is_some_and(|at| at <= self.now)) {
            match self.call(op) {
                Some(Call { stage: Stage::GivingBack { .. }, .. }) => self.told(op),
                _ => self.replied(locks, op, Err(Failure::TimedOut)),
            }
        }
    }

    /// A call of the locks has ended: the acquire, or the release of its lease. Returns whether that ends the caller's call.
    fn completed(&mut self, locks: &mut Locks, op: OpId, result: &Result<Outcome, Error>) -> bool {
        let Some(call) = self.call(op) else { return true };
        match (&call.stage, result) {
            (Stage::Acquiring, Ok(Outcome::Acquired(grant))) => {
                self.touch(locks, op, *grant);
                false
            }
            (Stage::GivingBack { .. } | Stage::Failed { .. }, _) => {
                self.told(op);
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
        let ours = self.by(&|call| call.stage.lease() == Some(lease));
        for op in &ours {
            self.fail(locks, *op, Error::Lost(reason));
        }
        // Only the owner of a reentrant lock may have another hold on it.
        ours.is_empty() || locks.lease(lease).is_some()
    }

    /// Tells the caller why the call failed.
    fn told(&mut self, op: OpId) {
        let Some(call) = find(&mut self.calls, op) else { return };
        let Stage::GivingBack { lease, .. } = call.stage else { return };
        if let Stage::GivingBack { error, .. } = mem::replace(&mut call.stage, Stage::Failed { lease }) {
            self.outputs.push_back(Output::Completed { op, result: Err(error) });
        }
    }

    fn touch(&mut self, locks: &mut Locks, op: OpId, grant: Grant) {
        let Some(call) = find(&mut self.calls, op) else { return };
        let since = self.now;
        let touch = locks.touch(grant.lease);
        let (digest, source) = touch.map_or((None, None), |[digest, source]| (Some(digest), Some(source)));
        call.stage = Stage::Touching { grant, since, source };
        match digest {
            Some(command) => self.outputs.push_back(Output::SendDedicated { op, command }),
            None => self.fail(locks, op, Error::Lost(LossReason::Gone)),
        }
    }

    fn replied(&mut self, locks: &mut Locks, op: OpId, result: Result<Reply, Failure>) {
        let Some(Call { replicas, stage, .. }) = find(&mut self.calls, op) else { return };
        let waited = |since| self.now.since(since);
        let error = match (stage, result) {
            (Stage::Touching { source, since, .. }, Err(failure)) => match (source.take(), failure) {
                (Some(command), Failure::Refused(text)) if text.starts_with("NOSCRIPT") => {
                    return self.outputs.push_back(Output::SendDedicated { op, command });
                }
                (_, failure) => Error::of_connecting(failure, waited(*since)),
            },
            (Stage::Waiting { since, .. }, Err(failure)) => Error::of_connecting(failure, waited(*since)),
            (stage @ Stage::Touching { .. }, Ok(reply)) => match first_word(&reply) {
                b"renewed" => {
                    let command = wait(*replicas);
                    stage.wait();
                    return self.outputs.push_back(Output::SendDedicated { op, command });
                }
                b"taken" => Error::Lost(LossReason::Taken),
                _ => Error::Lost(LossReason::Gone),
            },
            (Stage::Waiting { grant, since }, Ok(Reply::One(Scalar::Int(confirmed)))) => {
                let (confirmed, wanted) = (u32::try_from(confirmed).unwrap_or(0), replicas.min);
                let valid_until = locks.valid_until(grant.lease).filter(|until| *until > self.now);
                if confirmed >= wanted
                    && let Some(valid_until) = valid_until
                {
                    let result = Ok(Outcome::Acquired(Grant { valid_until, ..*grant }));
                    self.remove(op);
                    self.outputs.push_back(Output::CloseDedicated { op });
                    return self.outputs.push_back(Output::Completed { op, result });
                }
                Error::NotReplicated { confirmed, wanted, waited: waited(*since) }
            }
            (Stage::Waiting { .. }, Ok(reply)) => Error::Protocol(format!("`WAIT` answered {reply}")),
            _ => return,
        };
        self.fail(locks, op, error);
    }

    /// Releases the lease of a call that fails. If the lease was lost meanwhile, that is the better error.
    fn fail(&mut self, locks: &mut Locks, op: OpId, error: Error) {
        let Some(Call { replicas, stage, .. }) = find(&mut self.calls, op) else { return };
        let (Stage::Touching { grant, since, .. } | Stage::Waiting { grant, since }) = *stage else { return };
        let error = match locks.lease(grant.lease).and_then(|lease| lease.lost) {
            Some(reason) => Error::Lost(reason),
            None => error,
        };
        let until = since + replicas.timeout + self.response_timeout;
        *stage = Stage::GivingBack { lease: grant.lease, error, until };
        self.outputs.push_back(Output::CloseDedicated { op });
        // The acquire has ended, so its number can be used for the release.
        locks.handle(self.now, Input::Release { op, lease: grant.lease });
        if until <= self.now {
            self.told(op);
        }
    }

    fn call(&self, op: OpId) -> Option<&Call> {
        self.calls.iter().find(|call| call.op == op)
    }

    fn remove(&mut self, op: OpId) {
        self.calls.retain(|call| call.op != op);
    }

    /// The calls that fit, the oldest first.
    fn by(&self, fits: &dyn Fn(&Call) -> bool) -> Vec<OpId> {
        self.calls.iter().filter(|call| fits(call)).map(|call| call.op).collect()
    }
}

fn find(calls: &mut [Call], op: OpId) -> Option<&mut Call> {
    calls.iter_mut().find(|call| call.op == op)
}

impl Stage {
    /// The lease of a call that waits for replicas now.
    const fn grant(&self) -> Option<Grant> {
        match self {
            Self::Touching { grant, .. } | Self::Waiting { grant, .. } => Some(*grant),
            Self::Acquiring | Self::GivingBack { .. } | Self::Failed { .. } => None,
        }
    }

    /// The lease that the caller does not know yet.
    const fn lease(&self) -> Option<LeaseId> {
        match self {
            Self::Touching { grant, .. } | Self::Waiting { grant, .. } => Some(grant.lease),
            Self::GivingBack { lease, .. } | Self::Failed { lease } => Some(*lease),
            Self::Acquiring => None,
        }
    }

    /// The server has the lease. Now the replicas are asked.
    fn wait(&mut self) {
        if let Self::Touching { grant, since, .. } = *self {
            *self = Self::Waiting { grant, since };
        }
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
    command.push_display(min);
    // `WAIT` takes 0 for no limit.
    command.push_display(millis(timeout).max(1));
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
