//! A job under a lock, for the tests that kill and pause its processes.

use std::fs;

use leasehold_servers::{Process, Server};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::{TempDir, tempdir};

use crate::common::{Tested, lives, number_in, start, start_listening, until};

/// A command that starts another process, and writes the ids of both into files.
pub(crate) struct Job {
    pub(crate) directory: TempDir,
    pub(crate) exec: Process,
    pub(crate) pids: [i32; 2],
}

impl Job {
    /// `before` is what the shell does first, such as ignoring a signal. The other process inherits that.
    pub(crate) fn start(server: &Server, options: &[&str], before: &str) -> Result<Self, Box<dyn std::error::Error>> {
        // On a slow machine, a short lease may be over before the command has begun.
        for _ in 0..10 {
            if let Some(job) = Self::begin(options, before, |arguments| start(server, arguments))? {
                return Ok(job);
            }
        }
        Err("the command did not begin".into())
    }

    /// The same for an `exec` that hears messages: it has to wait first.
    pub(crate) fn listening(
        server: &Server,
        options: &[&str],
        before: &str,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let job = Self::begin(options, before, |arguments| start_listening(server, "job", arguments))?;
        job.ok_or_else(|| "the command did not begin".into())
    }

    /// None if `exec` ended first.
    fn begin(
        options: &[&str],
        before: &str,
        start: impl FnOnce(&[&str]) -> Result<Process, Box<dyn std::error::Error>>,
    ) -> Result<Option<Self>, Box<dyn std::error::Error>> {
        let directory = tempdir()?;
        let at = directory.path().display();
        let script = format!("{before}; sleep 600 & echo $! > {at}/below; echo $$ > {at}/command; wait; wait");
        let mut arguments = vec!["exec"];
        arguments.extend(options);
        arguments.extend(["job", "--", "sh", "-c", &script]);
        let mut exec = start(&arguments)?;
        let written =
            |name: &str| fs::read_to_string(directory.path().join(name)).is_ok_and(|text| text.ends_with('\n'));
        let mut ended = false;
        until("the command runs", || {
            ended = exec.ended().is_ok_and(|status| status.is_some());
            ended || (written("command") && written("below"))
        });
        if ended {
            return Ok(None);
        }
        let pids = ["command", "below"].map(|name| number_in(&directory.path().join(name)));
        Ok(Some(Self { directory, exec, pids }))
    }

    pub(crate) fn runs(&self) -> bool {
        self.pids.iter().any(|pid| lives(*pid))
    }

    pub(crate) fn guard(&self) -> Option<i32> {
        let of = |pid: &i32| {
            fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().starts_with("leasehold: guard\0")
        };
        let own = i32::try_from(self.exec.pid()).ok()?;
        let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).ok()?;
        children.split_whitespace().filter_map(|pid| pid.parse().ok()).find(of)
    }

    /// Sends a signal to the command and what it started, or to `exec`.
    pub(crate) fn signal(&self, whom: Whom, signal: Signal) -> Tested {
        let pids = match whom {
            Whom::Command => self.pids.to_vec(),
            Whom::Exec => vec![i32::try_from(self.exec.pid())?],
            Whom::Guard => vec![self.guard().ok_or("there is a guard")?],
        };
        for pid in pids {
            kill(Pid::from_raw(pid), signal)?;
        }
        Ok(())
    }
}

/// A process of a job.
#[derive(Clone, Copy)]
pub(crate) enum Whom {
    Command,
    Exec,
    Guard,
}
