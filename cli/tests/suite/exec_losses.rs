//! `leasehold exec` when the lease is lost, and when `exec` itself is killed or paused: the command never goes on for long.

use std::fs;

use leasehold_servers::Server;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::tempdir;

use crate::common::{Tested, WAIT, exit, finish, inspect, lives, number_in, run, start, start_listening, text, until};
use crate::job::Job;

#[test]
fn a_revoked_lease_ends_the_command_and_what_it_started() -> Tested {
    let server = Server::start()?;
    // The grace period is so long that the test doesn't wait for its end.
    let job = Job::listening(&server, &["--grace", "600s"], ":")?;
    assert_eq!(exit(&run(&server, &["force-release", "--yes", "job"])?).0, Some(0));
    let pids = job.pids;
    let (code, _, message) = finish(job.exec)?;
    assert_eq!(code, Some(76), "{message}");
    assert!(
        message.contains("the lease was lost") && message.contains("SIGTERM") && message.contains("[lost]"),
        "{message}"
    );
    assert!(pids.iter().all(|pid| !lives(*pid)));
    Ok(())
}

#[test]
fn a_command_that_holds_the_lock_for_too_long_is_ended() -> Tested {
    let server = Server::start()?;
    let job = Job::start(&server, &["--max-hold", "3s", "--grace", "500ms"], ":")?;
    let pids = job.pids;
    let (code, _, message) = finish(job.exec)?;
    assert_eq!(code, Some(76), "{message}");
    assert!(message.contains("it reached its --max-hold") && message.contains("more time"), "{message}");
    assert!(pids.iter().all(|pid| !lives(*pid)));
    assert_eq!(inspect(&server, "job")["state"], "free", "it was released, not left to its TTL");
    Ok(())
}

#[test]
fn a_command_that_ends_after_its_lock_was_taken_is_told_so() -> Tested {
    let server = Server::start()?;
    let script = format!("{} force-release --yes job", env!("CARGO_BIN_EXE_leasehold"));
    let (code, message) = exit(&run(&server, &["exec", "job", "--", "sh", "-c", &script])?);
    assert_eq!(code, Some(76), "{message}");
    // On a slow machine, a renewal has seen it before.
    assert!(message.contains("taken by force") || message.contains("SIGTERM"), "{message}");
    Ok(())
}

#[test]
fn a_command_that_ignores_sigterm_is_killed_after_the_grace_period() -> Tested {
    let server = Server::start()?;
    let job = Job::listening(&server, &["--grace", "300ms", "--lost-exit-code", "99"], "trap '' TERM")?;
    run(&server, &["force-release", "--yes", "job"])?;
    let pids = job.pids;
    let (code, _, message) = finish(job.exec)?;
    assert_eq!(code, Some(99), "{message}");
    assert!(message.contains("SIGKILL"), "{message}");
    assert!(pids.iter().all(|pid| !lives(*pid)));
    Ok(())
}

#[test]
fn a_process_that_outlives_its_command_is_killed_as_well() -> Tested {
    let server = Server::start()?;
    let directory = tempdir()?;
    let at = directory.path().display();
    // The command ends at SIGTERM. The process below ignores it.
    let script = format!("(trap '' TERM; sleep 600) & echo $! > {at}/below; trap 'exit 0' TERM; wait");
    let exec = start_listening(&server, "job", &["exec", "--grace", "300ms", "job", "--", "sh", "-c", &script])?;
    let below = number_in(&directory.path().join("below"));
    run(&server, &["force-release", "--yes", "job"])?;
    let (code, _, message) = finish(exec)?;
    assert_eq!(code, Some(76), "{message}");
    until("the process below is gone", || !lives(below));
    Ok(())
}

#[test]
fn a_stopped_command_is_ended_too() -> Tested {
    let server = Server::start()?;
    let job = Job::listening(&server, &[], ":")?;
    kill(Pid::from_raw(job.pids[0]), Signal::SIGSTOP)?;
    run(&server, &["force-release", "--yes", "job"])?;
    assert_eq!(finish(job.exec)?.0, Some(76));
    Ok(())
}

#[test]
fn while_exec_is_paused_the_command_ends_with_the_lease() -> Tested {
    let server = Server::start()?;
    let job = Job::start(&server, &["--ttl", "2s"], ":")?;
    let first = inspect(&server, "job")["last_fence"].as_u64();
    job.exec.pause()?;
    until("the guard has ended the command", || !job.runs());
    // It is still paused. The next one gets the lock, with a greater fence.
    let next = run(&server, &["exec", "-w", WAIT, "job", "--", "sh", "-c", "echo $LEASEHOLD_FENCE; exit 3"])?;
    assert_eq!(next.status.code(), Some(3));
    assert!(text(&next.stdout).trim().parse().ok() > first);
    job.exec.resume()?;
    let (code, _, message) = finish(job.exec)?;
    assert_eq!(code, Some(76), "{message}");
    drop(job.directory);
    Ok(())
}

#[test]
fn a_short_pause_changes_nothing() -> Tested {
    let server = Server::start()?;
    let directory = tempdir()?;
    let at = directory.path().display();
    let script = format!("echo 1 > {at}/ready; until [ -e {at}/go ]; do sleep 0.02; done; exit 4");
    let exec = start(&server, &["exec", "--ttl", "30s", "job", "--", "sh", "-c", &script])?;
    number_in(&directory.path().join("ready"));
    exec.pause()?;
    exec.resume()?;
    fs::write(directory.path().join("go"), "")?;
    assert_eq!(finish(exec)?.0, Some(4));
    Ok(())
}

#[test]
fn when_exec_is_killed_the_command_ends_before_the_lease_does() -> Tested {
    let server = Server::start()?;
    let job = Job::start(&server, &["--ttl", "60s"], ":")?;
    kill(Pid::from_raw(i32::try_from(job.exec.pid())?), Signal::SIGKILL)?;
    until("the guard has ended the command", || !job.runs());
    assert_eq!(inspect(&server, "job")["state"], "held", "the lease runs on, so nobody overlapped with the command");
    Ok(())
}

#[test]
fn a_guard_that_was_killed_is_replaced() -> Tested {
    let server = Server::start()?;
    let job = Job::start(&server, &[], ":")?;
    let guard = job.guard().ok_or("there is a guard")?;
    kill(Pid::from_raw(guard), Signal::SIGKILL)?;
    until("there is another guard", || job.guard().is_some_and(|other| other != guard));
    kill(Pid::from_raw(i32::try_from(job.exec.pid())?), Signal::SIGKILL)?;
    until("it has ended the command", || !job.runs());
    Ok(())
}

#[test]
fn a_server_that_lost_its_data_ends_the_command() -> Tested {
    let mut server = Server::start()?;
    let job = Job::start(&server, &["--ttl", "2s"], ":")?;
    server.restart()?;
    let (code, _, message) = finish(job.exec)?;
    assert_eq!(code, Some(76), "{message}");
    Ok(())
}

#[test]
fn nothing_is_left_behind() -> Tested {
    let server = Server::start()?;
    let mut job = Job::start(&server, &[], ":")?;
    let guard = job.guard().ok_or("there is a guard")?;
    kill(Pid::from_raw(job.pids[0]), Signal::SIGKILL)?;
    until("exec ends", || job.exec.ended().is_ok_and(|status| status.is_some()));
    until("the guard ends", || !lives(guard));
    assert_eq!(inspect(&server, "job")["state"], "free");
    kill(Pid::from_raw(job.pids[1]), Signal::SIGKILL)?;
    Ok(())
}
