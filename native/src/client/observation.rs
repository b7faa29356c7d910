//! One observation of an election. It begins at the first poll, and ends when it is dropped.

use std::sync::Arc;
use std::task::{Poll, Waker};

use leasehold_core::{CallResult, Error as EngineError, OpId, Operation};

use super::handle::{Client, unexpected_outcome};
use super::state::Elected;
use crate::errors::Error;

pub(crate) struct Observation {
    client: Arc<Client>,
    name: Arc<str>,
    op: Option<OpId>,
}

impl Observation {
    pub(crate) const fn new(client: Arc<Client>, name: Arc<str>) -> Self {
        Self { client, name, op: None }
    }

    /// The next change, or why there will be none.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Result<Option<Elected>, Error>> {
        let shared = &self.client.shared;
        let op = match self.op {
            Some(op) => op,
            // Without the waker, because a call that may send for others must be polled until they have their replies.
            None => match shared.start(&Operation::Observe { name: &self.name }, None, None) {
                Ok(result) => return Poll::Ready(Err(self.ended(result))),
                Err(op) => *self.op.insert(op),
            },
        };
        shared.poll_leader(op, waker).map(|told| {
            told.map_err(|result| {
                self.op = None;
                self.ended(result)
            })
        })
    }

    fn ended(&self, result: CallResult) -> Error {
        match result {
            Ok(outcome) => unexpected_outcome(&outcome, &self.name),
            // Only a close cancels it.
            Err(EngineError::Cancelled) => self.client.shared.error(EngineError::Closed, Some(&self.name)),
            Err(error) => self.client.shared.error(error, Some(&self.name)),
        }
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        if let Some(op) = self.op {
            self.client.shared.abandon(op);
        }
    }
}
