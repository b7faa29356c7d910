//! Asks a server whether it will do.

use alloc::string::String;
use alloc::vec;

use core::time::Duration;

use leasehold_core::{Failure, Reply, Scalar};

use crate::bindings::exports::leasehold::lock::locks::Error;
use crate::bindings::leasehold::lock::connection::Endpoint;
use crate::timer::{Start, within};
use crate::{error, wire};

/// Asks the server for its version. A server that does not tell is taken as it is.
pub(crate) async fn check(endpoint: &Endpoint, limit: Duration) -> Result<(), Error> {
    let start = Start::now();
    let info = endpoint.call(vec![b"INFO".to_vec(), b"server".to_vec()]);
    match within(limit, info).await.map(wire::result) {
        Some(Ok(Reply::One(Scalar::Text(info)))) => judge(&String::from_utf8_lossy(&info)),
        Some(Ok(_)) => Ok(()),
        // This user may not ask.
        Some(Err(Failure::Refused(text))) if text.starts_with("NOPERM") => Ok(()),
        Some(Err(failure)) => Err(error::from_connecting(failure, start.elapsed())),
        None => Err(error::from_connecting(Failure::TimedOut, start.elapsed())),
    }
}

fn judge(info: &str) -> Result<(), Error> {
    leasehold_core::check_server(info).map_err(|error| error::from_engine(&error, None))
}
