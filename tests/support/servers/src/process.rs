use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

use crate::Error;

/// A child process that can be killed and paused, and that never outlives this process.
///
/// It runs in its own process group, so Ctrl-C doesn't reach it. Dropping it kills it and what it started.
#[derive(Debug)]
pub struct Process {
    child: Child,
    watchdog: Child,
}

impl Process {
    /// Starts the program.
    ///
    /// # Errors
    /// If the program, or the `sh` that watches it, can't be started.
    pub fn spawn(command: &mut Command) -> Result<Self, Error> {
        Self::spawn_in(command, Path::new(""))
    }

    /// As [`Process::spawn`]. If this process dies, the directory is removed together with the child.
    pub(crate) fn spawn_in(command: &mut Command, directory: &Path) -> Result<Self, Error> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command.process_group(0).spawn().map_err(Error::io(format!("starting {name}")))?;
        match watchdog(child.id(), directory) {
            Ok(watchdog) => Ok(Self { child, watchdog }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(Error::io("starting sh")(error))
            }
        }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The pipe to its standard input, if it was requested. Only the first call returns it.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// The pipe from its standard output, if it was requested. Only the first call returns it.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// The pipe from its standard error, if it was requested. Only the first call returns it.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// The exit status. `None` while the process runs.
    ///
    /// # Errors
    /// If the operating system can't tell.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, Error> {
        let status = self.child.try_wait().map_err(Error::io("looking after a process"))?;
        if status.is_some() {
            self.call_off();
        }
        Ok(status)
    }

    /// Waits until the process exits.
    ///
    /// # Errors
    /// If the operating system can't tell.
    pub fn wait(&mut self) -> Result<ExitStatus, Error> {
        let status = self.child.wait().map_err(Error::io("waiting for a process"))?;
        self.call_off();
        Ok(status)
    }

    /// Waits until the process exits, and kills what it leaves behind.
    ///
    /// # Errors
    /// If the operating system can't tell.
    pub fn finish(&mut self) -> Result<ExitStatus, Error> {
        let pid = Pid::from_child(&self.child);
        // Its id belongs to no other process until its status is taken.
        let exited = || waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        if retry_on_intr(exited).is_ok() {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        self.wait()
    }

    /// Kills the process and what it started at once (SIGKILL), and waits until it has exited.
    pub fn kill(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        }
        self.call_off();
        let _ = self.child.wait();
    }

    /// Asks the process to exit (SIGTERM).
    ///
    /// # Errors
    /// If the process no longer runs.
    pub fn terminate(&self) -> Result<(), Error> {
        self.signal(Signal::TERM)
    }

    /// Pauses the process (SIGSTOP). Its connections stay open.
    ///
    /// # Errors
    /// If the process no longer runs.
    pub fn pause(&self) -> Result<(), Error> {
        self.signal(Signal::STOP)
    }

    /// Resumes the process after a pause (SIGCONT).
    ///
    /// # Errors
    /// If the process no longer runs.
    pub fn resume(&self) -> Result<(), Error> {
        self.signal(Signal::CONT)
    }

    /// Ends the watchdog together with the child, because the process id may soon belong to another process.
    fn call_off(&mut self) {
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
    }

    fn signal(&self, signal: Signal) -> Result<(), Error> {
        kill_process(Pid::from_child(&self.child), signal)
            .map_err(|error| Error::io("signalling a process")(error.into()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A shell that reads from a pipe whose other end only this process holds. However this process ends, the pipe closes,
/// and the shell kills the child's group.
fn watchdog(pid: u32, directory: &Path) -> io::Result<Child> {
    Command::new("sh")
        .args(["-c", r#"read -r _; kill -9 "-$1"; [ -z "$2" ] || rm -rf -- "$2""#, "watchdog"])
        .arg(pid.to_string())
        .arg(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}
