//! The WASI component.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cargo::{cargo, root, run, target};
use crate::error::{Error, Result};
use crate::node::{self, node};
use crate::wasm::{self, TARGET};

/// What every host loads: the most bytes that `lock.wasm` may have.
const LARGEST: u64 = 200_000;

/// What rustc emits for the target.
const FEATURES: [&str; 7] = [
    "--enable-bulk-memory",
    "--enable-bulk-memory-opt",
    "--enable-multivalue",
    "--enable-mutable-globals",
    "--enable-nontrapping-float-to-int",
    "--enable-reference-types",
    "--enable-sign-ext",
];

/// Builds `lock.wasm` and what its tests need, and says where it is.
pub(crate) fn make() -> Result {
    vectors()?;
    let lock = lock()?;
    println!("{}: {} bytes", lock.display(), fs::metadata(&lock)?.len());
    Ok(())
}

/// Builds `lock.wasm`.
pub(crate) fn lock() -> Result<PathBuf> {
    let lock = component("leasehold-wasi", "lock.wasm")?;
    let size = fs::metadata(&lock)?.len();
    if size > LARGEST {
        return Err(Error::new(format!("lock.wasm is too large: {size} bytes, and it may have {LARGEST}")));
    }
    Ok(lock)
}

/// Builds the component that replays vectors, for the tests.
pub(crate) fn vectors() -> Result<PathBuf> {
    component("leasehold-component-vectors", "vectors.wasm")
}

/// Builds a guest and makes a component of it.
fn component(package: &str, name: &str) -> Result<PathBuf> {
    wasm::add_target()?;
    // A library that names its exports as components do can be linked for WebAssembly alone: nobody else asks for one.
    let build = ["rustc", "--quiet", "--profile", "component", "--package", package, "--target", TARGET];
    run(cargo(&build).args(["--lib", "--crate-type", "cdylib"]))?;
    let built = target().join(TARGET).join("component").join(package.replace('-', "_")).with_extension("wasm");
    let directory = absolute(&target().join("wasi"));
    fs::create_dir_all(&directory)?;
    let (module, component) = (directory.join(name).with_extension("core.wasm"), directory.join(name));
    optimise(&absolute(&built), &module)?;
    let encode = ["run", "--quiet", "--package", "leasehold-componentize", "--"];
    run(cargo(&encode).arg(module).arg(&component))?;
    Ok(component)
}

/// Runs Binaryen, which comes with the npm package's tools.
fn optimise(module: &Path, optimised: &Path) -> Result {
    node::check()?;
    let package = node::package();
    node::install(&package)?;
    let mut command = node(&package, &["node_modules/binaryen/bin/wasm-opt", "-Oz", "--converge", "--strip-debug"]);
    run(command.args(FEATURES).arg(module).arg("--output").arg(optimised))
}

/// A path that also holds where other programs run.
fn absolute(path: &Path) -> PathBuf {
    root().join(path)
}
