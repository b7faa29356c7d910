//! `leasehold ls`.

use std::io::Read as _;
use std::process::{Command, Stdio};

use leasehold_servers::{Cluster, Process, Server};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::common::{Tested, at, calls, exit, finish, holders, leasehold, run, start, terminal, text, until};

fn hold(server: &Server, name: &str) -> Result<Process, Box<dyn std::error::Error>> {
    let holder = start(server, &["exec", name, "--", "sleep", "60"])?;
    until("it is held", || holders(server, name) == 1);
    Ok(holder)
}

fn names(lines: &[u8]) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let locks: Result<Vec<Value>, _> = text(lines).lines().map(serde_json::from_str).collect();
    let mut names: Vec<_> = locks?.iter().filter_map(|lock| lock["name"].as_str().map(str::to_owned)).collect();
    names.sort();
    Ok(names)
}

#[test]
fn locks_that_are_in_use_are_listed_by_pattern() -> Tested {
    let server = Server::start()?;
    let _holders = [hold(&server, "invoice:42")?, hold(&server, "invoice:7")?, hold(&server, "{order:7}:stock")?];
    run(&server, &["exec", "invoice:old", "--", "true"])?;
    server.cli(&["SET", "invoice:data", "an invoice"])?;
    server.cli(&["SET", "invoice:foreign", "another library's", "PX", "60000"])?;
    for (arguments, expected) in [
        (vec!["ls"], vec!["invoice:42", "invoice:7", "{order:7}:stock"]),
        (vec!["ls", "invoice:*"], vec!["invoice:42", "invoice:7"]),
        (vec!["ls", "invoice"], vec![]),
        (vec!["ls", "invoice:4[0-9]"], vec!["invoice:42"]),
        (vec!["ls", "invoice:foreign"], vec!["invoice:foreign"]),
        (vec!["ls", "invoice:f*"], vec![]),
        (vec!["ls", "{order*"], vec!["{order:7}:stock"]),
        (vec!["--prefix", "invoice:", "ls"], vec!["42", "7"]),
        (vec!["--prefix", "inv[o]ice:", "ls"], vec![]),
    ] {
        let output = run(&server, &[vec!["--json"], arguments.clone()].concat())?;
        assert_eq!(exit(&output), (Some(0), String::new()));
        assert_eq!(names(&output.stdout)?, expected, "{arguments:?}");
    }
    let table = text(&run(&server, &["ls", "invoice:42"])?.stdout);
    assert!(
        table.lines().nth(1).is_some_and(|row| row.starts_with("held  exclusive") && row.ends_with("invoice:42")),
        "{table}"
    );
    let (code, message) = exit(&run(&server, &["ls", "nothing*"])?);
    assert!(code == Some(0) && message.contains("no lock that matches the pattern is held"), "{message}");
    let empty = Server::start()?;
    let (code, message) = exit(&run(&empty, &["ls"])?);
    assert!(code == Some(0) && message.contains("no lock is held"), "{message}");
    Ok(())
}

#[test]
fn locks_of_other_kinds_and_their_waiters_are_listed() -> Tested {
    let server = Server::start()?;
    let _permit = start(&server, &["exec", "--permits", "1", "--of", "2", "reports", "--", "sleep", "60"])?;
    let _reader = start(&server, &["exec", "--read", "page", "--", "sleep", "60"])?;
    until("both are held", || holders(&server, "reports") == 1 && holders(&server, "page") == 1);
    let _writer = start(&server, &["exec", "page", "--", "true"])?;
    until("it is listed with its waiter", || {
        let output = run(&server, &["--json", "ls"]).map(|output| text(&output.stdout)).unwrap_or_default();
        let locks: Vec<Value> = output.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let page = locks.iter().find(|lock| lock["name"] == "page");
        locks.len() == 2
            && page.is_some_and(|lock| lock["waiters"].as_array().is_some_and(|waiters| waiters.len() == 1))
    });
    Ok(())
}

#[test]
fn a_big_keyspace_is_scanned_in_many_small_steps() -> Tested {
    let server = Server::start()?;
    server.cli(&["EVAL", "for i = 1, 100000 do redis.call('SET', 'other:' .. i, i) end", "0"])?;
    let _holder = hold(&server, "needle")?;
    let output = run(&server, &["--json", "ls", "need*"])?;
    assert_eq!(names(&output.stdout)?, ["needle"]);
    let scans = calls(&server, "scan");
    assert!((50..1000).contains(&scans), "{scans} SCANs");
    Ok(())
}

#[test]
fn a_name_without_wildcards_is_not_searched_for() -> Tested {
    let server = Server::start()?;
    let _holder = hold(&server, "needle")?;
    let output = run(&server, &["--json", "ls", "needle"])?;
    assert_eq!(names(&output.stdout)?, ["needle"]);
    let (code, message) = exit(&run(&server, &["ls", "other"])?);
    assert!(code == Some(0) && message.contains("no lock"), "{message}");
    assert_eq!(calls(&server, "scan"), 0);
    Ok(())
}

/// A list that takes minutes, and has begun.
fn long(server: &Server, command: &mut Command) -> Result<Process, Box<dyn std::error::Error>> {
    server.cli(&["EVAL", "for i = 1, 100000 do redis.call('SET', 'other:' .. i, i) end", "0"])?;
    let listing = Process::spawn(command)?;
    until("it has begun", || calls(server, "scan") > 1);
    Ok(listing)
}

const LONG: [&str; 4] = ["ls", "--pace", "1", "nothing*"];

#[test]
fn an_interrupted_list_says_how_far_it_came() -> Tested {
    let server = Server::start()?;
    let mut command = leasehold(&server, &LONG);
    let listing = long(&server, command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    kill(Pid::from_raw(i32::try_from(listing.pid())?), Signal::SIGTERM)?;
    let (code, _, message) = finish(listing)?;
    assert_eq!(code, Some(143), "{message}");
    assert!(message.contains("SIGTERM after about 0.0 of 0.1 million keys; the list is not complete"), "{message}");
    Ok(())
}

#[test]
fn a_list_that_nobody_reads_any_more_ends() -> Tested {
    let server = Server::start()?;
    let mut command = leasehold(&server, &LONG);
    let mut listing = long(&server, command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    drop(listing.take_stdout());
    let (code, _, message) = finish(listing)?;
    assert_eq!(code, Some(74), "{message}");
    assert!(message.contains("[output]"), "{message}");
    Ok(())
}

#[test]
fn a_terminal_shows_the_progress_and_a_list_ends_when_it_goes_away() -> Tested {
    let server = Server::start()?;
    let (mut master, slave) = terminal()?;
    // A session of its own, with the terminal: as a shell in a window has it.
    // Whatever started the tests may ignore SIGHUP.
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP", "setsid"]);
    command.args(["--wait", "--ctty", env!("CARGO_BIN_EXE_leasehold")]).args(LONG).env("REDIS_URL", server.url());
    let listing = long(&server, command.stdin(slave.try_clone()?).stderr(slave.try_clone()?).stdout(slave))?;
    drop(command);
    let mut shown = String::new();
    while !shown.contains("searching: about") {
        let mut some = [0; 512];
        let length = master.read(&mut some)?;
        shown.push_str(&text(&some[..length]));
    }
    drop(master);
    assert_eq!(finish(listing)?.0, Some(129));
    Ok(())
}

#[test]
fn what_is_no_lock_is_left_out_and_told_if_it_was_asked_for() -> Tested {
    const TOKEN: &str = "01234567-89ab-cdef-0123-456789abcdef:7";
    let server = Server::start()?;
    let text = format!("{TOKEN} 7 apples");
    for data in [
        &["RPUSH", "list", "1"][..],
        &["SET", "text", &text],
        &["SET", "number", "7"],
        &["HSET", "hash", "apples", "3"],
        &["HSET", "big", TOKEN, "1", "more", "2"],
        &["ZADD", "scores", "3", "anna"],
        &["XADD", "stream", "*", "apples", "3"],
        &["SET", "leasehold:odd:queue", "1"],
        &["ZADD", "leasehold:{idle}:queue", "-99999999999999", TOKEN],
    ] {
        server.cli(data)?;
    }
    let (code, message) = exit(&run(&server, &["ls"])?);
    assert_eq!(code, Some(0));
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.contains("no lock"), "{message}");
    for (command, most) in [("zrange", 7), ("hlen", 6), ("hgetall", 2), ("evalsha", 1)] {
        let calls = calls(&server, command);
        assert!(calls <= most, "{calls} {command}: only `idle`, which has a queue, is inspected");
    }
    let (code, message) = exit(&run(&server, &["ls", "list"])?);
    assert_eq!(code, Some(0));
    assert!(message.contains("`list`"), "{message}");
    Ok(())
}

#[test]
fn a_name_that_is_waited_for_is_listed_whoever_holds_it() -> Tested {
    let server = Server::start()?;
    server.cli(&["SET", "invoice:foreign", "another library's", "PX", "60000"])?;
    let _waiter = start(&server, &["exec", "invoice:foreign", "--", "true"])?;
    for pattern in ["*", "inv*"] {
        until("it is listed", || {
            let output = run(&server, &["--json", "ls", pattern]).map(|output| output.stdout).unwrap_or_default();
            names(&output).is_ok_and(|names| names == ["invoice:foreign"])
        });
    }
    Ok(())
}

#[test]
fn a_lock_of_redisson_is_listed() -> Tested {
    let server = Server::start()?;
    server.cli(&["HSET", "java", "01234567-89ab-cdef-0123-456789abcdef:42", "2"])?;
    server.cli(&["PEXPIRE", "java", "60000"])?;
    assert_eq!(names(&run(&server, &["--json", "ls", "j*"])?.stdout)?, ["java"]);
    Ok(())
}

#[test]
fn names_that_the_user_may_not_read_are_left_out() -> Tested {
    let server = Server::builder().acl("app", "on >secret ~lock:* ~leasehold:* &* +@all").start()?;
    let _holders = [hold(&server, "lock:a")?, hold(&server, "other:b")?];
    let url = format!("redis://app:secret@127.0.0.1:{}/", server.port());
    let output = at(&url, &["--json", "ls"]).output()?;
    assert_eq!(exit(&output), (Some(0), String::new()));
    assert_eq!(names(&output.stdout)?, ["lock:a"]);
    Ok(())
}

#[test]
fn a_server_that_refuses_scan_has_its_own_exit_code() -> Tested {
    let server = Server::builder().acl("app", "on >secret ~* &* +@all -scan").start()?;
    let url = format!("redis://app:secret@127.0.0.1:{}/", server.port());
    let (code, message) = exit(&at(&url, &["ls"]).output()?);
    assert_eq!(code, Some(77));
    assert!(message.contains("SCAN") && message.contains("[auth]") && message.contains("inspect"), "{message}");
    let server = Server::builder().acl("app", "on >secret ~* &* +@all -getrange").start()?;
    server.cli(&["SET", "data", "1"])?;
    let url = format!("redis://app:secret@127.0.0.1:{}/", server.port());
    let (code, message) = exit(&at(&url, &["ls"]).output()?);
    assert_eq!(code, Some(77));
    assert!(message.contains("GETRANGE") && message.contains("[auth]"), "{message}");
    let renamed = Server::builder().config("rename-command SCAN \"\"\n").start()?;
    let (code, message) = exit(&run(&renamed, &["ls"])?);
    assert_eq!(code, Some(77), "{message}");
    Ok(())
}

#[test]
fn a_reader_that_goes_away_has_its_own_exit_code() -> Tested {
    let server = Server::start()?;
    let _holder = hold(&server, "job")?;
    let mut child = leasehold(&server, &["watch", "--interval", "10ms", "job"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    drop(child.stdout.take());
    let output = child.wait_with_output()?;
    assert_eq!(output.status.code(), Some(74), "{output:?}");
    assert!(text(&output.stderr).contains("[output]"));
    Ok(())
}

#[test]
#[ignore = "a cluster takes seconds to start"]
fn all_primaries_of_a_cluster_are_listed() -> Tested {
    let cluster = Cluster::steady(Server::builder)?;
    let url = cluster.urls().join(",");
    let expected = ["a", "b", "c", "d", "e", "f"];
    let hold = |name| Process::spawn(at(&url, &["--cluster", "exec", name, "--", "sleep", "60"]).stdout(Stdio::null()));
    let _holders: Vec<Process> = expected.into_iter().map(hold).collect::<Result<_, _>>()?;
    until("all are listed", || {
        let output = at(&url, &["--cluster", "--json", "ls"]).output().map(|output| output.stdout).unwrap_or_default();
        let is_lock = |line: &str| serde_json::from_str::<Value>(line).is_ok_and(|lock| lock["kind"] == "lock");
        names(&output).is_ok_and(|names| names == expected) && text(&output).lines().all(is_lock)
    });
    for name in expected {
        let output = at(&url, &["--cluster", "--json", "inspect", name]).output()?;
        assert_eq!(serde_json::from_slice::<Value>(&output.stdout)?["kind"], "lock", "{name}");
    }
    // A token works as on one server.
    let token = text(&at(&url, &["--cluster", "acquire", "deploy"]).output()?.stdout);
    let release = at(&url, &["--cluster", "release", "--token", token.trim_end(), "deploy"]).output()?;
    assert_eq!(exit(&release), (Some(0), String::new()));
    Ok(())
}
