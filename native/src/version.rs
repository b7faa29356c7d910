//! Asks a server whether it will do.

use std::time::{Duration, Instant};

use redis::Value;

use crate::error::Error;
use crate::link::Connection;
use crate::server::within;

/// Asks the server for its version. A server that does not tell is taken as it is.
pub(crate) async fn check(
    connection: &Connection,
    server: Option<&str>,
    response_timeout: Duration,
) -> Result<(), Error> {
    let start = Instant::now();
    let mut info = redis::cmd("INFO");
    info.arg("server");
    let answer = within(response_timeout, connection.run(info)).await.and_then(Value::extract_error);
    match answer {
        Ok(Value::BulkString(bytes)) => judge(&String::from_utf8_lossy(&bytes)),
        Ok(Value::VerbatimString { text, .. }) => judge(&text),
        Ok(_) => Ok(()),
        Err(error) if error.code() == Some("NOPERM") => {
            tracing::debug!("this user may not ask for the server's version");
            Ok(())
        }
        Err(error) => Err(Error::from_connecting(error, server, start.elapsed())),
    }
}

fn judge(info: &str) -> Result<(), Error> {
    if info.lines().any(|line| line.trim().ends_with("_mode:sentinel")) {
        let problem = "a sentinel keeps no locks: connect with `LockManager::sentinel`".to_owned();
        return Err(Error::Unsupported { problem });
    }
    leasehold_core::check_server(info).map_err(|error| Error::from_engine(error, None, None))
}
