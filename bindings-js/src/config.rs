//! A manager's options.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::time::Duration;

use leasehold_core::{Config, Error};

use crate::codes::InputField;
use crate::input::InputRecord;
use crate::number::{duration, small};

/// Reads the options from the record.
pub(crate) fn read(record: &InputRecord, prefix: String) -> Result<Config, Error> {
    let time = |name, field| time(name, record.get(field));
    Ok(Config {
        prefix,
        local_handoffs: (record.get(InputField::LocalHandoffs).and_then(small))
            .ok_or_else(|| invalid("local_handoffs", "is not a whole number: choose 0 to 1023"))?,
        claim_window: time("claim_window", InputField::ClaimWindow)?,
        response_timeout: time("response_timeout", InputField::ResponseTimeout)?,
        node_timeout: time("node_timeout", InputField::NodeTimeout)?,
        mixed_fleet: record.flag(InputField::MixedFleet),
        batches: record.flag(InputField::Batches),
        ..Config::default()
    })
}

fn time(name: &'static str, millis: Option<f64>) -> Result<Duration, Error> {
    millis.and_then(duration).ok_or_else(|| invalid(name, "is not a valid number of milliseconds"))
}

pub(crate) fn invalid(field: &'static str, problem: &str) -> Error {
    Error::InvalidOption { field, problem: problem.to_owned() }
}
