//! The playground's module: WebAssembly and its JavaScript in one script.

use std::path::PathBuf;

use super::cargo::{cargo, root, run, target};
use super::error::Result;
use super::log::say;
use super::package;
use super::stamp::Stamp;
use super::wasm::{TARGET, add_target};

/// The sources of the module.
const SOURCES: [&str; 8] =
    ["Cargo.toml", "Cargo.lock", "core", "lua", "memory", "playground", "tests/support/harness", "bindings-js/bindgen"];

/// Builds `docs/playground/engine.js`, unless it is up to date. Returns the page's directory.
pub(crate) fn build() -> Result<PathBuf> {
    let page = root().join("docs/playground");
    let script = page.join("engine.js");
    let sources: Vec<PathBuf> = SOURCES.iter().map(|path| root().join(path)).collect();
    let stamp = Stamp::over(target().join("playground.stamp"), &sources, &["rustc"])?;
    if stamp.is_current() && script.is_file() {
        return Ok(page);
    }
    stamp.remove();
    add_target()?;
    let build = ["build", "--quiet", "--profile", "wasm", "--package", "leasehold-playground-wasm", "--target", TARGET];
    run(&mut package::apart(package::reproducible(&build)))?;
    let module = package::directory().join(TARGET).join("wasm").join("leasehold_playground_wasm.wasm");
    run(package::apart(cargo(&package::BINDGEN)).arg("--script").arg(module).arg(&script))?;
    say!("{}: {} KB", script.display(), script.metadata()?.len() / 1_000);
    stamp.set()?;
    Ok(page)
}
