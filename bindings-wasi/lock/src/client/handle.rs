//! The client as the API sees it. It ends when the last manager and the last lease that use it are dropped.

use alloc::rc::Rc;
use alloc::vec::Vec;

use core::time::Duration;

use leasehold_core::{Engine, Error as EngineError, Labels, Operation, Outcome};

use super::driver;
use super::operation::OperationFuture;
use super::shared::Shared;
use crate::bindings::exports::leasehold::lock::locks::Error;
use crate::error;
use crate::limits::{self, Permit};
use crate::net::Server;

pub(crate) struct Client {
    pub(crate) shared: Rc<Shared>,
}

impl Client {
    /// Starts the task that drives the engine. A command may take `limit`. `permit` is returned when the task ends.
    pub(crate) fn start(
        engine: Engine,
        labels: Option<Labels>,
        servers: Vec<Rc<Server>>,
        limit: Duration,
        permit: Permit,
    ) -> Rc<Self> {
        let shared = Rc::new(Shared::new(engine, labels));
        // The host keeps running it after the call of `open` that spawned it has returned.
        wit_bindgen::spawn_local(driver::run(Rc::clone(&shared), servers, limit, permit));
        Rc::new(Self { shared })
    }

    /// Runs an operation, without checking the limits.
    pub(crate) fn run(&self, operation: &Operation<'_>) -> OperationFuture<'_> {
        OperationFuture::new(&self.shared, operation)
    }

    /// Runs an operation on the lock `name`.
    pub(crate) async fn execute(&self, operation: Operation<'_>, name: &str) -> Result<Outcome, Error> {
        limits::check_call()?;
        self.run(&operation).await.map_err(|error| error::from_engine(&error, Some(name)))
    }

    /// Runs an operation that the engine completes at once.
    pub(crate) fn execute_now(&self, operation: &Operation<'_>) -> Result<Outcome, EngineError> {
        self.shared.execute_now(operation).unwrap_or(Err(EngineError::NotHeld))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared.close();
    }
}
