//! Failures as a number and a text.

use leasehold_core::Failure;

/// Reads a failure. `ts/engine/output-reader.ts` has the same list.
pub(crate) fn read(kind: u8, text: String) -> Option<Failure> {
    Some(match kind {
        0 => Failure::Refused(text),
        1 => Failure::Unavailable(text),
        2 => Failure::Interrupted(text),
        3 => Failure::TimedOut,
        4 => Failure::Unsupported(text),
        5 => Failure::Closed(text),
        _ => return None,
    })
}

/// The number and the text of a failure.
pub(crate) fn write(failure: &Failure) -> (u8, &str) {
    match failure {
        Failure::Refused(text) => (0, text),
        Failure::Unavailable(text) => (1, text),
        Failure::Interrupted(text) => (2, text),
        Failure::TimedOut => (3, ""),
        Failure::Unsupported(text) => (4, text),
        Failure::Closed(text) => (5, text),
    }
}
