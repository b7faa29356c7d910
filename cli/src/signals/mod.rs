//! The signals that this process gets. Windows has none; there, the console's events stand for them.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{Signal, Signals};
#[cfg(windows)]
pub(crate) use windows::{Signal, Signals};

use crate::report::exit;

/// The exit code of a command that a signal ended, as shells have it.
pub(crate) fn status(signal: Signal) -> u8 {
    exit::SIGNALLED.saturating_add(u8::try_from(signal as i32).unwrap_or_default())
}
