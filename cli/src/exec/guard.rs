//! The guard: a second process that ends the command when `leasehold exec` can't. It is killed, or paused while the
//! lease runs out.
//!
//! `exec` writes lines to the guard's standard input. No other process has the pipe, so its end says that `exec` is gone.
//!
//! | line | meaning |
//! |---|---|
//! | `lease <group> <time>` | The lease ends at this time unless another line comes. |
//! | `kill <group> <time>` | The group has got SIGTERM, and gets SIGKILL at this time. |
//! | `done` | The command has ended. |
//!
//! Times are nanoseconds of a clock that all processes of the machine share.

use std::io::{self, BufRead as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{self, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use crate::args::Guard as Arguments;
use crate::report::{Failure, Outcome};

/// How often the guard looks whether the group has ended.
const POLL: Duration = Duration::from_millis(20);

/// The side of `exec`.
pub(super) struct Guard {
    process: process::Child,
    pipe: Option<ChildStdin>,
    grace: Duration,
}

impl Guard {
    pub(super) fn start(grace: Duration) -> Outcome<Self> {
        let failed = |error: io::Error| Failure::system("can't start the guard process", error);
        // The path may lead to a newer version by now. Linux can start this very program again.
        let own = if cfg!(target_os = "linux") {
            "/proc/self/exe".into()
        } else {
            std::env::current_exe().map_err(failed)?
        };
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX).to_string();
        let mut process = Command::new(own)
            .arg0("leasehold")
            .args(["guard", &grace_ms])
            .env_remove("REDIS_URL")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let pipe = process.stdin.take();
        if let Some(pipe) = &pipe {
            // A guard that is stopped must not stop us.
            fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(|error| failed(error.into()))?;
        }
        Ok(Self { process, pipe, grace })
    }

    pub(super) fn lease_ends_in(&mut self, group: Pid, remaining: Duration) {
        self.tell(&format!("lease {group} {}", in_future(remaining)));
    }

    pub(super) fn kill_in(&mut self, group: Pid, grace: Duration) {
        self.tell(&format!("kill {group} {}", in_future(grace)));
    }

    /// The command has ended.
    pub(super) fn call_off(&mut self) {
        self.write("done");
        self.pipe = None;
        let _ = self.process.wait();
    }

    /// Starts another guard if somebody killed this one.
    fn tell(&mut self, line: &str) {
        if self.write(line) {
            return;
        }
        let _ = self.process.wait();
        if let Ok(another) = Self::start(self.grace) {
            *self = another;
            self.write(line);
        }
    }

    /// Returns whether the guard lives.
    fn write(&mut self, line: &str) -> bool {
        // One write, so that a line is either there or not.
        let line = format!("{line}\n");
        let written = self.pipe.as_mut().map(|pipe| pipe.write_all(line.as_bytes()));
        !matches!(written, Some(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// What the guard knows.
#[derive(Clone, Copy)]
enum State {
    Idle,
    Leased { group: Pid, until: u64 },
    Terminated { group: Pid, kill_at: u64 },
}

/// The guard process.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    // What ends the command or the whole service must not end its guard first.
    SigSet::all().thread_block().map_err(|error| Failure::system("can't block signals", error))?;
    let grace = Duration::from_millis(arguments.grace_ms);
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let mut state = State::Idle;
    loop {
        let wake = match state {
            State::Idle => None,
            State::Leased { until: at, .. } | State::Terminated { kill_at: at, .. } => Some(at),
        };
        let line = match wake {
            None => lines.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(at) => lines.recv_timeout(Duration::from_nanos(at.saturating_sub(now()))),
        };
        match (line, state) {
            (Ok(line), _) if line == "done" => return Ok(0),
            (Ok(line), _) => state = state.after(&line),
            (Err(RecvTimeoutError::Timeout), _) => state = state.overdue(grace),
            (Err(RecvTimeoutError::Disconnected), _) => return Ok(alone(state, grace)),
        }
    }
}

impl State {
    fn after(self, line: &str) -> Self {
        let mut words = line.split(' ');
        let (what, group, time) = (words.next(), words.next(), words.next());
        let group = group.and_then(|group| group.parse().ok()).filter(|group| *group > 1).map(Pid::from_raw);
        let (Some(group), Some(time)) = (group, time.and_then(|time| time.parse().ok())) else { return self };
        match (what, self) {
            // A lease that has ended never comes back.
            (_, Self::Terminated { kill_at, .. }) => Self::Terminated { group, kill_at: kill_at.min(time) },
            (Some("lease"), _) => Self::Leased { group, until: time },
            (Some("kill"), _) => Self::Terminated { group, kill_at: time },
            _ => self,
        }
    }

    /// No line came in time: `exec` is paused.
    fn overdue(self, grace: Duration) -> Self {
        match self {
            Self::Idle => Self::Idle,
            Self::Leased { group, .. } => {
                terminate(group);
                Self::Terminated { group, kill_at: in_future(grace) }
            }
            Self::Terminated { group, .. } => {
                let _ = killpg(group, Signal::SIGKILL);
                Self::Idle
            }
        }
    }
}

/// `exec` is gone. Ends the command before the lease ends, if that comes before the grace period's end.
fn alone(state: State, grace: Duration) -> u8 {
    let (group, kill_at) = match state {
        State::Idle => return 0,
        State::Leased { group, until } => {
            let _ = writeln!(io::stderr(), "leasehold: `leasehold exec` was killed; its command gets SIGTERM");
            terminate(group);
            (group, in_future(grace).min(until.max(now())))
        }
        State::Terminated { group, kill_at } => (group, kill_at),
    };
    while now() < kill_at {
        if killpg(group, None) == Err(Errno::ESRCH) {
            return 0;
        }
        thread::sleep(POLL);
    }
    let _ = killpg(group, Signal::SIGKILL);
    0
}

/// SIGTERM. A process that is stopped acts on it only after SIGCONT.
fn terminate(group: Pid) {
    let _ = killpg(group, Signal::SIGTERM);
    let _ = killpg(group, Signal::SIGCONT);
}

fn in_future(time: Duration) -> u64 {
    now().saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// Nanoseconds since the machine started. On Linux, they go on while it is suspended.
fn now() -> u64 {
    #[cfg(target_os = "linux")]
    let clock = ClockId::CLOCK_BOOTTIME;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::CLOCK_MONOTONIC;
    clock_gettime(clock).map_or(0, |time| u64::try_from(Duration::from(time).as_nanos()).unwrap_or(u64::MAX))
}
