//! What every handle shares. The client ends when the last handle is dropped.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Error as EngineError, Outcome};

use crate::client::operation::{Call, Request};
use crate::client::shared::Shared;
use crate::errors::error::Error;
use crate::net::topology::endpoint::Endpoint;

pub(crate) struct Client {
    pub(crate) shared: Arc<Shared>,
    /// Where to open more connections. None if the user provided the only connection.
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) response_timeout: Duration,
}

impl Client {
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
