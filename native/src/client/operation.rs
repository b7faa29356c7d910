//! One user's call. It begins at its first poll. Dropping it cancels an acquire.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use leasehold_core::{AcquireOptions, Error as EngineError, Input, LeaseId, Mode, OpId, Outcome, ReleaseOutcome};

use super::shared::Shared;
use super::state::CallResult;
use crate::errors::Error;

/// What a user can ask of the engine.
pub(crate) enum Request<'a> {
    Acquire { name: &'a Arc<str>, options: AcquireOptions },
    AcquireAll { label: &'a Arc<str>, names: &'a [&'a str], options: AcquireOptions, one_script: bool },
    Release { lease: LeaseId },
    Extend { lease: LeaseId, ttl: Duration },
    Convert { lease: LeaseId, mode: Mode },
    Hold { lease: LeaseId },
    Verify { lease: LeaseId },
    Inspect { name: &'a str },
    ForceRelease { name: &'a str },
    Close,
}

impl Request<'_> {
    /// The name of the lock to acquire. None for other requests.
    pub(super) fn name(&self) -> Option<Arc<str>> {
        match self {
            Self::Acquire { name, .. } | Self::AcquireAll { label: name, .. } => Some(Arc::clone(name)),
            _ => None,
        }
    }

    /// The result if the driver has stopped. `unreleased` is how many leases the engine could not give back.
    pub(super) fn after_the_end(&self, unreleased: u32) -> CallResult {
        match self {
            Self::Close => Ok(Outcome::Closed { unreleased }),
            Self::Release { .. } => Ok(Outcome::Released(ReleaseOutcome::AlreadyExpired)),
            _ => Err(EngineError::Closed),
        }
    }

    pub(super) fn input(&self, op: OpId) -> Input<'_> {
        match *self {
            Self::Acquire { name, options } => Input::Acquire { op, name, options },
            Self::AcquireAll { names, options, one_script, .. } => Input::AcquireAll { op, names, options, one_script },
            Self::Release { lease } => Input::Release { op, lease },
            Self::Extend { lease, ttl } => Input::Extend { op, lease, ttl },
            Self::Convert { lease, mode } => Input::Convert { op, lease, mode },
            Self::Hold { lease } => Input::Hold { op, lease },
            Self::Verify { lease } => Input::Verify { op, lease },
            Self::Inspect { name } => Input::Inspect { op, name },
            Self::ForceRelease { name } => Input::ForceRelease { op, name },
            Self::Close => Input::Close { op },
        }
    }
}

/// A call in progress. Dropping it cancels an acquire. Other calls finish without their caller.
pub(crate) struct Call<'a> {
    shared: &'a Shared,
    /// The lock that the call is about, for error messages.
    name: Option<&'a str>,
    stage: Stage<'a>,
}

enum Stage<'a> {
    New(Request<'a>),
    Waiting(OpId),
    Ended,
}

impl<'a> Call<'a> {
    pub(super) const fn new(shared: &'a Shared, request: Request<'a>, name: Option<&'a str>) -> Self {
        Self { shared, name, stage: Stage::New(request) }
    }
}

impl Future for Call<'_> {
    type Output = Result<Outcome, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Outcome, Error>> {
        let polled = match &self.stage {
            Stage::New(request) => match self.shared.begin(request, Some(context.waker())) {
                Ok(result) => Poll::Ready(result),
                Err(op) => {
                    self.stage = Stage::Waiting(op);
                    Poll::Pending
                }
            },
            Stage::Waiting(op) => self.shared.fetch(*op, context.waker()),
            Stage::Ended => Poll::Pending,
        };
        polled.map(|result| {
            self.stage = Stage::Ended;
            result.map_err(|error| self.shared.error(error, self.name))
        })
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Stage::Waiting(op) = self.stage {
            self.shared.abandon(op);
        }
    }
}
