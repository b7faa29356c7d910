//! Asks a server for its version.

use alloc::string::String;
use alloc::vec;

use core::time::Duration;

use leasehold_core::{Failure, Reply, Scalar};

use crate::bindings::exports::leasehold::lock::locks::Error;
use crate::bindings::leasehold::lock::connection::Endpoint;
use crate::timer::within;
use crate::{error, wire};

/// What the server says about itself. Empty if this user may not ask.
pub(crate) async fn info(endpoint: &Endpoint, limit: Duration) -> Result<String, Failure> {
    let info = endpoint.call(vec![b"INFO".to_vec(), b"server".to_vec()]);
    match within(limit, info).await.map(wire::result) {
        Some(Ok(Reply::One(Scalar::Text(info)))) => Ok(String::from_utf8_lossy(&info).into_owned()),
        Some(Ok(_)) => Ok(String::new()),
        Some(Err(Failure::Refused(text))) if text.starts_with("NOPERM") => Ok(String::new()),
        Some(Err(failure)) => Err(failure),
        None => Err(Failure::TimedOut),
    }
}

/// Checks the server's version. A server that does not tell its version is used as it is.
pub(crate) fn judge(info: &str) -> Result<(), Error> {
    leasehold_core::check_server(info).map_err(|error| error::from_engine(&error, None))
}
