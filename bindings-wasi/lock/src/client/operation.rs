//! The future of an operation.

use core::pin::Pin;
use core::task::{Context, Poll};

use leasehold_core::{CallResult, OpId, Operation};

use super::shared::Shared;

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
    type Output = CallResult;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<CallResult> {
        self.shared.poll_result(self.op, context)
    }
}

impl Drop for OperationFuture<'_> {
    fn drop(&mut self) {
        self.shared.abandon(self.op);
    }
}
