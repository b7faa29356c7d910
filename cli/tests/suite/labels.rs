//! The labels of holders and waiters.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use leasehold_servers::{Process, Server};
use serde_json::Value;

use crate::common::{Tested, exit, leasehold, run, start, start_listening, text, until, waiters};

/// A holder whose label is on the server, because it had to wait.
fn hold(server: &Server, label: &[&str]) -> Result<Process, Box<dyn std::error::Error>> {
    let holder = start_listening(server, "door", &[&["exec"], label, &["door", "--", "sleep", "600"]].concat())?;
    until("the holder's label is known", || {
        inspected(server).is_ok_and(|lock| lock["holders"][0]["label"].is_string())
    });
    Ok(holder)
}

fn inspected(server: &Server) -> Result<Value, Box<dyn std::error::Error>> {
    Ok(serde_json::from_slice(&run(server, &["--json", "inspect", "door"])?.stdout)?)
}

#[test]
fn ls_and_inspect_show_who_holds_a_lock_who_waits_and_for_how_long() -> Tested {
    let server = Server::start()?;
    let _holder = hold(&server, &["--label", "nightly on db-2"])?;
    let waiter = start(&server, &["exec", "--label", "by hand", "door", "--", "true"])?;
    until("it waits", || inspected(&server).is_ok_and(|lock| lock["waiters"][0]["label"] == "by hand"));
    let lock = inspected(&server)?;
    assert_eq!(lock["holders"][0]["label"], "nightly on db-2");
    let (held, waited) = (&lock["holders"][0]["held_ms"], &lock["waiters"][0]["waited_ms"]);
    let (held, waited) = (held.as_u64().ok_or("how long it is held")?, waited.as_u64().ok_or("how long it waits")?);
    assert!(waited <= held, "{held} {waited}");

    let shown = text(&run(&server, &["inspect", "door"])?.stdout);
    let holder = "holder  nightly on db-2, exclusive for ";
    assert!(shown.contains(holder) && shown.contains("waiter  1. by hand, exclusive, waits for "), "{shown}");
    assert_eq!(shown.matches("\n          client ").count(), 2, "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 76), "it fits on a narrow terminal: {shown}");
    let table = text(&run(&server, &["ls"])?.stdout);
    let (heading, row) = (table.lines().next().unwrap_or_default(), table.lines().nth(1).unwrap_or_default());
    for column in ["HELD", "WAITED", "LABEL"] {
        assert!(heading.contains(column), "{heading}");
    }
    assert!(row.contains("nightly on db-2") && row.ends_with("door"), "{row}");
    let listed: Value = serde_json::from_slice(&run(&server, &["--json", "ls"])?.stdout)?;
    assert_eq!(listed["holders"][0]["label"], "nightly on db-2");
    drop(waiter);
    Ok(())
}

#[test]
fn watch_shows_the_label_as_soon_as_it_is_known() -> Tested {
    let server = Server::start()?;
    let _holder = hold(&server, &["--label", "nightly"])?;
    let line = first_line_of_watch(&server)?;
    assert!(line.contains("held by nightly (exclusive) for "), "{line}");
    Ok(())
}

fn first_line_of_watch(server: &Server) -> Result<String, Box<dyn std::error::Error>> {
    let mut command = leasehold(server, &["watch", "--interval", "20ms", "door"]);
    let mut watch = Process::spawn(command.stdout(Stdio::piped()))?;
    let mut lines = BufReader::new(watch.take_stdout().ok_or("its output")?).lines();
    Ok(lines.next().ok_or("a line")??)
}

#[tokio::test(flavor = "multi_thread")]
async fn inspect_and_watch_show_the_label_of_a_lease_behind_that_of_its_client() -> Tested {
    let server = Server::start()?;
    let locks = leasehold::LockManager::builder()
        .response_timeout(std::time::Duration::from_secs(60))
        .label("web-1")
        .connect(&server.url())
        .await?;
    // The client writes its label to the server because it has to wait.
    server.cli(&["SET", "door", "somebody", "PX", "600000"])?;
    let lock = locks.mutex("door").label("job 17");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    until("it waits", || waiters(&server, "door") == 1);
    assert_eq!(locks.force_release("door").await?, 1);
    let _lease = waiting.await??;
    // The client is asked each time, and may be too slow to answer.
    until("the lease's label is known", || {
        inspected(&server)
            .is_ok_and(|lock| lock["holders"][0]["lease_label"] == "job 17" && lock["holders"][0]["label"] == "web-1")
    });
    until("inspect shows it", || {
        let shown = run(&server, &["inspect", "door"]).map(|output| text(&output.stdout)).unwrap_or_default();
        shown.contains("holder  web-1 (job 17), exclusive for ")
    });
    until("watch shows it", || {
        let line = first_line_of_watch(&server).unwrap_or_default();
        line.contains("held by web-1 (job 17) (exclusive) for ")
    });
    Ok(())
}

#[test]
fn exec_says_who_holds_a_busy_lock() -> Tested {
    let server = Server::start()?;
    let holder = hold(&server, &[])?;
    let of = format!("/{} for ", holder.pid());
    // On a slow machine, the wait may be over before the server has answered.
    until("a wait that ends", || {
        let waited = run(&server, &["exec", "--wait", "1s", "door", "--", "true"]).expect("the program runs");
        let (code, message) = exit(&waited);
        assert!(matches!(code, Some(75 | 69)), "{code:?}: {message}");
        code == Some(75) && message.contains("; held by ") && message.contains(&of)
    });
    Ok(())
}

#[test]
fn a_try_says_who_holds_the_lock_and_for_how_long_and_with_quiet_only_the_exit_code_tells() -> Tested {
    let server = Server::start()?;
    let _holder = hold(&server, &["--label", "nightly on db-2"])?;
    let (code, message) = exit(&run(&server, &["exec", "--wait", "0", "door", "--", "true"])?);
    assert_eq!(code, Some(75), "{message}");
    assert!(message.contains("lock `door`: busy; held by nightly on db-2 for "), "{message}");
    assert!(message.contains("; its lease expires in ") && message.contains("[busy]"), "{message}");
    assert_eq!(message.lines().count(), 2, "what happened, and what to do: {message}");
    let quiet = run(&server, &["exec", "-q", "-E", "7", "--wait", "0", "door", "--", "true"])?;
    assert_eq!(exit(&quiet), (Some(7), String::new()));
    // A key that never ends by itself is no other run of the job.
    server.cli(&["SET", "data", "somebody's"])?;
    let (code, message) = exit(&run(&server, &["exec", "-q", "--wait", "0", "data", "--", "true"])?);
    assert!(code == Some(75) && message.contains("--foreign"), "{code:?}: {message}");
    Ok(())
}

#[test]
fn a_label_that_is_too_long_is_refused() -> Tested {
    let server = Server::start()?;
    for label in ["x".repeat(129), "a\nb".to_owned()] {
        let (code, message) = exit(&run(&server, &["exec", "--label", &label, "door", "--", "true"])?);
        assert!(code == Some(64) && message.contains("--label "), "{message}");
    }
    Ok(())
}
