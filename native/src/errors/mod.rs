//! The errors that users see.

pub(crate) mod error;
