//! An operation of a user: acquire, release, inspect and so on.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use leasehold_core::{
    AcquireOptions, Error as EngineError, Input, LeaseId, LeaseToken, Mode, OpId, Outcome, ReleaseOutcome,
};

use super::shared::Shared;
use super::state::OperationResult;
use crate::errors::Error;

/// A lock, as its leases are told to others.
#[derive(Clone)]
pub(crate) struct Named {
    /// The lock's name. Several names as one text.
    pub(crate) name: Arc<str>,
    pub(crate) called: Option<Arc<Called>>,
}

/// What a user calls the leases of a lock.
pub(crate) struct Called {
    pub(crate) label: String,
    /// The lock's names, if it has several.
    pub(crate) names: Option<Arc<[Arc<str>]>>,
}

impl Named {
    /// The label of a lease of `name`, if this is one.
    pub(super) fn lease_of(&self, name: &str) -> Option<Option<&str>> {
        let label = self.called.as_ref().map(|called| called.label.as_str());
        let is_one = match self.called.as_ref().and_then(|called| called.names.as_ref()) {
            Some(names) => names.iter().any(|one| &**one == name),
            None => &*self.name == name,
        };
        is_one.then_some(label)
    }
}

/// What a user can ask of the engine.
pub(crate) enum Operation<'a> {
    Acquire {
        lock: &'a Named,
        options: &'a AcquireOptions,
    },
    Adopt {
        lock: &'a Named,
        token: LeaseToken,
        options: &'a AcquireOptions,
    },
    AcquireAll {
        lock: &'a Named,
        names: &'a [&'a str],
        options: &'a AcquireOptions,
        one_script: bool,
    },
    Release {
        lease: LeaseId,
    },
    Extend {
        lease: LeaseId,
        ttl: Duration,
    },
    Shorten {
        lease: LeaseId,
        ttl: Duration,
    },
    Convert {
        lease: LeaseId,
        mode: Mode,
    },
    Hold {
        lease: LeaseId,
    },
    Export {
        lease: LeaseId,
    },
    Verify {
        lease: LeaseId,
    },
    /// Clients are asked for the labels of their leases if `asks`.
    Inspect {
        name: &'a str,
        asks: bool,
    },
    ForceRelease {
        name: &'a str,
        foreign: bool,
    },
    Close,
}

impl Operation<'_> {
    /// The lock to acquire. None for other operations.
    pub(super) fn lock(&self) -> Option<Named> {
        match *self {
            Self::Acquire { lock, .. } | Self::Adopt { lock, .. } | Self::AcquireAll { lock, .. } => Some(lock.clone()),
            _ => None,
        }
    }

    /// The result if the driver has stopped. `unreleased` is how many locks the engine could not release.
    pub(super) fn result_when_stopped(&self, unreleased: u32) -> OperationResult {
        match self {
            Self::Close => Ok(Outcome::Closed { unreleased }),
            // Otherwise, this lease may be one of those that stay.
            Self::Release { .. } if unreleased == 0 => Ok(Outcome::Released(ReleaseOutcome::AlreadyExpired)),
            _ => Err(EngineError::Closed),
        }
    }

    pub(super) fn input(&self, op: OpId) -> Input<'_> {
        match *self {
            Self::Acquire { lock, options } => Input::Acquire { op, name: &lock.name, options },
            Self::Adopt { lock, token, options } => Input::Adopt { op, name: &lock.name, token, options },
            Self::AcquireAll { names, options, one_script, .. } => Input::AcquireAll { op, names, options, one_script },
            Self::Release { lease } => Input::Release { op, lease },
            Self::Extend { lease, ttl } => Input::Extend { op, lease, ttl },
            Self::Shorten { lease, ttl } => Input::Shorten { op, lease, ttl },
            Self::Convert { lease, mode } => Input::Convert { op, lease, mode },
            Self::Hold { lease } => Input::Hold { op, lease },
            Self::Export { lease } => Input::Export { op, lease },
            Self::Verify { lease } => Input::Verify { op, lease },
            Self::Inspect { name, .. } => Input::Inspect { op, name },
            Self::ForceRelease { name, foreign } => Input::ForceRelease { op, name, foreign },
            Self::Close => Input::Close { op },
        }
    }
}

/// The future of an operation. The operation starts at the first poll.
///
/// Dropping the future cancels an acquire. All other operations go on without it.
pub(crate) struct OperationFuture<'a> {
    shared: &'a Shared,
    /// The lock that the operation is about, for error messages.
    name: Option<&'a str>,
    stage: Stage<'a>,
}

enum Stage<'a> {
    Unpolled(Operation<'a>),
    Pending(OpId),
    Done,
}

impl<'a> OperationFuture<'a> {
    pub(super) const fn new(shared: &'a Shared, operation: Operation<'a>, name: Option<&'a str>) -> Self {
        Self { shared, name, stage: Stage::Unpolled(operation) }
    }
}

impl Future for OperationFuture<'_> {
    type Output = Result<Outcome, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Outcome, Error>> {
        let polled = match &self.stage {
            Stage::Unpolled(operation) => match self.shared.start(operation, Some(context.waker())) {
                Ok(result) => Poll::Ready(result),
                Err(op) => {
                    self.stage = Stage::Pending(op);
                    Poll::Pending
                }
            },
            Stage::Pending(op) => self.shared.poll_result(*op, context.waker()),
            Stage::Done => Poll::Pending,
        };
        polled.map(|result| {
            self.stage = Stage::Done;
            result.map_err(|error| self.shared.error(error, self.name))
        })
    }
}

impl Drop for OperationFuture<'_> {
    fn drop(&mut self) {
        if let Stage::Pending(op) = self.stage {
            self.shared.abandon(op);
        }
    }
}
