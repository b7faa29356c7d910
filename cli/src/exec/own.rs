//! This program, to start it again.

use std::env;
use std::io;
use std::path::PathBuf;

/// Its path.
pub(super) fn path() -> io::Result<PathBuf> {
    // The path may lead to a newer version by now. Linux can start this very program again.
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { env::current_exe() }
}
