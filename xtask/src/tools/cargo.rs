use std::env;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::{Error, Result};

/// How many tests a command ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// How a Rust test says that it can't run here, after which it passes: `skipped: this server has no TLS`.
const SKIPPED: &str = "skipped: ";

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

/// Runs a command that prints to our terminal.
pub(crate) fn run(command: &mut Command) -> Result {
    let status = command.status().map_err(|error| Error::new(format!("{}: {error}", shown(command))))?;
    if status.success() { Ok(()) } else { Err(Error::new(format!("`{}` failed ({status})", shown(command)))) }
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

/// Runs a command that runs tests. Forwards its output and counts the tests that it reports.
pub(crate) fn run_counted(command: &mut Command) -> (Tally, Result) {
    let mut tally = Tally::default();
    let mut child = match command.stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => return (tally, Err(Error::new(format!("{}: {error}", shown(command))))),
    };
    let lines = child.stdout.take().map(|output| BufReader::new(output).lines());
    for line in lines.into_iter().flatten().map_while(std::result::Result::ok) {
        println!("{line}");
        if let Some(more) = tally_of(&line).or_else(|| node_tally_of(&line)) {
            tally += more;
        }
        if line.contains(SKIPPED) {
            tally.passed = tally.passed.saturating_sub(1);
            tally.skipped += 1;
        }
    }
    let outcome = match child.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Error::new(format!("`{}` failed ({status})", shown(command)))),
        Err(error) => Err(error.into()),
    };
    (tally, outcome)
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

/// Reads `test result: ok. 8 passed; 0 failed; 1 ignored; ...`.
fn tally_of(line: &str) -> Option<Tally> {
    let counts = line.trim_start().strip_prefix("test result: ")?.split_once(". ")?.1;
    let count_of = |what: &str| counts.split("; ").find_map(|part| part.strip_suffix(what)?.trim().parse().ok());
    Some(Tally { passed: count_of(" passed")?, failed: count_of(" failed")?, skipped: count_of(" ignored")? })
}

/// Reads `ℹ pass 8`, `ℹ fail 0` and `ℹ skipped 0`, the last lines of Node's own test runner.
fn node_tally_of(line: &str) -> Option<Tally> {
    let (what, count) = line.strip_prefix("ℹ ")?.split_once(' ')?;
    let count = count.trim().parse().ok()?;
    match what {
        "pass" => Some(Tally { passed: count, ..Tally::default() }),
        "fail" => Some(Tally { failed: count, ..Tally::default() }),
        "skipped" => Some(Tally { skipped: count, ..Tally::default() }),
        _ => None,
    }
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let program = words.first().and_then(|path| Path::new(path).file_name()).map(|name| name.to_string_lossy());
    format!("{} {}", program.unwrap_or_default(), words.get(1..).unwrap_or_default().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_harness_summary_is_read() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.25s";
        assert_eq!(tally_of(line), Some(Tally { passed: 12, failed: 3, skipped: 1 }));
        assert_eq!(tally_of("test result of something else"), None);
    }

    #[test]
    fn the_summary_of_node_is_read() {
        assert_eq!(node_tally_of("ℹ pass 12"), Some(Tally { passed: 12, ..Tally::default() }));
        assert_eq!(node_tally_of("ℹ fail 3"), Some(Tally { failed: 3, ..Tally::default() }));
        assert_eq!(node_tally_of("ℹ duration_ms 81.5"), None);
    }
}
