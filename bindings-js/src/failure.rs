//! Failures as a number and a text, and the texts of errors.

use alloc::borrow::ToOwned;
use leasehold_core::{Error, Failure, FailureKind};

pub(crate) fn read(kind: FailureKind, text: &str) -> Failure {
    let text = || text.to_owned();
    match kind {
        FailureKind::Refused => Failure::Refused(text()),
        FailureKind::Unavailable => Failure::Unavailable(text()),
        FailureKind::Interrupted => Failure::Interrupted(text()),
        FailureKind::TimedOut => Failure::TimedOut,
        FailureKind::Unsupported => Failure::Unsupported(text()),
        FailureKind::Closed => Failure::Closed(text()),
    }
}

/// The message of an error, if it has one.
pub(crate) fn message(error: &Error) -> &str {
    match error {
        Error::InvalidOption { problem, .. } => problem,
        Error::Conflict(text) => text,
        Error::Unsupported(text)
        | Error::Auth(text)
        | Error::Server(text)
        | Error::Protocol(text)
        | Error::WrongKind(text) => text,
        _ => "",
    }
}
