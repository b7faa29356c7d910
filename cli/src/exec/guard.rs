//! The guard: a second process that ends the command when `leasehold exec` or `lead` can't. It is killed, or paused while the
//! lease runs out.
//!
//! `exec` writes lines to the guard's standard input, and so does the command's process before it becomes the command. Then
//! only `exec` has the pipe, so its end says that `exec` is gone.
//!
//! | line | meaning |
//! |---|---|
//! | `lease <group> <SIGTERM's time> <end>` | The lease ends at this time unless another line comes. The group gets SIGTERM a while before. |
//! | `kill <group> <time>` | The group has got SIGTERM, and gets SIGKILL at this time. |
//! | `done` | The command has ended. The guard's exit code says whether the guard has ended it. |
//!
//! Times are nanoseconds of a clock that all processes of the machine share.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, BufRead as _, PipeWriter, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{self, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use super::own;
use crate::render::milliseconds;
use crate::report::{Failure, Outcome};

/// How often the guard looks whether the group has ended.
const POLL: Duration = Duration::from_millis(20);

/// What `ps` shows.
pub(super) const NAME: &str = "leasehold: guard";
/// The exit code of a guard that has sent SIGTERM because `exec` was paused.
const ACTED: u8 = 1;

/// The side of `exec`.
pub(super) struct Guard {
    process: process::Child,
    pipe: Option<PipeWriter>,
    grace: Duration,
}

impl Guard {
    pub(super) fn start(grace: Duration) -> Outcome<Self> {
        Self::start_with(grace, "")
    }

    /// The line is in the pipe before the guard runs, so a SIGKILL of `exec` leaves no guard that doesn't know the command.
    fn start_with(grace: Duration, line: &str) -> Outcome<Self> {
        let failed = |error: io::Error| Failure::system("can't start the guard process", error);
        let path = own::path().map_err(failed)?;
        let grace_ms = milliseconds(grace).to_string();
        let (input, mut pipe) = io::pipe().map_err(failed)?;
        // A guard that is stopped must not stop us.
        fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(|error| failed(error.into()))?;
        pipe.write_all(line.as_bytes()).map_err(failed)?;
        let process = Command::new(path)
            .arg0(NAME)
            .arg(grace_ms)
            .env_clear()
            .stdin(input)
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        Ok(Self { process, pipe: Some(pipe), grace })
    }

    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn lease_ends(&mut self, group: Pid, deadline: Deadline) {
        self.tell(&deadline.line(group));
    }

    pub(super) fn kill_in(&mut self, group: Pid, grace: Duration) {
        self.tell(&format!("kill {group} {}\n", in_future(grace)));
    }

    /// The command has ended. Returns whether the guard has ended it, because this process was paused.
    pub(super) fn call_off(&mut self) -> bool {
        self.write("done\n");
        self.pipe = None;
        self.process.wait().is_ok_and(|status| status.code() == Some(ACTED.into()))
    }

    /// Starts another guard if somebody killed this one.
    fn tell(&mut self, line: &str) {
        if self.write(line) {
            return;
        }
        let _ = self.process.wait();
        if let Ok(another) = Self::start_with(self.grace, line) {
            *self = another;
        }
    }

    /// Returns whether the guard lives.
    fn write(&mut self, line: &str) -> bool {
        // One write, so that a line is either there or not.
        let written = self.pipe.as_mut().map(|pipe| pipe.write_all(line.as_bytes()));
        !matches!(written, Some(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// When a command ends unless its lease is renewed.
#[derive(Clone, Copy)]
pub(super) struct Deadline {
    pub(super) term_at: u64,
    /// The end of the lease.
    pub(super) end: u64,
}

impl Deadline {
    /// The command gets SIGTERM when no more than `lead` of the lease is left.
    pub(super) fn of(remaining: Duration, lead: Duration) -> Self {
        let end = in_future(remaining);
        Self { term_at: end.saturating_sub(nanoseconds(lead)), end }
    }

    pub(super) fn line(self, group: impl Display) -> String {
        format!("lease {group} {} {}\n", self.term_at, self.end)
    }
}

/// What the guard knows.
#[derive(Clone, Copy)]
enum State {
    Idle,
    Leased { group: Pid, term_at: u64, end: u64 },
    Terminated { group: Pid, kill_at: u64 },
}

/// The guard process.
pub(super) fn run(mut arguments: impl Iterator<Item = OsString>) -> Outcome {
    // What ends the command or the whole service must not end its guard first.
    SigSet::all().thread_block().map_err(|error| Failure::system("can't block signals", error))?;
    let grace = arguments.next().and_then(|word| word.to_str()?.parse().ok()).map(Duration::from_millis);
    let grace = grace.ok_or_else(|| Failure::usage("only `leasehold` itself starts this", ""))?;
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let (mut state, mut acted) = (State::Idle, false);
    loop {
        let wake = match state {
            State::Idle => None,
            State::Leased { term_at: at, .. } | State::Terminated { kill_at: at, .. } => Some(at),
        };
        let line = match wake {
            None => lines.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(at) => lines.recv_timeout(Duration::from_nanos(at.saturating_sub(now()))),
        };
        match (line, state) {
            (Ok(line), _) if line == "done" => return Ok(if acted { ACTED } else { 0 }),
            (Ok(line), _) => state = state.after(&line),
            (Err(RecvTimeoutError::Timeout), _) => {
                acted |= matches!(state, State::Leased { .. });
                state = state.overdue(grace);
            }
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
            (Some("lease"), _) => {
                let end = words.next().and_then(|end| end.parse().ok()).unwrap_or(time);
                Self::Leased { group, term_at: time, end }
            }
            (Some("kill"), _) => Self::Terminated { group, kill_at: time },
            _ => self,
        }
    }

    /// No line came in time: `exec` is paused.
    fn overdue(self, grace: Duration) -> Self {
        match self {
            Self::Idle => Self::Idle,
            Self::Leased { group, end, .. } => {
                let why = "`leasehold` is paused and its lease is nearly over; its command gets SIGTERM";
                let _ = writeln!(io::stderr(), "leasehold: {why}");
                terminate(group);
                // If all of us were paused, the lease may be over already.
                Self::Terminated { group, kill_at: if now() < end { end } else { in_future(grace) } }
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
        State::Leased { group, end, .. } => {
            let _ = writeln!(io::stderr(), "leasehold: `leasehold` was killed; its command gets SIGTERM");
            terminate(group);
            (group, in_future(grace).min(end.max(now())))
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
    now().saturating_add(nanoseconds(time))
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds since the machine started. On Linux, they go on while it is suspended.
fn now() -> u64 {
    #[cfg(target_os = "linux")]
    let clock = ClockId::CLOCK_BOOTTIME;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::CLOCK_MONOTONIC;
    clock_gettime(clock).map_or(0, |time| nanoseconds(time.into()))
}
