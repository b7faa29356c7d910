//! The npm package: WebAssembly, its JavaScript, TypeScript, and the tarball.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use leasehold_servers::find;

use super::cargo::{cargo, ourselves, root, run, target, unlinted};
use super::error::Result;
use super::log::say;
use super::node::{self, node, npm};
use super::stamp::Stamp;
use super::wasm::{self, TARGET};

/// How much work goes into the WebAssembly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// For users: as small as possible.
    Full,
    /// For tests: in a third of the time. It never goes into a package.
    Quick,
}

/// Builds the WebAssembly and runs the tests beside the sources, while another command uses the target directory.
pub(crate) fn tests_beside(effort: Effort) -> Result<Command> {
    let mut command = ourselves(&["package", "--wasm-only", "--test"])?;
    command.args((effort == Effort::Quick).then_some("--quick"));
    command.env("CARGO_TARGET_DIR", directory());
    // Found here, because a server that has to be installed goes to the target directory.
    command.env("LEASEHOLD_SERVER", find()?);
    Ok(command)
}

/// The target directory for WebAssembly, which is built while another cargo uses the main one. What makes JavaScript of it is built
/// only here, too.
pub(crate) fn directory() -> PathBuf {
    root().join(target()).join("package")
}

/// A command with that target directory.
pub(crate) fn apart(mut command: Command) -> Command {
    command.env("CARGO_TARGET_DIR", directory());
    command
}

/// Runs the tests beside the sources.
pub(crate) fn test() -> Result {
    run(npm(&node::package(), &["test", "--silent"]).env("LEASEHOLD_SERVER", find()?))
}

/// Makes the tarball that would be published, and returns its path.
pub(crate) fn tarball() -> Result<PathBuf> {
    generate(Effort::Full)?;
    let stamp = Stamp::over(place().with_extension("stamp"), &sources(&TARBALL), &["node", "npm"])?;
    if stamp.is_current() && place().is_file() {
        say!("the npm package is up to date: {}", place().display());
        return Ok(place());
    }
    stamp.remove();
    let package = node::package();
    let staged = target().join("npm").join("package");
    let _ = fs::remove_file(place());
    run(&mut node(&package, &["build/bundle.mjs"]))?;
    run(node(&package, &["build/stage.mjs"]).arg(&staged))?;
    run(npm(&staged, &["pack", "--pack-destination", ".."]).stdout(Stdio::null()))?;
    stamp.set()?;
    Ok(place())
}

/// Where the tarball is, once it is made.
pub(crate) fn place() -> PathBuf {
    target().join("npm").join(format!("leasehold-{}.tgz", env!("CARGO_PKG_VERSION")))
}

/// Checks the sources' types, and what programs that import the tarball would find.
pub(crate) fn check(tarball: &Path) -> Result {
    let stamp = Stamp::over(tarball.with_extension("checked"), &[node::package(), tarball.to_owned()], &["node"])?;
    if stamp.is_current() {
        say!("the npm package was already checked");
        return Ok(());
    }
    let package = node::package();
    run(&mut npm(&package, &["run", "--silent", "types"]))?;
    run(npm(&package, &["exec", "--no", "--", "publint", "run", "--strict"]).arg(tarball))?;
    run(npm(&package, &["exec", "--no", "--", "attw"]).arg(tarball))?;
    say!("{}", tarball.display());
    stamp.set()
}

/// Writes the engine, the server in memory, their JavaScript and the scripts' texts to `bindings-js/generated/`.
pub(crate) fn generate(effort: Effort) -> Result {
    node::check()?;
    let package = node::package();
    node::install(&package)?;
    let generated = package.join("generated");
    let stamp = |name: &str| Stamp::over(generated.join(name), &sources(&WASM), &["rustc", "node"]);
    let (full, quick) = (stamp(".stamp")?, stamp(".quick")?);
    if full.is_current() || effort == Effort::Quick && quick.is_current() {
        say!("the WebAssembly is up to date: {}", generated.join("core.wasm").display());
        return Ok(());
    }
    full.remove();
    quick.remove();
    wasm::add_target()?;
    bind(effort, "leasehold-js", &[], &generated)?;
    bind(effort, "leasehold-js", &["--features", "quorum"], &generated.join("quorum"))?;
    bind(effort, "leasehold-js-memory", &[], &generated.join("memory"))?;
    run(cargo(&BINDGEN).arg(generated.join("scripts.ts")))?;
    let mut optimise = node(&package, &["build/wasm.mjs"]);
    run(optimise.args((effort == Effort::Quick).then_some("--quick")))?;
    if effort == Effort::Full { full.set() } else { quick.set() }
}

/// Builds a crate with these features as WebAssembly, and its JavaScript.
fn bind(effort: Effort, package: &str, features: &[&str], directory: &Path) -> Result {
    let profile = if effort == Effort::Full { "wasm" } else { "wasm-quick" };
    let build = ["build", "--quiet", "--profile", profile, "--package", package, "--target", TARGET];
    run(reproducible(&build).args(features))?;
    let module = target().join(TARGET).join(profile).join(format!("{}.wasm", package.replace('-', "_")));
    run(cargo(&BINDGEN).arg(module).arg(directory))
}

/// A cargo command that makes the same bytes on every machine. It hides where the sources are, and ignores the machine's own flags.
pub(crate) fn reproducible(arguments: &[&str]) -> Command {
    let mut command = unlinted(cargo(arguments));
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    if let Some(home) = home.or_else(|| env::home_dir().map(|home| home.join(".cargo"))) {
        command.env("CARGO_ENCODED_RUSTFLAGS", format!("--remap-path-prefix={}=cargo", home.display()));
    }
    command
}

/// Writes the JavaScript around a WebAssembly module.
pub(crate) const BINDGEN: [&str; 5] = ["run", "--quiet", "--package", "leasehold-js-bindgen", "--"];

/// The sources of the WebAssembly.
pub(crate) const WASM: [&str; 13] = [
    "Cargo.toml",
    "Cargo.lock",
    "core/Cargo.toml",
    "core/src",
    "lua",
    "memory/Cargo.toml",
    "memory/src",
    "bindings-js/Cargo.toml",
    "bindings-js/src",
    "bindings-js/memory",
    "bindings-js/bindgen",
    "bindings-js/build",
    "bindings-js/package-lock.json",
];

/// The other sources of the tarball.
const TARBALL: [&str; 6] = [
    "bindings-js",
    "bindings-js/generated/core.wasm",
    "bindings-js/generated/quorum/quorum.wasm",
    "bindings-js/generated/memory/memory.wasm",
    "LICENSE-MIT",
    "LICENSE-APACHE",
];

fn sources(paths: &[&str]) -> Vec<PathBuf> {
    paths.iter().map(|path| root().join(path)).collect()
}
