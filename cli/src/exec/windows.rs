//! The command on Windows: it and all processes that it starts are one job. The system ends a job when `exec` is gone,
//! so there is no second process that guards it. A process can't be asked to end, so it is ended at once where Unix sends
//! SIGTERM.

use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

use leasehold::Fence;
use process_wrap::tokio::{ChildWrapper, CommandWrap, JobObject, KillOnDrop};

use super::job::{Held, Job};
use crate::report::{Failure, Outcome, Output};
use crate::signals::Signal;
use crate::taking::TOKEN;

/// What ends the wait for a lock. The command is at the same console, so it gets the console's events itself.
pub(super) const FORWARDED: [Signal; 3] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM];

/// There are no helper processes.
pub(crate) fn helper() -> Option<ExitCode> {
    None
}

/// The command with its job.
pub(super) struct Child {
    child: Box<dyn ChildWrapper>,
    /// Whether to wait for all processes of the job.
    group: bool,
}

/// How the command ended.
#[derive(Clone, Copy)]
pub(super) struct Ended(Option<i32>);

impl Child {
    pub(super) fn spawn(job: &Job<'_>, fence: Fence, (_, _): (&Guard, Deadline), _output: Output) -> Outcome<Self> {
        let (program, rest) = (job.program.name(), job.program.arguments());
        let mut command = CommandWrap::with_new(program, |command| {
            command.args(rest);
            command.env("LEASEHOLD_FENCE", fence.to_string()).env("LEASEHOLD_NAME", job.name);
            // A token works once, and `--adopt` has used this one.
            if job.has_adopted {
                command.env_remove(TOKEN);
            }
        });
        let child = command.wrap(KillOnDrop).wrap(JobObject).spawn();
        let child = child.map_err(|error| lookup::not_executable(program, &error.to_string()))?;
        Ok(Self { child, group: job.program.group })
    }

    /// The job needs no name.
    pub(super) fn group(&self) {}

    /// Resolves when the command ended; with `--group`, when all processes of the job have.
    pub(super) async fn changed(&mut self) -> Outcome<Option<Ended>> {
        let status = if self.group { self.child.wait().await } else { self.child.inner_mut().wait().await };
        let status = status.map_err(|error| Failure::system("can't wait for the command", error))?;
        Ok(Some(Ended(status.code())))
    }

    /// Ends the job. All other signals come from the console, and reach the command without us.
    pub(super) fn signal(&mut self, signal: Signal) {
        if matches!(signal, Signal::SIGTERM | Signal::SIGKILL) {
            let _ = self.child.start_kill();
        }
    }

    /// [`changed`](Self::changed) has waited for it.
    pub(super) fn group_lives(&self) -> bool {
        false
    }

    /// Commands are never stopped.
    pub(super) fn follow_stop(&self, _held: &Held) {}
}

impl Ended {
    /// The exit status. Windows has greater ones.
    pub(super) fn status(self) -> u8 {
        self.0.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(code) => write!(f, "exited with status {code}"),
            None => f.write_str("was ended"),
        }
    }
}

/// The system guards the job.
pub(super) struct Guard;

impl Guard {
    pub(super) fn start(_grace: Duration) -> Outcome<Self> {
        Ok(Self)
    }

    pub(super) fn lease_ends(&mut self, (): (), _deadline: Deadline) {}

    pub(super) fn kill_in(&mut self, (): (), _grace: Duration) {}

    /// Returns whether the guard has ended the command.
    pub(super) fn call_off(&mut self) -> bool {
        false
    }
}

/// When a command ends unless its lease is renewed.
#[derive(Clone, Copy)]
pub(super) struct Deadline;

impl Deadline {
    pub(super) fn of(_remaining: Duration, _lead: Duration) -> Self {
        Self
    }
}

/// Looks whether a command can be run, as the system will do it.
pub(super) mod lookup {
    use std::env;
    use std::ffi::OsStr;
    use std::path::{Path, PathBuf};

    use crate::report::{Failure, Outcome, exit};

    /// Checks that the command exists.
    pub(crate) fn check(program: &OsStr) -> Outcome<()> {
        let given = Path::new(program);
        let beside = env::current_exe().ok().and_then(|path| path.parent().map(PathBuf::from));
        let paths = env::var_os("PATH").unwrap_or_default();
        let places: Vec<PathBuf> = if given.components().count() > 1 {
            vec![PathBuf::new()]
        } else {
            beside.into_iter().chain(env::split_paths(&paths)).collect()
        };
        let is_there = |place: &PathBuf| {
            let path = place.join(given);
            path.is_file() || given.extension().is_none() && path.with_extension("exe").is_file()
        };
        if places.iter().any(is_there) {
            return Ok(());
        }
        let message = format!("{}: there is no such command", program.display());
        let remedy = "check the name and PATH; give the name's end if it is not .exe; the lock was not taken";
        Err(Failure::new(exit::NOT_FOUND, "command-not-found", message, remedy))
    }

    pub(crate) fn not_executable(program: &OsStr, why: &str) -> Failure {
        let message = format!("{}: can't be executed: {why}", program.display());
        Failure::new(exit::NOT_EXECUTABLE, "command-not-executable", message, "check that the file is a program")
    }
}
