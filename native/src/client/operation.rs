//! An operation of a user: acquire, release, inspect and so on.

use std::pin::Pin;
use std::task::{Context, Poll};

use leasehold_core::{OpId, Operation, Outcome};

use super::named::Named;
use super::shared::Shared;
use crate::errors::Error;

/// The future of an operation. The operation starts at the first poll.
///
/// Dropping the future cancels an acquire. All other operations go on without it.
pub(crate) struct OperationFuture<'a> {
    shared: &'a Shared,
    /// The lock that the operation is about, for error messages.
    name: Option<&'a str>,
    /// The lock to acquire, if the operation is an acquire.
    lock: Option<&'a Named>,
    stage: Stage<'a>,
}

enum Stage<'a> {
    Unpolled(Operation<'a>),
    Pending(OpId),
    Done,
}

impl<'a> OperationFuture<'a> {
    pub(super) const fn new(
        shared: &'a Shared,
        operation: Operation<'a>,
        name: Option<&'a str>,
        lock: Option<&'a Named>,
    ) -> Self {
        Self { shared, name, lock, stage: Stage::Unpolled(operation) }
    }
}

impl Future for OperationFuture<'_> {
    type Output = Result<Outcome, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Outcome, Error>> {
        let polled = match &self.stage {
            Stage::Unpolled(operation) => match self.shared.start(operation, self.lock, Some(context.waker())) {
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
