use super::cargo;
use super::error::Result;

/// WebAssembly without an operating system.
pub(crate) const TARGET: &str = "wasm32-unknown-unknown";

/// Installs the compiler's target if it is missing.
pub(crate) fn add_target() -> Result {
    cargo::add_target(TARGET)
}
