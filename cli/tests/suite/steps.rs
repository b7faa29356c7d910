//! `acquire`, `release` and `--adopt`: a lock that is taken in one command and given back in another.

use std::io::{self, Write as _};
use std::process::Stdio;

use leasehold_servers::{Process, Server};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::common::{Tested, WAIT, exit, finish, holders, inspect, leasehold, run, start, text, until, waiters};

type Text = Result<String, Box<dyn std::error::Error>>;

/// Runs `acquire`, and returns the token.
fn acquire(server: &Server, arguments: &[&str]) -> Text {
    let output = run(server, &[&["acquire"], arguments].concat())?;
    assert_eq!(exit(&output), (Some(0), String::new()));
    let line = text(&output.stdout);
    Ok(line.strip_suffix('\n').ok_or("a line")?.to_owned())
}

/// The exit code and the message of a release.
fn release(server: &Server, name: &str, token: &str) -> Result<(Option<i32>, String), Box<dyn std::error::Error>> {
    Ok(exit(&run(server, &["release", "--token", token, name])?))
}

fn assert_not_held((code, message): (Option<i32>, String)) {
    assert_eq!(code, Some(80), "{message}");
    assert!(
        message.contains("`deploy`: the lease of this token is no longer held") && message.contains("[not-held]"),
        "{message}"
    );
}

#[test]
fn a_lock_stays_held_between_two_commands() -> Tested {
    let server = Server::start()?;
    let token = acquire(&server, &["--ttl", "1h", "deploy"])?;
    let lock = inspect(&server, "deploy");
    assert_eq!(lock["holders"][0]["token"], token.as_str());
    assert!(lock["holders"][0]["remaining_ms"].as_u64().is_some_and(|left| left > 600_000), "{lock}");
    let label = lock["holders"][0]["label"].as_str().unwrap_or_default();
    assert!(label.ends_with("leasehold acquire"), "{lock}");
    let (code, message) = exit(&run(&server, &["exec", "--wait", "0", "deploy", "--", "true"])?);
    assert!(code == Some(75) && message.contains(label), "{message}");
    assert_eq!(release(&server, "deploy", &token)?, (Some(0), String::new()));
    assert_eq!(inspect(&server, "deploy")["state"], "free");
    Ok(())
}

#[test]
fn a_token_works_once() -> Tested {
    let server = Server::start()?;
    let token = acquire(&server, &["deploy"])?;
    assert_eq!(release(&server, "deploy", &token)?.0, Some(0));
    assert_not_held(release(&server, "deploy", &token)?);
    let output = run(&server, &["--json", "release", "--token", &token, "deploy"])?;
    let error: Value = serde_json::from_slice(&output.stderr)?;
    assert_eq!((&error["error"]["code"], &error["error"]["exit"]), (&"not-held".into(), &80.into()));
    Ok(())
}

#[test]
fn a_lease_that_has_ended_is_told_and_the_next_holder_keeps_the_lock() -> Tested {
    let server = Server::start()?;
    let ended = acquire(&server, &["--ttl", "1h", "deploy"])?;
    // As if the time was over.
    server.cli(&["PEXPIRE", "deploy", "1"])?;
    let next = acquire(&server, &["--wait", WAIT, "--ttl", "1h", "deploy"])?;
    let (code, message) = release(&server, "deploy", &ended)?;
    assert!(message.contains("; now held by ") && message.contains("leasehold acquire"), "{message}");
    assert_not_held((code, message));
    assert_not_held(exit(&run(&server, &["exec", "--adopt", &ended, "deploy", "--", "echo", "it ran"])?));
    assert_eq!(inspect(&server, "deploy")["holders"][0]["token"], next.as_str());
    run(&server, &["force-release", "--yes", "deploy"])?;
    assert_not_held(release(&server, "deploy", &next)?);
    Ok(())
}

#[test]
fn a_lease_that_came_after_a_wait_lasts_for_its_whole_ttl() -> Tested {
    let server = Server::start()?;
    let first = acquire(&server, &["--ttl", "1h", "deploy"])?;
    let waiting = start(&server, &["acquire", "--ttl", "1h", "deploy"])?;
    until("it waits", || waiters(&server, "deploy") == 1);
    assert_eq!(release(&server, "deploy", &first)?.0, Some(0));
    let (code, token, message) = finish(waiting)?;
    assert_eq!(code, Some(0), "{message}");
    // The server grants a waiter only a claim window until its client answers.
    let lock = inspect(&server, "deploy");
    assert_eq!(lock["holders"][0]["token"], token.trim_end());
    assert!(lock["holders"][0]["remaining_ms"].as_u64().is_some_and(|left| left > 600_000), "{lock}");
    Ok(())
}

#[test]
fn a_command_takes_the_lease_over_and_gives_it_back() -> Tested {
    let server = Server::start()?;
    let output = run(&server, &["--json", "acquire", "--ttl", "1h", "deploy"])?;
    let acquired: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(acquired["name"], "deploy");
    assert!(acquired["remaining_ms"].as_u64().is_some_and(|left| left <= 3_600_000), "{acquired}");
    let (token, fence) = (acquired["token"].as_str().ok_or("a token")?, acquired["fence"].as_u64().ok_or("a fence")?);
    let script = "echo $LEASEHOLD_FENCE ${LEASEHOLD_TOKEN-none}; exit 7";
    let mut command = leasehold(&server, &["exec", "--adopt", "-", "deploy", "--", "sh", "-c", script]);
    let output = command.env("LEASEHOLD_TOKEN", token).output()?;
    assert_eq!(exit(&output), (Some(7), String::new()));
    let line = text(&output.stdout);
    let new: u64 = line.strip_suffix(" none\n").ok_or(line.clone())?.parse()?;
    assert!(new > fence, "a resource that checks fences refuses the steps before");
    assert_eq!(inspect(&server, "deploy")["state"], "free");
    assert_not_held(release(&server, "deploy", token)?);
    Ok(())
}

#[test]
fn a_step_can_renew_the_lease_and_the_old_token_no_longer_works() -> Tested {
    let server = Server::start()?;
    let first = acquire(&server, &["--ttl", "2h", "deploy"])?;
    let second = acquire(&server, &["--adopt", &first, "--ttl", "10h", "deploy"])?;
    assert_ne!(first, second);
    let lock = inspect(&server, "deploy");
    assert!(lock["holders"][0]["remaining_ms"].as_u64().is_some_and(|left| left > 7_200_000), "{lock}");
    assert_not_held(release(&server, "deploy", &first)?);
    assert_eq!(holders(&server, "deploy"), 1);
    assert_eq!(release(&server, "deploy", &second)?.0, Some(0));
    Ok(())
}

#[test]
fn the_token_and_the_fence_go_through_the_environment() -> Tested {
    let server = Server::start()?;
    let script = r#"
        eval "$("$0" acquire --env deploy)"
        export LEASEHOLD_TOKEN
        echo "$LEASEHOLD_FENCE"
        "$0" --json release deploy
    "#;
    let mut command = leasehold(&server, &[]);
    let program = command.get_program().to_owned();
    command = std::process::Command::new("sh");
    command.args(["-ec", script]).arg(program).env("REDIS_URL", server.url());
    let output = command.output()?;
    assert_eq!(exit(&output), (Some(0), String::new()));
    let lines = text(&output.stdout);
    let (fence, released) = lines.split_once('\n').ok_or("two lines")?;
    assert!(fence.parse::<u64>()? > 0);
    assert_eq!(serde_json::from_str::<Value>(released)?["released"], true);
    assert_eq!(inspect(&server, "deploy")["state"], "free");
    Ok(())
}

#[test]
fn a_token_that_cannot_be_printed_leaves_no_lock_behind() -> Tested {
    let server = Server::start()?;
    let (reader, writer) = io::pipe()?;
    drop(reader);
    let mut command = leasehold(&server, &["acquire", "--ttl", "1h", "deploy"]);
    let (code, message) = exit(&command.stdout(writer).stderr(Stdio::piped()).spawn()?.wait_with_output()?);
    assert!(code == Some(74) && message.contains("[output]"), "{message}");
    assert_eq!(inspect(&server, "deploy")["state"], "free");
    Ok(())
}

#[test]
fn a_signal_ends_acquire_while_nobody_reads_its_token() -> Tested {
    let server = Server::start()?;
    let (reader, mut writer) = io::pipe()?;
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    while writer.write(b"x").is_ok() {}
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::empty()))?;
    let mut command = leasehold(&server, &["acquire", "--ttl", "1h", "deploy"]);
    let printing = Process::spawn(command.stdout(writer).stderr(Stdio::piped()))?;
    until("it has the lock", || holders(&server, "deploy") == 1);
    kill(Pid::from_raw(i32::try_from(printing.pid())?), Signal::SIGTERM)?;
    assert_eq!(finish(printing)?.0, Some(143));
    assert_eq!(inspect(&server, "deploy")["state"], "free", "nobody has the token");
    drop(reader);
    Ok(())
}

#[test]
fn a_signal_during_the_wait_of_acquire_leaves_the_queue() -> Tested {
    let server = Server::start()?;
    let _token = acquire(&server, &["--ttl", "1h", "deploy"])?;
    let waiting: Process = start(&server, &["acquire", "deploy"])?;
    until("it waits", || waiters(&server, "deploy") == 1);
    kill(Pid::from_raw(i32::try_from(waiting.pid())?), Signal::SIGTERM)?;
    let (code, token, _) = finish(waiting)?;
    assert_eq!((code, token.as_str()), (Some(143), ""));
    assert_eq!(waiters(&server, "deploy"), 0);
    Ok(())
}

#[test]
fn a_quorum_has_no_tokens() -> Tested {
    let server = Server::start()?;
    let (code, message) = exit(&run(&server, &["--quorum", "acquire", "deploy"])?);
    assert_eq!(code, Some(78), "{message}");
    assert!(message.contains("--quorum") && message.contains("leasehold exec"), "{message}");
    assert_eq!(server.cli(&["DBSIZE"])?.integer(), Some(0), "no lock was acquired");
    Ok(())
}

#[test]
fn the_message_about_a_bad_token_does_not_repeat_it() -> Tested {
    let server = Server::start()?;
    for arguments in [
        &["release", "--token", "4972e18b-secret:1", "deploy"][..],
        &["exec", "--adopt", "4972e18b-secret:1", "deploy", "--", "true"],
    ] {
        let (code, message) = exit(&run(&server, arguments)?);
        assert!(code == Some(64) && !message.contains("secret"), "{message}");
    }
    Ok(())
}
