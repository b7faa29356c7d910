//! Asks a server whether it will do.

use std::time::{Duration, Instant};

use redis::{RedisResult, Value};

use crate::error::Error;
use crate::link::Connection;
use crate::server::within;

/// Judges the server by its version. One that does not tell is taken as it is.
pub(crate) async fn check(
    connection: &Connection,
    server: Option<&str>,
    response_timeout: Duration,
) -> Result<(), Error> {
    let start = Instant::now();
    match info(connection, response_timeout).await {
        Ok(Some(info)) => judge(&info),
        Ok(None) => Ok(()),
        Err(error) => Err(Error::from_connecting(error, server, start.elapsed())),
    }
}

/// What the server tells of itself, if this user may ask.
pub(crate) async fn info(connection: &Connection, limit: Duration) -> RedisResult<Option<String>> {
    let mut info = redis::cmd("INFO");
    info.arg("server");
    let answer = within(limit, connection.run(info)).await.and_then(Value::extract_error);
    match answer {
        Ok(Value::BulkString(bytes)) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Ok(Value::VerbatimString { text, .. }) => Ok(Some(text)),
        Ok(_) => Ok(None),
        Err(error) if error.code() == Some("NOPERM") => {
            tracing::debug!("this user may not ask for the server's version");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

pub(crate) fn judge(info: &str) -> Result<(), Error> {
    if info.lines().any(|line| line.trim().ends_with("_mode:sentinel")) {
        let problem = "a sentinel keeps no locks: connect with `LockManager::sentinel`".to_owned();
        return Err(Error::Unsupported { problem });
    }
    leasehold_core::check_server(info).map_err(|error| Error::from_engine(error, None, None))
}
