//! What every handle shares. The client ends when the last handle is dropped.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Engine, Error as EngineError, Outcome};

use super::driver::Driver;
use super::operation::{Call, Request};
use super::shared::Shared;
use crate::errors::Error;
use crate::net::{Endpoint, Link};

pub(crate) struct Client {
    pub(crate) shared: Arc<Shared>,
    /// Where to open more connections. None if the user provided the only connection.
    pub(super) endpoint: Option<Endpoint>,
    pub(crate) response_timeout: Duration,
}

impl Client {
    /// Spawns the task that drives the engine. `server` is the server's URL, for error messages.
    pub(crate) fn start(
        engine: Engine,
        link: Link,
        server: Option<String>,
        endpoint: Option<Endpoint>,
        response_timeout: Duration,
    ) -> Arc<Self> {
        let shared = Arc::new(Shared::new(engine, server));
        tokio::spawn(Driver::new(Arc::clone(&shared), link, endpoint.clone(), response_timeout).run());
        Arc::new(Self { shared, endpoint, response_timeout })
    }

    /// Starts a call to the engine. `name` is the lock that it is about, if any.
    pub(crate) fn ask<'a>(&'a self, request: Request<'a>, name: Option<&'a str>) -> Call<'a> {
        Call::new(&self.shared, request, name)
    }

    /// Makes a call that the engine answers at once.
    pub(crate) fn ask_now(&self, request: &Request<'_>, name: &str) -> Result<Outcome, Error> {
        match self.shared.begin(request, None) {
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
pub(crate) fn unexpected(outcome: &Outcome, name: &str) -> Error {
    Error::Protocol { name: Some(name.to_owned()), problem: format!("unexpected outcome {outcome:?}") }
}
