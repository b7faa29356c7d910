//! The WASI component.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cargo::{cargo, root, run, target};
use crate::error::Result;
use crate::wasm::{self, TARGET};

/// Builds `lock.wasm` and says where it is.
pub(crate) fn make() -> Result {
    let lock = component("leasehold-wasi", "lock.wasm")?;
    let size = fs::metadata(&lock)?.len();
    println!("{}: {} KiB", lock.display(), size / 1024);
    Ok(())
}

/// Builds a guest and makes a component of it.
fn component(package: &str, name: &str) -> Result<PathBuf> {
    wasm::add_target()?;
    // A library that names its exports as components do can be linked for WebAssembly alone: nobody else asks for one.
    let build = ["rustc", "--quiet", "--profile", "wasm", "--package", package, "--target", TARGET];
    run(cargo(&build).args(["--lib", "--crate-type", "cdylib"]))?;
    let module = target().join(TARGET).join("wasm").join(package.replace('-', "_")).with_extension("wasm");
    let directory = directory();
    fs::create_dir_all(&directory)?;
    let component = directory.join(name);
    let encode = ["run", "--quiet", "--package", "leasehold-componentize", "--"];
    run(cargo(&encode).arg(absolute(&module)).arg(absolute(&component)))?;
    Ok(component)
}

/// Where components go.
pub(crate) fn directory() -> PathBuf {
    target().join("component")
}

/// A path that also holds from the workspace's root, where cargo runs.
fn absolute(path: &Path) -> PathBuf {
    root().join(path)
}
