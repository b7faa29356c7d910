//! The client as the API sees it. It ends when the last manager, lock and lease that use it are dropped.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{ClientId, Engine, Error as EngineError, Labels, Operation, Outcome};

use super::clock::Clock;
use super::driver::Driver;
use super::named::Named;
use super::operation::OperationFuture;
use super::shared::Shared;
use crate::errors::Error;
use crate::net::{Link, Origin};

/// What a client is made of.
pub(crate) struct Made {
    pub(crate) id: ClientId,
    pub(crate) engine: Engine,
    /// None for a quorum.
    pub(crate) labels: Option<Labels>,
}

pub(crate) struct Client {
    pub(crate) id: ClientId,
    pub(crate) shared: Arc<Shared>,
    /// Whether the client can open more connections. It can't if the user provided the only one.
    can_connect: bool,
}

impl Client {
    /// Spawns the task that drives the engine. `server` is the server's URL, for error messages.
    pub(crate) fn start(
        Made { id, engine, labels }: Made,
        link: Link,
        server: Option<String>,
        origin: Origin,
        response_timeout: Duration,
    ) -> Arc<Self> {
        let shared = Arc::new(Shared::new(engine, labels, server, Clock::of(&origin), link));
        let can_connect = origin.endpoint().is_some();
        tokio::spawn(Driver::new(Arc::clone(&shared), origin, response_timeout).run());
        Arc::new(Self { id, shared, can_connect })
    }

    /// Whether the client can open more connections.
    pub(crate) const fn can_connect(&self) -> bool {
        self.can_connect
    }

    /// Runs an operation. `name` is the lock that it is about, if any.
    pub(crate) fn execute<'a>(&'a self, operation: Operation<'a>, name: Option<&'a str>) -> OperationFuture<'a> {
        OperationFuture::new(&self.shared, operation, name, None)
    }

    /// Runs an operation that acquires a lock.
    pub(crate) fn acquire<'a>(&'a self, operation: Operation<'a>, lock: &'a Named) -> OperationFuture<'a> {
        OperationFuture::new(&self.shared, operation, Some(&lock.name), Some(lock))
    }

    /// Runs an operation that the engine completes at once.
    pub(crate) fn execute_now(&self, operation: &Operation<'_>, name: &str) -> Result<Outcome, Error> {
        match self.shared.start(operation, None, None) {
            Ok(result) => result.map_err(|error| self.shared.error(error, Some(name))),
            Err(op) => {
                self.shared.abandon(op);
                Err(self.shared.error(EngineError::NotHeld, Some(name)))
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared.close();
    }
}

/// An outcome of the wrong kind. That is a bug in this crate, reported as an error instead of a panic.
pub(crate) fn unexpected_outcome(outcome: &Outcome, name: &str) -> Error {
    Error::Protocol { name: Some(name.to_owned()), problem: format!("unexpected outcome {outcome:?}") }
}
