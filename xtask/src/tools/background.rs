//! A command that runs beside tests which mostly wait.

use std::io::Read;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};

use leasehold_servers::Process;

use super::error::{Error, Result};

/// A command of low priority. Dropping it ends it.
pub(crate) struct Background {
    what: &'static str,
    process: Process,
    output: Option<JoinHandle<String>>,
    errors: Option<JoinHandle<String>>,
}

impl Background {
    /// Starts a command. If it builds something, it must use a target directory of its own, because cargo locks it.
    pub(crate) fn start(what: &'static str, task: &Command) -> Result<Self> {
        println!("in the background: {what}");
        let mut command = when_idle();
        command.arg(task.get_program()).args(task.get_args());
        for (name, value) in task.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(directory) = task.get_current_dir() {
            command.current_dir(directory);
        }
        let mut process = Process::spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()))?;
        let (output, errors) = (process.take_stdout().map(collected), process.take_stderr().map(collected));
        Ok(Self { what, process, output, errors })
    }

    /// Waits for the command and prints its output. What it wrote to standard error is printed only if it failed.
    pub(crate) fn wait(mut self) -> Result {
        let text =
            |thread: Option<JoinHandle<String>>| thread.and_then(|thread| thread.join().ok()).unwrap_or_default();
        let (output, errors) = (text(self.output.take()), text(self.errors.take()));
        let status = self.process.wait()?;
        print!("{output}");
        if status.success() {
            return Ok(());
        }
        eprintln!("{errors}");
        Err(Error::new(format!("{} failed ({status})", self.what)))
    }
}

/// Reads everything that a process writes.
fn collected(mut output: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = output.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
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
    fn a_failed_command_is_told_when_it_is_waited_for() {
        Background::start("nothing", &Command::new("true")).unwrap().wait().unwrap();
        let text = Background::start("this", &Command::new("false")).unwrap().wait().unwrap_err().to_string();
        assert!(text.starts_with("this failed"), "{text}");
    }
}
