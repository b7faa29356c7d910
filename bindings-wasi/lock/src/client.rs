//! What every handle keeps alive. Dropping the last handle ends the client.

use alloc::rc::Rc;

use leasehold_core::{Error as EngineError, Outcome};

use crate::bindings::exports::leasehold::lock::locks::Error;
use crate::call::{Call, Request};
use crate::shared::Shared;
use crate::{error, limits};

pub(crate) struct Client {
    pub(crate) shared: Rc<Shared>,
}

impl Client {
    /// Sends the engine a request about the lock `name`.
    pub(crate) async fn ask(&self, request: Request<'_>, name: &str) -> Result<Outcome, Error> {
        limits::may_call()?;
        let call = Call::begin(&self.shared, &request);
        call.await.map_err(|error| error::from_engine(&error, Some(name)))
    }

    /// Sends the engine a request that it answers at once.
    pub(crate) fn ask_now(&self, request: &Request<'_>) -> Result<Outcome, EngineError> {
        self.shared.begin_and_end(request).unwrap_or(Err(EngineError::NotHeld))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared.close();
    }
}
