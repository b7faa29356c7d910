//! Failures as a number and a text.

use alloc::borrow::ToOwned;
use leasehold_core::{Failure, FailureKind};

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
