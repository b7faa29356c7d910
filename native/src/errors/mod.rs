//! The errors that users get, and what an error of the `redis` crate means.
//!
//! [`Error`] and [`Cause`] are public. The functions turn errors of the `redis` crate into failures that the engine
//! understands, and into texts.

mod error;
mod failure;

pub(crate) use error::later_failure;
pub use error::{Cause, Error};
#[cfg(test)]
pub(crate) use failure::LONGEST_TEXT;
pub(crate) use failure::{
    command_failure, connect_failure, error_text, is_demoted, is_server_failure, server_text, shortened,
};
