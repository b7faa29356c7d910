//! The WASI component.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::cargo::{cargo, root, run, target};
use crate::error::{Error, Result};
use crate::node::{self, node};
use crate::stamp::Stamp;
use crate::wasm::{self, TARGET};

/// What every host loads: the most bytes that `lock.wasm` may have. The engine of one lock takes 195,000; reentrant locks, semaphores, several names,
/// `force-release` and the quorum came on top, each with a machine or scripts of its own: several names 11,000, the quorum 30,000, a sixth of which tells what each
/// server said.
const LARGEST: u64 = 299_400;

/// The component that connects by itself.
const TCP: &str = "leasehold-tcp.wasm";

/// How Binaryen optimises. Functions that the compiler made several times for different types become one again, which saves 2,100 bytes of `lock.wasm`; those
/// that are called most get the shortest numbers, which saves 1,100. Repeating it all until nothing changes any more would save 150 bytes for 25 s.
const FOR_USERS: &[&str] = &["--merge-similar-functions", "-Oz", "--reorder-functions"];
const FOR_TESTS: &[&str] = &["-O1"];

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

/// Build the WASI components: `lock.wasm`, and `leasehold-tcp.wasm` with a connection of its own
#[derive(Args)]
pub(crate) struct Options {
    /// Build only `lock.wasm`
    #[arg(long)]
    lock_only: bool,
}

/// Builds the components and prints their paths.
pub(crate) fn make(options: &Options) -> Result {
    if options.lock_only {
        return lock().map(drop);
    }
    let lock = all()?;
    for component in [lock, place(TCP)] {
        println!("{}: {} bytes", component.display(), fs::metadata(&component)?.len());
    }
    Ok(())
}

/// Builds `lock.wasm`, and beside it what is made of it and what its tests need.
pub(crate) fn all() -> Result<PathBuf> {
    component("leasehold-component-vectors", "vectors.wasm", FOR_TESTS)?;
    let lock = lock()?;
    // It needs only standard WASI.
    let provider = component("leasehold-tcp-connection", "tcp-connection.wasm", FOR_USERS)?;
    let tcp = plug(&lock, &provider, TCP)?;
    for (package, name) in [("leasehold-wasi-app", "nightly-job"), ("leasehold-component-caller", "caller")] {
        let user = component(package, &format!("{name}.alone.wasm"), FOR_TESTS)?;
        plug(&user, &tcp, &format!("{name}.wasm"))?;
    }
    Ok(lock)
}

/// Builds `lock.wasm`.
pub(crate) fn lock() -> Result<PathBuf> {
    let lock = component("leasehold-wasi", "lock.wasm", FOR_USERS)?;
    let size = fs::metadata(&lock)?.len();
    if size > LARGEST {
        return Err(Error::new(format!("lock.wasm is too large: {size} bytes, and it may have {LARGEST}")));
    }
    Ok(lock)
}

/// A cargo command among the programs that embed wasmtime, which are a workspace of their own.
pub(crate) fn host(arguments: &[&str]) -> Command {
    let mut command = cargo(arguments);
    command.current_dir(root().join("tests/component")).env("CARGO_TARGET_DIR", host_target());
    command
}

/// The same, with clippy as the compiler: a warning is an error. `cargo clippy` would check wasmtime and all it needs once more, for minutes.
pub(crate) fn linted(arguments: &[&str]) -> Command {
    let mut command = host(arguments);
    command.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
    // As `cargo clippy -- -D warnings` hands its words on.
    command.env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
    command
}

/// Where cargo puts those.
pub(crate) fn host_target() -> PathBuf {
    absolute(&target().join("wasmtime"))
}

/// Builds a guest and makes a component of it.
fn component(package: &str, name: &str, passes: &[&str]) -> Result<PathBuf> {
    wasm::add_target()?;
    // A library that names its exports as components do can be linked for WebAssembly alone: nobody else asks for one.
    let build = ["rustc", "--quiet", "--profile", "component", "--package", package, "--target", TARGET];
    run(cargo(&build).args(["--lib", "--crate-type", "cdylib"]))?;
    let built = target().join(TARGET).join("component").join(package.replace('-', "_")).with_extension("wasm");
    fs::create_dir_all(place(""))?;
    let (module, component) = (place(name).with_extension("core.wasm"), place(name));
    let sources = [absolute(&built), root().join("bindings-wasi/componentize"), root().join("xtask/src/component.rs")];
    let stamp = Stamp::over(place(name).with_extension("stamp"), &sources, &["node"])?;
    if !stamp.is_current() || !component.exists() {
        stamp.remove();
        optimise(&sources[0], passes, &module)?;
        run(componentize("encode").arg(module).arg(&component))?;
        stamp.set()?;
    }
    Ok(component)
}

/// Makes one component of two that are built: what the first one imports is what the second one exports.
fn plug(needs: &Path, provides: &Path, name: &str) -> Result<PathBuf> {
    let component = place(name);
    run(componentize("plug").arg(needs).arg(provides).arg(&component))?;
    Ok(component)
}

fn componentize(what: &str) -> Command {
    cargo(&["run", "--quiet", "--package", "leasehold-componentize", "--", what])
}

/// Where a component is, once it is built.
pub(crate) fn place(name: &str) -> PathBuf {
    absolute(&target().join("wasi")).join(name)
}

/// Runs Binaryen, which comes with the npm package's tools.
fn optimise(module: &Path, passes: &[&str], optimised: &Path) -> Result {
    node::check()?;
    let package = node::package();
    node::install(&package)?;
    let mut command = node(&package, &["node_modules/binaryen/bin/wasm-opt"]);
    run(command.args(passes).arg("--strip-debug").args(FEATURES).arg(module).arg("--output").arg(optimised))
}

/// A path that also holds where other programs run.
fn absolute(path: &Path) -> PathBuf {
    root().join(path)
}
