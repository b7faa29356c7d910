//! Failures as a number and a text.

use alloc::borrow::ToOwned;
use leasehold_core::Failure;

use crate::codes::FailureKind;

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

/// The kind and the text of a failure.
pub(crate) fn write(failure: &Failure) -> (FailureKind, &str) {
    match failure {
        Failure::Refused(text) => (FailureKind::Refused, text),
        Failure::Unavailable(text) => (FailureKind::Unavailable, text),
        Failure::Interrupted(text) => (FailureKind::Interrupted, text),
        Failure::TimedOut => (FailureKind::TimedOut, ""),
        Failure::Unsupported(text) => (FailureKind::Unsupported, text),
        Failure::Closed(text) => (FailureKind::Closed, text),
    }
}
