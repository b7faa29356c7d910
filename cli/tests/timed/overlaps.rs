//! A job's command never overlaps with the next holder's command, even if the job is killed, paused, starved or cut
//! off.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use leasehold_servers::{Process, Server};
use nix::sys::signal::Signal;
use tempfile::tempdir;

use crate::common::{Tested, finish};
use crate::job::{Job, Whom, cut_off, next};

#[test]
fn a_command_that_ignores_sigterm_is_dead_when_the_next_one_starts() -> Tested {
    let server = Server::start()?;
    for whom in [Whom::Exec, Whom::Command] {
        // The grace period is longer than the lease, so the command gets only a part of it.
        let job = Job::start(&server, &["--ttl", "4s", "--grace", "60s"], "trap '' TERM")?;
        job.signal(Whom::Exec, if matches!(whom, Whom::Exec) { Signal::SIGSTOP } else { Signal::SIGKILL })?;
        assert_eq!(next(&server, job.pids)?, Some(3));
        job.signal(Whom::Exec, Signal::SIGCONT).ok();
    }
    Ok(())
}

#[test]
fn a_lease_that_cannot_be_renewed_ends_the_command_before_the_lease_ends() -> Tested {
    let server = Server::start()?;
    let (exec, pid) = cut_off(&server, "6s")?;
    assert_eq!(next(&server, [pid, pid])?, Some(3));
    let (code, _, message) = finish(exec)?;
    assert_eq!(code, Some(76), "{message}");
    assert!(message.contains("not renewed") && message.contains("was ended by SIGKILL"), "{message}");
    Ok(())
}

/// A loop that keeps a core busy, so that the jobs starve. It is killed when the test ends.
fn busy_loop() -> Result<Process, leasehold_servers::Error> {
    Process::spawn(Command::new("taskset").args(["-c", "0", "sh", "-c", "while :; do :; done"]))
}

/// A script that writes the job's fence five times. A job that is killed writes fewer lines.
fn writing(log: &Path) -> String {
    let at = log.display();
    format!("for _ in 1 2 3 4 5; do echo $LEASEHOLD_FENCE >> {at}; sleep 0.01; done")
}

#[test]
fn starved_jobs_never_overlap_and_say_what_became_of_them() -> Tested {
    if Command::new("taskset").arg("--version").stdout(Stdio::null()).status().is_err() {
        return Ok(());
    }
    let (server, directory) = (Server::start()?, tempdir()?);
    let log = directory.path().join("log");
    let script = writing(&log);
    let program = env!("CARGO_BIN_EXE_leasehold");
    let starved = |_| {
        let mut command = Command::new("nice");
        command.args(["-n", "19", "taskset", "-c", "0", program, "exec", "--ttl", "1s", "job", "--", "sh", "-c"]);
        command.arg(&script).env("REDIS_URL", server.url()).stdin(Stdio::null());
        Process::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
    };
    let loops = [busy_loop()?, busy_loop()?];
    let jobs = (0..4).map(starved).collect::<Result<Vec<_>, _>>()?;
    let mut done = 0;
    for job in jobs {
        let (code, _, message) = finish(job)?;
        done += usize::from(code == Some(0));
        // With so little processor time, a job may lose its lease or get no answer. Its exit code says so.
        assert!(matches!(code, Some(0 | 69 | 76)), "{code:?}: {message}");
    }
    drop(loops);
    let fences: Vec<u64> =
        fs::read_to_string(&log).unwrap_or_default().lines().map(str::parse).collect::<Result<_, _>>()?;
    assert!(fences.is_sorted(), "no job wrote after the next one had begun: {fences:?}");
    assert!(fences.len() >= 5 * done, "{fences:?}");
    Ok(())
}
