//! A job under a lock, for the tests that kill and pause its processes.

use std::fs;
use std::process::Stdio;

use leasehold_servers::{Process, Server};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::{TempDir, tempdir};

use crate::common::{Tested, WAIT, exit, leasehold, lives, number_in, run, start, start_listening, until};

/// A command that starts another process, and writes the ids of both into files.
pub(crate) struct Job {
    pub(crate) directory: TempDir,
    pub(crate) exec: Process,
    pub(crate) pids: [i32; 2],
}

impl Job {
    /// `before` is what the shell does first, such as ignoring a signal. The other process inherits that.
    pub(crate) fn start(server: &Server, options: &[&str], before: &str) -> Result<Self, Box<dyn std::error::Error>> {
        // On a slow machine, a short lease may end before the command has begun.
        for _ in 0..10 {
            if let Some(job) = Self::begin(options, before, |arguments| start(server, arguments))? {
                return Ok(job);
            }
        }
        Err("the command did not begin".into())
    }

    /// The same for an `exec` that hears messages, because it has to wait first.
    pub(crate) fn listening(
        server: &Server,
        options: &[&str],
        before: &str,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let job = Self::begin(options, before, |arguments| start_listening(server, "job", arguments))?;
        job.ok_or_else(|| "the command did not begin".into())
    }

    /// Starts the job. Returns `None` if `exec` ended before the command ran.
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
        // Until it runs `sleep`, the other process is a copy of the shell, and handles signals as the shell does.
        let sleeps = || fs::read_to_string(format!("/proc/{}/comm", pids[1])).is_ok_and(|name| name != "sh\n");
        until("the other process has begun", sleeps);
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

/// The exit code of the next holder's command: 3 if none of these processes runs, and 9 otherwise. A zombie does not
/// count as running.
pub(crate) fn next(server: &Server, pids: [i32; 2]) -> Result<Option<i32>, Box<dyn std::error::Error>> {
    let [a, b] = pids;
    let script =
        format!("for pid in {a} {b}; do grep -q '^State:.[^ZX]' /proc/$pid/status 2>/dev/null && exit 9; done; exit 3");
    Ok(exit(&run(server, &["exec", "-w", WAIT, "job", "--", "sh", "-c", &script])?).0)
}

/// Starts `exec` with a command that ignores SIGTERM, and then cuts only this client off from the server. Returns
/// `exec` and the process id of the command.
pub(crate) fn cut_off(server: &Server, ttl: &str) -> Result<(Process, i32), Box<dyn std::error::Error>> {
    server.cli(&["ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all"])?;
    let directory = tempdir()?;
    let pid = directory.path().join("pid");
    let script = format!("trap '' TERM; echo $$ > {}; while :; do sleep 0.02; done", pid.display());
    let mut command = leasehold(server, &["exec", "--ttl", ttl, "--grace", "1s", "job", "--", "sh", "-c", &script]);
    command.env("REDIS_URL", format!("redis://app:secret@127.0.0.1:{}/", server.port()));
    let exec = Process::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let pid = number_in(&pid);
    server.cli(&["ACL", "SETUSER", "app", "off"])?;
    server.cli(&["CLIENT", "KILL", "USER", "app"])?;
    Ok((exec, pid))
}

/// A process of a job.
#[derive(Clone, Copy)]
pub(crate) enum Whom {
    Command,
    Exec,
    Guard,
}
