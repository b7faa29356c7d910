//! A manager's options.

use std::time::Duration;

use leasehold_core::{Config, Error};

use crate::number::{duration, small};

/// `numbers` are `local_handoffs`, `claim_window`, `response_timeout` and `fence_retention`.
pub(crate) fn config_of(prefix: String, numbers: (f64, f64, f64, f64), mixed_fleet: bool) -> Result<Config, Error> {
    let (local_handoffs, claim_window, response_timeout, fence_retention) = numbers;
    Ok(Config {
        prefix,
        local_handoffs: small(local_handoffs)
            .ok_or_else(|| refused("local_handoffs", "is not a whole number: choose 0 to 1023"))?,
        claim_window: time("claim_window", claim_window)?,
        response_timeout: time("response_timeout", response_timeout)?,
        mixed_fleet,
        fence_retention: time("fence_retention", fence_retention)?,
        ..Config::default()
    })
}

pub(crate) fn time(field: &'static str, millis: f64) -> Result<Duration, Error> {
    duration(millis).ok_or_else(|| refused(field, "is not a valid number of milliseconds"))
}

pub(crate) fn refused(field: &'static str, problem: &str) -> Error {
    Error::InvalidOption { field, problem: problem.to_owned() }
}
