use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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
    command
}

/// Runs a command. What it prints goes to the log of the step, or outside a step to our terminal.
pub(crate) fn run(command: &mut Command) -> Result {
    let status = log::status(command).map_err(|error| Error::new(format!("{}: {error}", shown(command))))?;
    if status.success() { Ok(()) } else { Err(Error::new(format!("`{}` failed ({status})", shown(command)))) }
}

/// Another command of this program.
pub(crate) fn ourselves(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.args(arguments);
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
