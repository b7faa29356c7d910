//! One call. It begins at once, and dropping it cancels it.

use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use leasehold_core::{AcquireOptions, Error, Input, LeaseId, Mode, OpId, Outcome, ReleaseOutcome};

use crate::shared::Shared;
use crate::state::{CallResult, Wanted};

/// A request to the engine.
pub(crate) enum Request<'a> {
    Acquire { name: &'a str, options: AcquireOptions },
    AcquireAll { names: &'a [&'a str], options: AcquireOptions, one_script: bool },
    Release { lease: LeaseId },
    Extend { lease: LeaseId, ttl: Duration },
    Convert { lease: LeaseId, mode: Mode },
    Hold { lease: LeaseId },
    Verify { lease: LeaseId },
    Inspect { name: &'a str },
    ForceRelease { name: &'a str },
}

impl Request<'_> {
    pub(crate) fn wanted(&self) -> Option<Wanted> {
        match self {
            Self::Acquire { options, .. } | Self::AcquireAll { options, .. } => {
                Some(Wanted { ttl: options.ttl, max_hold: options.max_hold })
            }
            _ => None,
        }
    }

    /// The length of the names in it.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Acquire { name, .. } => name.len(),
            Self::AcquireAll { names, .. } => names.iter().map(|name| name.len()).sum(),
            _ => 0,
        }
    }

    /// The answer when the driver has stopped.
    pub(crate) fn after_the_end(&self) -> CallResult {
        match self {
            Self::Release { .. } => Ok(Outcome::Released(ReleaseOutcome::AlreadyExpired)),
            _ => Err(Error::Closed),
        }
    }

    pub(crate) fn input(&self, op: OpId) -> Input<'_> {
        match *self {
            Self::Acquire { name, options } => Input::Acquire { op, name, options },
            Self::AcquireAll { names, options, one_script } => Input::AcquireAll { op, names, options, one_script },
            Self::Release { lease } => Input::Release { op, lease },
            Self::Extend { lease, ttl } => Input::Extend { op, lease, ttl },
            Self::Convert { lease, mode } => Input::Convert { op, lease, mode },
            Self::Hold { lease } => Input::Hold { op, lease },
            Self::Verify { lease } => Input::Verify { op, lease },
            Self::Inspect { name } => Input::Inspect { op, name },
            Self::ForceRelease { name } => Input::ForceRelease { op, name },
        }
    }
}

/// A call under way. Dropping it cancels an acquire. Any other call goes on without its caller.
pub(crate) struct Call<'a> {
    shared: &'a Shared,
    op: OpId,
}

impl<'a> Call<'a> {
    pub(crate) fn begin(shared: &'a Shared, request: &Request<'_>) -> Self {
        Self { shared, op: shared.begin(request) }
    }
}

impl Future for Call<'_> {
    type Output = CallResult;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<CallResult> {
        self.shared.fetch(self.op, context)
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.shared.abandon(self.op);
    }
}
