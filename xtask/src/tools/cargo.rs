use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use super::error::{Error, Result};
use super::log;

const TARGET: &str = "CARGO_TARGET_DIR";

/// A cargo command in the root of the workspace.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(arguments);
    if env::var_os(TARGET).is_some() {
        command.env(TARGET, target());
    }
    if is_linting() { linted(command) } else { command }
}

/// Whether clippy compiles.
static LINTING: AtomicBool = AtomicBool::new(false);
/// The same, for commands of ours.
const LINTED: &str = "LEASEHOLD_LINTED";

/// From now on, clippy compiles what is built for tests, with warnings as errors. `cargo clippy` would check all other
/// libraries once more, which takes minutes.
pub(crate) fn lint_what_is_built() {
    LINTING.store(true, Ordering::Relaxed);
}

/// Whether clippy compiles what is built for tests.
pub(crate) fn is_linting() -> bool {
    LINTING.load(Ordering::Relaxed) || env::var_os(LINTED).is_some()
}

const WRAPPER: &str = "RUSTC_WORKSPACE_WRAPPER";

/// The same command, with clippy as the compiler and warnings as errors.
pub(crate) fn linted(mut command: Command) -> Command {
    command.env(WRAPPER, "clippy-driver");
    // The form in which `cargo clippy -- -D warnings` passes its arguments on.
    command.env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
    command
}

/// The same command, with the compiler itself. Clippy leaves out optimisations.
pub(crate) fn unlinted(mut command: Command) -> Command {
    command.env_remove(WRAPPER);
    command
}

/// Runs a command. What it prints goes to the log of the step, or outside a step to our terminal.
pub(crate) fn run(command: &mut Command) -> Result {
    let status = log::status(command).map_err(|error| Error::new(format!("{}: {error}", shown(command))))?;
    if status.success() { Ok(()) } else { Err(Error::new(format!("`{}` failed ({status})", shown(command)))) }
}

/// Installs a target of the compiler if it is missing.
pub(crate) fn add_target(target: &str) -> Result {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output()?;
    let sysroot = String::from_utf8_lossy(&sysroot.stdout).trim().to_owned();
    if fs::exists(format!("{sysroot}/lib/rustlib/{target}"))? {
        return Ok(());
    }
    run(Command::new("rustup").args(["target", "add", target]))
}

/// Another command of this program: of the file that runs, also after a build has put another in its place.
pub(crate) fn ourselves(arguments: &[&str]) -> Result<Command> {
    // Not `/proc/self`: what starts it may be another program, like `nice`.
    let running = PathBuf::from(format!("/proc/{}/exe", std::process::id()));
    let mut command = Command::new(if cfg!(target_os = "linux") { running } else { env::current_exe()? });
    command.args(arguments);
    if is_linting() {
        command.env(LINTED, "1");
    }
    Ok(command)
}

/// Runs a command that builds one program. Returns its path.
pub(crate) fn built_program(command: &mut Command) -> Result<PathBuf> {
    let output = command.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(Error::new(format!("`{}` failed ({})", shown(command), output.status)));
    }
    let mut messages = output.stdout.rsplit(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    let program = messages.find_map(|message: serde_json::Value| message["executable"].as_str().map(PathBuf::from));
    program.ok_or_else(|| Error::new(format!("`{}` built no program", shown(command))))
}

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Cargo's target directory.
pub(crate) fn target() -> PathBuf {
    let chosen = env::var_os(TARGET).map(PathBuf::from);
    // A relative path is meant from where the user is, but most commands run in the workspace's root.
    chosen.map_or_else(|| root().join("target"), |path| std::path::absolute(&path).unwrap_or(path))
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let program = words.first().and_then(|path| Path::new(path).file_name()).map(|name| name.to_string_lossy());
    format!("{} {}", program.unwrap_or_default(), words.get(1..).unwrap_or_default().join(" "))
}
