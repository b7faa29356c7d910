//! A command that runs beside a step.

use std::io::Read;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};

use leasehold_servers::Process;

use super::error::{Error, Result};
use super::log;

/// A command that runs beside others. Dropping it ends it.
pub(crate) struct Background {
    what: &'static str,
    process: Process,
    output: Option<JoinHandle<String>>,
    errors: Option<JoinHandle<String>>,
}

impl Background {
    /// Starts a command. If it builds something, it must use a target directory of its own, because cargo locks it.
    pub(crate) fn start(what: &'static str, mut command: Command) -> Result<Self> {
        let mut process = Process::spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()))?;
        let (output, errors) = (process.take_stdout().map(collected), process.take_stderr().map(collected));
        Ok(Self { what, process, output, errors })
    }

    /// Waits for the command, and prints its output.
    pub(crate) fn wait(mut self) -> Result {
        let text =
            |thread: Option<JoinHandle<String>>| thread.and_then(|thread| thread.join().ok()).unwrap_or_default();
        // What it leaves behind would keep the pipes open.
        let status = self.process.finish()?;
        let (output, errors) = (text(self.output.take()), text(self.errors.take()));
        log::add(output.trim_end());
        if status.success() {
            return Ok(());
        }
        log::add(errors.trim_end());
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

#[cfg(test)]
mod tests {
    use super::Background;
    use std::process::Command;

    #[test]
    fn a_failed_command_is_told_when_it_is_waited_for() {
        Background::start("nothing", Command::new("true")).unwrap().wait().unwrap();
        let text = Background::start("this", Command::new("false")).unwrap().wait().unwrap_err().to_string();
        assert!(text.starts_with("this failed"), "{text}");
    }
}
