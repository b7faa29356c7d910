use std::fs;
use std::process::Command;

use super::cargo::run;
use super::error::Result;

/// WebAssembly without an operating system.
pub(crate) const TARGET: &str = "wasm32-unknown-unknown";

/// Installs the compiler's target if it is missing.
pub(crate) fn add_target() -> Result {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output()?;
    let sysroot = String::from_utf8_lossy(&sysroot.stdout).trim().to_owned();
    if fs::exists(format!("{sysroot}/lib/rustlib/{TARGET}"))? {
        return Ok(());
    }
    run(Command::new("rustup").args(["target", "add", TARGET]))
}
