//! The WASI component.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use super::cargo::{self, cargo, root, run, target, unlinted};
use super::error::{Error, Result};
use super::log::say;
use super::node::{self, node};
use super::stamp::Stamp;
use super::wasm::{self, TARGET};

/// The most bytes that `lock.wasm` may have, because every host loads it.
///
/// The engine of a plain lock takes 195,000. Every other kind has its own state machine or scripts. For example, several
/// names take 11,000. The text with which scripts read the clock where `TIME` is refused takes 10,000. The quorum takes 30,000, and a sixth of that reports what each server answered.
const LARGEST: u64 = 420_000;

/// The component that connects by itself.
pub(crate) const TCP: &str = "leasehold-tcp.wasm";

/// Binaryen's passes. `--merge-similar-functions` merges functions that the compiler generated for several types, and
/// saves 2,100 bytes of `lock.wasm`. `--reorder-functions` gives the shortest numbers to the functions with the most
/// calls, and saves 1,100. Repeating all passes until nothing changes would save only 150 bytes and take 25 s.
const FOR_USERS: &[&str] = &[
    "--merge-similar-functions",
    "-Oz",
    "--dae-optimizing",
    "--merge-similar-functions",
    "--low-memory-unused",
    "-Oz",
    "--reorder-functions",
];
const FOR_TESTS: &[&str] = &["-O1"];

/// The WebAssembly features that rustc uses for the target.
const FEATURES: [&str; 7] = [
    "--enable-bulk-memory",
    "--enable-bulk-memory-opt",
    "--enable-multivalue",
    "--enable-mutable-globals",
    "--enable-nontrapping-float-to-int",
    "--enable-reference-types",
    "--enable-sign-ext",
];

/// Builds `lock.wasm`, the components that contain it, and the components that its tests need.
pub(crate) fn all() -> Result<PathBuf> {
    component("leasehold-component-vectors", "vectors.wasm", FOR_TESTS)?;
    let lock = lock()?;
    // This one needs only standard WASI.
    let provider = component("leasehold-tcp-connection", "tcp-connection.wasm", FOR_USERS)?;
    let tcp = plug(&lock, &provider, TCP)?;
    let app = component("leasehold-wasi-app", "nightly-job.alone.wasm", FOR_TESTS)?;
    plug(&app, &tcp, "nightly-job.wasm")?;
    let caller = component("leasehold-component-caller", "caller.alone.wasm", FOR_TESTS)?;
    plug(&caller, &tcp, "caller.wasm")?;
    let liar = component("leasehold-component-liar", "liar.alone.wasm", FOR_TESTS)?;
    plug(&lock, &liar, "lied-to.wasm")?;
    Ok(lock)
}

/// Builds `lock.wasm`.
pub(crate) fn lock() -> Result<PathBuf> {
    let lock = component("leasehold-wasi", "lock.wasm", FOR_USERS)?;
    let size = fs::metadata(&lock)?.len();
    if size > LARGEST {
        return Err(Error::new(format!("lock.wasm is too large: {size} bytes, and the limit is {LARGEST}")));
    }
    Ok(lock)
}

/// A cargo command in the workspace of the programs that embed wasmtime.
pub(crate) fn host(arguments: &[&str]) -> Command {
    let mut command = cargo(arguments);
    command.current_dir(root().join("tests/e2e/component")).env("CARGO_TARGET_DIR", host_target());
    command
}

/// The same, with clippy as the compiler.
pub(crate) fn linted(arguments: &[&str]) -> Command {
    cargo::linted(host(arguments))
}

/// Builds the component's tests.
pub(crate) const SUITE: [&str; 6] = ["test", "--quiet", "--workspace", "--test", "suite", "--no-run"];

/// The target directory of that workspace.
pub(crate) fn host_target() -> PathBuf {
    absolute(&target().join("wasmtime"))
}

/// Builds a guest and makes a component of it.
fn component(package: &str, name: &str, passes: &[&str]) -> Result<PathBuf> {
    wasm::add_target()?;
    // The names that a component exports can only be linked for WebAssembly. So `cdylib` is set here, not in the manifest.
    let build = ["rustc", "--profile", "component", "--package", package, "--target", TARGET];
    run(unlinted(cargo(&build)).args(["--lib", "--crate-type", "cdylib"]))?;
    let built = target().join(TARGET).join("component").join(package.replace('-', "_")).with_extension("wasm");
    fs::create_dir_all(place(""))?;
    let (module, component) = (place(name).with_extension("core.wasm"), place(name));
    let sources =
        [absolute(&built), root().join("bindings-wasi/componentize"), root().join("xtask/src/tools/component.rs")];
    let stamp = Stamp::over(place(name).with_extension("stamp"), &sources, &["node"])?;
    if !stamp.is_current() || !component.exists() {
        stamp.remove();
        say!("optimising {name}");
        optimise(&sources[0], passes, &module)?;
        run(componentize("encode").arg(module).arg(&component))?;
        stamp.set()?;
    }
    Ok(component)
}

/// Joins two built components: the second one's exports become the first one's imports.
fn plug(needs: &Path, provides: &Path, name: &str) -> Result<PathBuf> {
    let component = place(name);
    run(componentize("plug").arg(needs).arg(provides).arg(&component))?;
    Ok(component)
}

/// Whether `cargo test` has built the program that makes components.
static IS_BUILT: AtomicBool = AtomicBool::new(false);

/// From now on, [`all`] runs the program that `cargo test` has built together with others. Alone it would have other features, and
/// its libraries would be built again.
pub(crate) fn tests_are_built() {
    IS_BUILT.store(true, Ordering::Relaxed);
}

fn componentize(what: &str) -> Command {
    if IS_BUILT.load(Ordering::Relaxed) {
        let mut command = Command::new(absolute(&target().join("debug/leasehold-componentize")));
        command.current_dir(root()).arg(what);
        return command;
    }
    cargo(&["run", "--quiet", "--package", "leasehold-componentize", "--", what])
}

/// The path of a built component.
pub(crate) fn place(name: &str) -> PathBuf {
    absolute(&target().join("wasi")).join(name)
}

/// Runs Binaryen, which is one of the npm package's tools.
fn optimise(module: &Path, passes: &[&str], optimised: &Path) -> Result {
    node::check()?;
    let package = node::package();
    node::install(&package)?;
    let mut command = node(&package, &["node_modules/binaryen/bin/wasm-opt"]);
    run(command.args(passes).arg("--strip-debug").args(FEATURES).arg(module).arg("--output").arg(optimised))
}

/// An absolute path, because other programs run in other directories.
fn absolute(path: &Path) -> PathBuf {
    root().join(path)
}
