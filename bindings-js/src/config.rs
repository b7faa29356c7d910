//! A manager's options.

use alloc::string::String;

use leasehold_core::Config;

use crate::codes::InputField;
use crate::input::InputRecord;
use crate::number::{duration, small};

/// Reads the options from the record. None if a number is out of range.
pub(crate) fn read(record: &InputRecord, prefix: String) -> Option<Config> {
    let time = |field| record.get(field).and_then(duration);
    Some(Config {
        prefix,
        local_handoffs: match record.get(InputField::LocalHandoffs) {
            Some(handoffs) => Some(small(handoffs)?),
            None => None,
        },
        claim_window: time(InputField::ClaimWindow)?,
        response_timeout: time(InputField::ResponseTimeout)?,
        node_timeout: time(InputField::NodeTimeout)?,
        mixed_fleet: record.flag(InputField::MixedFleet),
        batches: record.flag(InputField::Batches),
        ahead: record.flag(InputField::Ahead),
        ..Config::default()
    })
}
