//! A build that runs beside tests which mostly wait.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};

use leasehold_servers::Process;

use crate::error::{Error, Result};

/// A build of low priority. Dropping it ends it.
pub(crate) struct Background {
    what: &'static str,
    process: Process,
    output: Option<JoinHandle<String>>,
}

impl Background {
    /// Starts a build. It must use a target directory of its own, because cargo locks it.
    pub(crate) fn start(what: &'static str, build: &Command) -> Result<Self> {
        println!("{what} is built in the background");
        let mut command = when_idle();
        command.arg(build.get_program()).args(build.get_args());
        for (name, value) in build.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(directory) = build.get_current_dir() {
            command.current_dir(directory);
        }
        let mut process = Process::spawn(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()))?;
        let output = process.take_stderr().map(|mut output| {
            thread::spawn(move || {
                let mut text = String::new();
                let _ = output.read_to_string(&mut text);
                text
            })
        });
        Ok(Self { what, process, output })
    }

    /// Waits for the build. Prints its output only if it failed.
    pub(crate) fn wait(mut self) -> Result {
        let output = self.output.take().and_then(|output| output.join().ok()).unwrap_or_default();
        let status = self.process.wait()?;
        if status.success() {
            return Ok(());
        }
        eprintln!("{output}");
        Err(Error::new(format!("{}: the build failed ({status})", self.what)))
    }
}

/// Runs a program only while the processor has nothing else to do. With `nice` alone, Linux lets the program finish its
/// time slice first, and tests that measure milliseconds would see it.
fn when_idle() -> Command {
    let has_chrt = Command::new("chrt").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let (program, arguments) = match has_chrt {
        Ok(status) if status.success() => ("chrt", ["--idle", "0"]),
        _ => ("nice", ["-n", "19"]),
    };
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

#[cfg(test)]
mod tests {
    use super::Background;
    use std::process::Command;

    #[test]
    fn a_failed_build_is_told_when_it_is_waited_for() {
        Background::start("nothing", &Command::new("true")).unwrap().wait().unwrap();
        let text = Background::start("this", &Command::new("false")).unwrap().wait().unwrap_err().to_string();
        assert!(text.starts_with("this: the build failed"), "{text}");
    }
}
