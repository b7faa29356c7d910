//! `leasehold exec` in place of `flock`, in a job that is killed, paused or starved: its command never overlaps with the
//! next holder's.

use std::fs;
use std::process::{Command, Stdio};

use leasehold_servers::{Process, Server};
use nix::sys::signal::Signal;
use tempfile::tempdir;

use crate::common::{
    Tested, calls, finish, holders, inspect, last_fence, leasehold, lives, number_in, run, start, terminal, until,
};
use crate::job::{Job, Whom, cut_off, next};

#[test]
fn a_command_that_ignores_sigterm_is_killed_although_exec_is_paused_or_killed() -> Tested {
    let server = Server::start()?;
    for how in [Signal::SIGSTOP, Signal::SIGKILL] {
        // The grace period is longer than the lease. The command gets less of it.
        let job = Job::start(&server, &["--ttl", "2s", "--grace", "60s"], "trap '' TERM")?;
        job.signal(Whom::Exec, how)?;
        until("the guard has killed the command", || !job.runs());
        drop(job);
        run(&server, &["force-release", "--yes", "job"])?;
    }
    Ok(())
}

#[test]
fn a_lease_that_cannot_be_renewed_ends_the_command() -> Tested {
    let server = Server::start()?;
    let (exec, pid) = cut_off(&server, "10s")?;
    let (code, _, message) = finish(exec)?;
    assert_eq!(code, Some(76), "{message}");
    assert!(!lives(pid));
    Ok(())
}

#[test]
fn a_command_is_guarded_from_its_first_moment_on() -> Tested {
    let (server, directory) = (Server::start()?, tempdir()?);
    let mut pids = Vec::new();
    for round in 0..20 {
        let file = directory.path().join(round.to_string());
        let (name, script) = (format!("job:{round}"), format!("echo $$ > {}; exec sleep 600", file.display()));
        let mut exec = start(&server, &["exec", &name, "--", "sh", "-c", &script])?;
        // No pause between two looks: the command has just started.
        while fs::metadata(&file).map_or(0, |file| file.len()) == 0 {}
        exec.kill();
        pids.push(number_in(&file));
    }
    until("all commands have ended", || !pids.iter().any(|pid| lives(*pid)));
    Ok(())
}

#[test]
fn a_paused_exec_says_that_the_lease_was_lost_even_if_the_command_ended_in_time() -> Tested {
    let server = Server::start()?;
    let job = Job::start(&server, &["--ttl", "3s", "--grace", "1s"], "trap 'exit 0' TERM")?;
    job.exec.pause()?;
    until("the guard has ended the command", || !job.runs());
    job.exec.resume()?;
    let (code, _, message) = finish(job.exec)?;
    assert_eq!(code, Some(76), "{message}");
    assert!(message.contains("is paused and its lease is nearly over") && message.contains("[lost]"), "{message}");
    Ok(())
}

#[test]
fn a_job_whose_processes_are_all_paused_ends_when_they_run_again() -> Tested {
    let server = Server::start()?;
    // The TTL is longer than a slow machine needs to pause all of them.
    let job = Job::start(&server, &["--ttl", "8s"], ":")?;
    let fence = last_fence(&server)?;
    for whom in [Whom::Exec, Whom::Guard, Whom::Command] {
        job.signal(whom, Signal::SIGSTOP)?;
    }
    // Nothing can end the paused command. The fence is what stops its writes.
    assert_eq!(next(&server, job.pids)?, Some(9));
    assert!(last_fence(&server)? > fence);
    for whom in [Whom::Guard, Whom::Exec] {
        job.signal(whom, Signal::SIGCONT)?;
    }
    let pids = job.pids;
    let (code, _, message) = finish(job.exec)?;
    assert_eq!(code, Some(76), "{message}");
    assert!(pids.iter().all(|pid| !lives(*pid)));
    Ok(())
}

#[test]
fn a_paused_command_keeps_its_lock_as_with_flock() -> Tested {
    let server = Server::start()?;
    let job = Job::start(&server, &["--ttl", "15s"], "trap 'exit 5' USR1")?;
    job.signal(Whom::Command, Signal::SIGSTOP)?;
    let renewals = || calls(&server, "pexpire");
    let begun = renewals();
    until("the lease is renewed", || renewals() > begun);
    assert_eq!(run(&server, &["exec", "-w", "0", "job", "--", "true"])?.status.code(), Some(75));
    job.signal(Whom::Command, Signal::SIGCONT)?;
    job.signal(Whom::Exec, Signal::SIGUSR1)?;
    assert_eq!(finish(job.exec)?.0, Some(5));
    Ok(())
}

#[test]
fn with_group_the_lock_is_held_until_the_last_process_of_the_command_ends() -> Tested {
    let (server, directory) = (Server::start()?, tempdir()?);
    let go = directory.path().join("go");
    let script = format!("(until [ -e {} ]; do sleep 0.02; done) & exit 6", go.display());
    // Without the option, as with `consul lock`.
    let job = |option: &str| {
        let mut command = leasehold(&server, &["exec"]);
        command.args((!option.is_empty()).then_some(option)).args(["job", "--", "sh", "-c", &script]);
        Process::spawn(command.stdout(Stdio::null()).stderr(Stdio::null()))
    };
    assert_eq!(job("")?.wait()?.code(), Some(6));
    assert_eq!(holders(&server, "job"), 0, "its process goes on without the lock");
    let mut held = job("--group")?;
    until("it is held", || holders(&server, "job") == 1);
    let fence = last_fence(&server)?;
    assert_eq!(run(&server, &["exec", "-w", "0", "job", "--", "true"])?.status.code(), Some(75));
    assert!(held.ended()?.is_none());
    fs::write(&go, "")?;
    assert_eq!(held.wait()?.code(), Some(6));
    assert_eq!(last_fence(&server)?, fence);
    assert_eq!(holders(&server, "job"), 0);
    Ok(())
}

#[test]
fn a_terminal_that_goes_away_ends_the_command_and_frees_the_lock() -> Tested {
    let (server, directory) = (Server::start()?, tempdir()?);
    let (master, slave) = terminal()?;
    let pid = directory.path().join("pid");
    let script = format!("echo $$ > {}; exec sleep 600", pid.display());
    // Whatever started the tests may ignore SIGHUP.
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP", "setsid"]);
    command.args(["--wait", "--ctty", env!("CARGO_BIN_EXE_leasehold"), "exec", "job", "--", "sh", "-c", &script]);
    command.env("REDIS_URL", server.url()).stdin(slave.try_clone()?).stdout(slave.try_clone()?).stderr(slave);
    let exec = Process::spawn(&mut command)?;
    drop(command);
    let pid = number_in(&pid);
    drop(master);
    assert_eq!(finish(exec)?.0, Some(129));
    assert!(!lives(pid));
    assert_eq!(inspect(&server, "job")["state"], "free");
    Ok(())
}
