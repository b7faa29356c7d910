//! A manager's options.

use alloc::string::String;

use leasehold_core::Config;

use crate::codes::{InputField, MANAGER_OPTIONS};
use crate::input::InputRecord;

/// Reads the options from the record. None if a number is out of range.
pub(crate) fn read(record: &InputRecord, prefix: String) -> Option<Config> {
    let (batches, ahead) = (record.flag(InputField::Batches), record.flag(InputField::Ahead));
    let mut config = Config { prefix, batches, ahead, ..Config::default() };
    config.set_plain(&mut record.setter(MANAGER_OPTIONS))?;
    Some(config)
}
