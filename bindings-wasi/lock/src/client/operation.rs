//! An operation of a user: acquire, release, inspect and so on.

use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use leasehold_core::{AcquireOptions, Error, Input, LeaseId, LeaseToken, Mode, OpId, Outcome, ReleaseOutcome};

use super::shared::Shared;
use super::state::{LeaseOptions, OperationResult};

/// What a user can ask of the engine.
pub(crate) enum Operation<'a> {
    Acquire { name: &'a str, options: AcquireOptions },
    AcquireAll { names: &'a [&'a str], options: AcquireOptions, one_script: bool },
    Adopt { name: &'a str, token: LeaseToken, options: AcquireOptions },
    Release { lease: LeaseId },
    Extend { lease: LeaseId, ttl: Duration },
    Convert { lease: LeaseId, mode: Mode },
    Hold { lease: LeaseId },
    Export { lease: LeaseId },
    Verify { lease: LeaseId },
    Inspect { name: &'a str },
    ForceRelease { name: &'a str, foreign: bool },
}

impl Operation<'_> {
    /// What an acquire asks for. None for other operations.
    pub(super) fn lease_options(&self) -> Option<LeaseOptions> {
        match self {
            Self::Acquire { options, .. } | Self::Adopt { options, .. } | Self::AcquireAll { options, .. } => {
                Some(LeaseOptions { ttl: options.ttl, max_hold: options.max_hold })
            }
            _ => None,
        }
    }

    /// The length of the names to acquire.
    pub(super) fn name_bytes(&self) -> usize {
        match self {
            Self::Acquire { name, .. } | Self::Adopt { name, .. } => name.len(),
            Self::AcquireAll { names, .. } => names.iter().map(|name| name.len()).sum(),
            _ => 0,
        }
    }

    /// The result if the driver has stopped.
    pub(super) fn result_when_stopped(&self) -> OperationResult {
        match self {
            Self::Release { .. } => Ok(Outcome::Released(ReleaseOutcome::AlreadyExpired)),
            _ => Err(Error::Closed),
        }
    }

    pub(super) fn input(&self, op: OpId) -> Input<'_> {
        match *self {
            Self::Acquire { name, ref options } => Input::Acquire { op, name, options },
            Self::AcquireAll { names, ref options, one_script } => Input::AcquireAll { op, names, options, one_script },
            Self::Adopt { name, token, ref options } => Input::Adopt { op, name, token, options },
            Self::Release { lease } => Input::Release { op, lease },
            Self::Extend { lease, ttl } => Input::Extend { op, lease, ttl },
            Self::Convert { lease, mode } => Input::Convert { op, lease, mode },
            Self::Hold { lease } => Input::Hold { op, lease },
            Self::Export { lease } => Input::Export { op, lease },
            Self::Verify { lease } => Input::Verify { op, lease },
            Self::Inspect { name } => Input::Inspect { op, name },
            Self::ForceRelease { name, foreign } => Input::ForceRelease { op, name, foreign },
        }
    }
}

/// The future of an operation. The operation starts at once, not at the first poll.
///
/// Dropping the future cancels an acquire. All other operations go on without it.
pub(crate) struct OperationFuture<'a> {
    shared: &'a Shared,
    op: OpId,
}

impl<'a> OperationFuture<'a> {
    pub(super) fn new(shared: &'a Shared, operation: &Operation<'_>) -> Self {
        Self { shared, op: shared.start(operation) }
    }
}

impl Future for OperationFuture<'_> {
    type Output = OperationResult;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<OperationResult> {
        self.shared.poll_result(self.op, context)
    }
}

impl Drop for OperationFuture<'_> {
    fn drop(&mut self) {
        self.shared.abandon(self.op);
    }
}
