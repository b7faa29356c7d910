//! `inspect`, `watch` and `force-release`.

use std::fs::{File, read_to_string};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;

use leasehold_servers::{Process, Server};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::tempdir;

use crate::common::{Tested, exit, finish, holders, inspect, leasehold, run, start, terminal, text, until, waiters};

fn hold(server: &Server, name: &str) -> Result<Process, Box<dyn std::error::Error>> {
    let holder = start(server, &["exec", "--ttl", "60s", name, "--", "sleep", "60"])?;
    until("it is held", || holders(server, name) == 1);
    Ok(holder)
}

/// Runs the program on a terminal, and answers its question. Returns the exit code, and what it asked.
fn answered(
    server: &Server,
    arguments: &[&str],
    answer: &str,
) -> Result<(Option<i32>, String), Box<dyn std::error::Error>> {
    let (mut master, slave) = terminal()?;
    let mut command = leasehold(server, arguments);
    command.stdin(slave.try_clone()?).stderr(slave).stdout(Stdio::null());
    let child = Process::spawn(&mut command)?;
    drop(command);
    let mut shown = String::new();
    while !shown.contains("[y/N]") {
        let mut some = [0; 512];
        let length = master.read(&mut some)?;
        shown.push_str(&text(&some[..length]));
    }
    master.write_all(answer.as_bytes())?;
    Ok((finish(child)?.0, shown))
}

#[test]
fn inspect_shows_the_holder_and_the_waiters() -> Tested {
    let server = Server::start()?;
    let free = text(&run(&server, &["inspect", "job"])?.stdout);
    assert!(free.starts_with("job: free\n"), "{free}");
    let _holder = hold(&server, "job")?;
    let _waiter = start(&server, &["exec", "job", "--", "true"])?;
    until("it waits", || waiters(&server, "job") == 1);
    let seen = inspect(&server, "job");
    assert_eq!((&seen["state"], &seen["holders"][0]["mode"]), (&"held".into(), &"exclusive".into()));
    assert!(seen["holders"][0]["remaining_ms"].as_u64().is_some_and(|left| left <= 60_000), "{seen}");
    let shown = text(&run(&server, &["inspect", "job"])?.stdout);
    let client = seen["holders"][0]["client"].as_str().unwrap_or("?");
    assert!(shown.contains(client) && shown.contains("waiter  1. "), "{shown}");
    Ok(())
}

#[test]
fn another_librarys_lock_and_control_characters_are_shown_safely() -> Tested {
    let server = Server::start()?;
    server.cli(&["SET", "job", "evil\u{1b}[2J\ntoken"])?;
    let shown = text(&run(&server, &["inspect", "job"])?.stdout);
    assert!(shown.contains("of another library") && shown.contains("no TTL"), "{shown}");
    assert!(!shown.contains('\u{1b}'), "{shown}");
    Ok(())
}

#[test]
fn watch_prints_a_line_for_each_change() -> Tested {
    let server = Server::start()?;
    let mut child =
        leasehold(&server, &["--json", "watch", "--interval", "20ms", "job"]).stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("a pipe")?).lines();
    let mut next =
        || -> Result<Value, Box<dyn std::error::Error>> { Ok(serde_json::from_str(&lines.next().ok_or("a line")??)?) };
    assert_eq!(next()?["state"], "free");
    let holder = hold(&server, "job")?;
    assert_eq!(next()?["state"], "held");
    run(&server, &["force-release", "--yes", "job"])?;
    // The holder's label may come in between.
    let mut state = next()?;
    while state["state"] == "held" {
        state = next()?;
    }
    assert_eq!(state["state"], "free");
    drop(holder);
    // Not SIGINT: tests that run in the background inherit it as ignored, and so do their children.
    kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGTERM)?;
    assert_eq!(child.wait()?.code(), Some(0));
    Ok(())
}

#[test]
fn watch_goes_on_after_an_outage() -> Tested {
    let mut server = Server::start()?;
    let mut child = leasehold(&server, &["--json", "--timeout", "2s", "watch", "--interval", "20ms", "job"])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("a pipe")?).lines();
    let mut next =
        || -> Result<Value, Box<dyn std::error::Error>> { Ok(serde_json::from_str(&lines.next().ok_or("a line")??)?) };
    assert_eq!(next()?["state"], "free");
    server.stop();
    assert_eq!(next()?["error"]["code"], "unreachable");
    server.restart()?;
    let mut line = next()?;
    while line["error"]["code"] == "unreachable" {
        line = next()?;
    }
    assert_eq!(line["state"], "free");
    child.kill()?;
    child.wait()?;
    Ok(())
}

#[test]
fn force_release_without_a_terminal_needs_yes() -> Tested {
    let server = Server::start()?;
    let _holder = hold(&server, "job")?;
    let (code, message) = exit(&run(&server, &["force-release", "job"])?);
    assert_eq!(code, Some(79));
    assert!(message.contains("--yes") && message.contains("[not-confirmed]"), "{message}");
    assert_eq!(holders(&server, "job"), 1);
    let output = run(&server, &["--json", "force-release", "--yes", "job"])?;
    let taken: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!((&taken["holders"], &taken["before"]["state"]), (&1.into(), &"held".into()));
    assert_eq!(
        text(&run(&server, &["force-release", "--yes", "job"])?.stdout),
        "job: nobody held it. Check the name and --prefix.\n"
    );
    Ok(())
}

#[test]
fn force_release_asks_on_a_terminal() -> Tested {
    let server = Server::start()?;
    let _holder = hold(&server, "job")?;
    for (answer, code, left) in [("n\n", 79, 1), ("\n", 79, 1), ("\u{4}", 79, 1), ("yes\n", 0, 0)] {
        let (ended, shown) = answered(&server, &["force-release", "job"], answer)?;
        assert!(shown.contains("its holder") && shown.contains("0 waiting"), "{shown}");
        assert_eq!(ended, Some(code), "{answer:?}");
        assert_eq!(holders(&server, "job"), left, "{answer:?}");
    }
    Ok(())
}

#[test]
fn a_terminal_that_goes_away_is_no_confirmation() -> Tested {
    let server = Server::start()?;
    let _holder = hold(&server, "job")?;
    let (master, slave) = terminal()?;
    let mut command = leasehold(&server, &["force-release", "job"]);
    command.stdin(slave.try_clone()?).stderr(slave);
    let child = Process::spawn(&mut command)?;
    drop((command, master));
    assert_eq!(finish(child)?.0, Some(79));
    assert_eq!(holders(&server, "job"), 1);
    Ok(())
}

#[test]
fn exec_tells_what_to_do_about_a_key_without_a_ttl() -> Tested {
    let (server, directory) = (Server::start()?, tempdir()?);
    server.cli(&["SET", "job", "somebody's data"])?;
    let (code, message) = exit(&run(&server, &["exec", "--wait", "100ms", "job", "--", "true"])?);
    // On a slow machine, the client has no answer within its wait.
    assert!(code == Some(69) || code == Some(75) && message.contains("force-release --foreign"), "{message}");
    // Without a limit the wait goes on, but the command says once what blocks it.
    let said = directory.path().join("said");
    let mut command = leasehold(&server, &["exec", "job", "--", "true"]);
    let child = Process::spawn(command.stderr(File::create(&said)?))?;
    until("the key is told", || read_to_string(&said).is_ok_and(|text| text.contains("force-release --foreign")));
    server.cli(&["DEL", "job"])?;
    assert_eq!(finish(child)?.0, Some(0));
    Ok(())
}

#[test]
fn force_release_deletes_a_key_without_a_ttl_only_with_foreign() -> Tested {
    let server = Server::start()?;
    server.cli(&["SET", "job", "somebody's data"])?;
    let (code, message) = exit(&run(&server, &["force-release", "--yes", "job"])?);
    assert_eq!(code, Some(65));
    assert!(message.contains("no TTL") && message.contains("--foreign"), "{message}");
    assert_eq!(server.cli(&["GET", "job"])?.text(), Some("somebody's data"));
    let (code, shown) = answered(&server, &["force-release", "--foreign", "job"], "n\n")?;
    assert!(code == Some(79) && shown.contains("Delete job") && shown.contains("somebody's data"), "{shown}");
    let output = run(&server, &["force-release", "--yes", "--foreign", "job"])?;
    assert_eq!(text(&output.stdout), "job: deleted\n");
    assert_eq!(server.cli(&["EXISTS", "job"])?.integer(), Some(0));
    Ok(())
}
