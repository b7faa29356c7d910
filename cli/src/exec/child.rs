//! The command: its process group, its end, and the signals that it gets.

use std::fmt;
use std::os::unix::process::CommandExt as _;

use leasehold::Fence;
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};

use super::guard::{Deadline, Guard};
use super::job::{Held, Job};
use super::lookup::not_started;
use super::start;
use super::terminal::Terminal;
use crate::report::{Failure, Outcome, Output};
use crate::signals;
use crate::taking::TOKEN;

/// The signals that are passed on. The terminal's stop signals keep their meaning.
pub(super) const FORWARDED: [Signal; 8] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGWINCH,
];

/// The command, as the leader of its own process group.
pub(super) struct Child {
    pid: Pid,
    /// Set when the leader was waited for. Its id may then soon belong to another process.
    reaped: bool,
    terminal: Option<Terminal>,
    changes: SignalStream,
}

/// How the command ended.
#[derive(Clone, Copy)]
pub(super) enum Ended {
    Exited(i32),
    Signalled(Signal),
}

impl Child {
    /// Starts the command. The guard knows it from its first moment on.
    pub(super) fn spawn(
        job: &Job<'_>,
        fence: Fence,
        (guard, deadline): (&Guard, Deadline),
        output: Output,
    ) -> Outcome<Self> {
        let (program, rest) = (job.program.name(), job.program.arguments());
        let changes =
            signal(SignalKind::child()).map_err(|error| Failure::system("can't wait for processes", error))?;
        let mut command = start::command(program, guard, deadline, output)?;
        command.args(rest).process_group(0);
        command.env("LEASEHOLD_FENCE", fence.to_string()).env("LEASEHOLD_NAME", job.name);
        // A token works once, and `--adopt` has used this one.
        if job.has_adopted {
            command.env_remove(TOKEN);
        }
        let child = command.spawn().map_err(|error| not_started(program, error))?;
        let pid = i32::try_from(child.id()).map_err(|error| Failure::system("can't start the command", error))?;
        let terminal = Terminal::of_foreground();
        let child = Self { pid: Pid::from_raw(pid), reaped: false, terminal, changes };
        if let Some(terminal) = &child.terminal {
            terminal.give_to(child.pid);
        }
        Ok(child)
    }

    pub(super) fn group(&self) -> Pid {
        self.pid
    }

    /// Resolves with `Some` when the command ended, and with `None` when it was stopped, for example by Ctrl-Z.
    pub(super) async fn changed(&mut self) -> Outcome<Option<Ended>> {
        loop {
            let status = waitpid(self.pid, Some(WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED));
            let ended = match status {
                Ok(WaitStatus::Exited(_, code)) => Ended::Exited(code),
                Ok(WaitStatus::Signaled(_, signal, _)) => Ended::Signalled(signal),
                Ok(WaitStatus::Stopped(..)) => return Ok(None),
                Ok(_) | Err(Errno::EINTR) => {
                    self.changes.recv().await;
                    continue;
                }
                Err(error) => return Err(Failure::system("can't wait for the command", error)),
            };
            self.reaped = true;
            if let Some(terminal) = &self.terminal {
                terminal.take_back();
                if matches!(ended, Ended::Signalled(_)) {
                    terminal.restore();
                }
            }
            return Ok(Some(ended));
        }
    }

    /// Sends a signal to the command and to the processes that it started. They may have ended already.
    pub(super) fn signal(&self, signal: Signal) {
        if !self.reaped || self.group_lives() {
            let _ = killpg(self.pid, signal);
        }
    }

    /// Whether a process of the group is left, after the command itself has ended.
    pub(super) fn group_lives(&self) -> bool {
        // As the first process of a container, this one is the parent of all that lost theirs.
        let _ = waitpid(Pid::from_raw(-self.pid.as_raw()), Some(WaitPidFlag::WNOHANG));
        killpg(self.pid, None) != Err(Errno::ESRCH)
    }

    /// The command was stopped. If it had the terminal, its shell must get it: stops this process, too. After `fg` or
    /// `bg`, the command continues only if the lease is still held.
    pub(super) fn follow_stop(&self, held: &Held) {
        let Some(terminal) = &self.terminal else { return };
        terminal.take_back();
        terminal.stop_own_group();
        if !held.remaining().is_zero() {
            terminal.give_to(self.pid);
            self.signal(Signal::SIGCONT);
        }
    }
}

impl Ended {
    /// The exit status as shells have it.
    pub(super) fn status(self) -> u8 {
        match self {
            Self::Exited(code) => u8::try_from(code).unwrap_or(u8::MAX),
            Self::Signalled(signal) => signals::status(signal),
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exited with status {code}"),
            Self::Signalled(signal) => write!(f, "was ended by {signal}"),
        }
    }
}
