//! `leasehold exec`: the command, its status, its signals, and the kinds of locks.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use leasehold_servers::requests::Words;
use leasehold_servers::{Fate, Process, Proxy, Server};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::tempdir;

use crate::common::{
    Tested, at, exit, finish, holders, inspect, leasehold, number_in, run, start, text, until, waiters,
};

fn signal(process: &Process, signal: Signal) -> Result<(), Box<dyn std::error::Error>> {
    Ok(kill(Pid::from_raw(i32::try_from(process.pid())?), signal)?)
}

#[test]
fn the_commands_status_and_its_input_and_output_are_passed_through() -> Tested {
    let server = Server::start()?;
    for (script, status) in [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)] {
        assert_eq!(run(&server, &["exec", "job", "--", "sh", "-c", script])?.status.code(), Some(status), "{script}");
    }
    let mut command = leasehold(&server, &["exec", "job", "--", "sh", "-c", "cat; echo oops >&2"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    child.stdin.take().ok_or("a pipe")?.write_all(b"\x00 bytes\n")?;
    let output = child.wait_with_output()?;
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"\x00 bytes\n"[..], &b"oops\n"[..]));
    Ok(())
}

#[test]
fn the_fence_is_exported_and_rises() -> Tested {
    let server = Server::start()?;
    let mut last = 0;
    for _ in 0..3 {
        let output = run(&server, &["exec", "job", "--", "sh", "-c", "echo $LEASEHOLD_FENCE $LEASEHOLD_NAME"])?;
        let line = text(&output.stdout);
        let fence: u64 = line.strip_suffix(" job\n").ok_or(line.clone())?.parse()?;
        assert!(fence > last);
        last = fence;
    }
    assert_eq!(inspect(&server, "job")["state"], "free");
    Ok(())
}

#[test]
fn a_lock_that_is_held_at_least_stays_taken_after_the_command_whatever_its_status() -> Tested {
    let server = Server::start()?;
    for (name, status) in [("done", 0), ("failed", 7)] {
        let script = format!("exit {status}");
        let output = run(&server, &["exec", "--verbose", "--at-least", "1h", name, "--", "sh", "-c", &script])?;
        let (code, message) = exit(&output);
        assert_eq!(code, Some(status));
        assert!(
            message.contains(": stays taken until --at-least is over") && !message.contains("released"),
            "{message}"
        );
        assert_eq!(run(&server, &["exec", "--wait", "0", name, "--", "true"])?.status.code(), Some(75));
        assert_eq!(run(&server, &["force-release", "--yes", name])?.status.code(), Some(0));
        assert_eq!(run(&server, &["exec", "--wait", "0", name, "--", "true"])?.status.code(), Some(0));
    }
    Ok(())
}

#[test]
fn a_rate_starts_so_many_commands_in_a_window_and_their_end_gives_nothing_back() -> Tested {
    let server = Server::start()?;
    let start = |status: &str, per: &str| {
        let script = format!("echo $LEASEHOLD_FENCE; exit {status}");
        let rate = ["exec", "--wait", "0", "--permits", "1", "--of", "2", "--per", per];
        run(&server, &[&rate[..], &["--verbose", "api", "--", "sh", "-c", &script]].concat())
    };
    let outputs = [start("0", "1h")?, start("7", "1h")?];
    assert_eq!([&outputs[0], &outputs[1]].map(|output| output.status.code()), [Some(0), Some(7)]);
    let fences = [&outputs[0], &outputs[1]].map(|output| text(&output.stdout));
    assert!(fences[0] < fences[1], "{fences:?}");
    let (_, message) = exit(&outputs[0]);
    assert!(!message.contains("released") && !message.contains("stays taken"), "{message}");
    let (code, message) = exit(&start("0", "1h")?);
    assert!(
        code == Some(75) && message.contains("lock `api`: busy; permits come back in ") && !message.contains("held by"),
        "{message}"
    );
    let (code, message) = exit(&start("0", "2h")?);
    assert!(code != Some(0) && message.contains("another `per`"), "{message}");
    let seen = inspect(&server, "api");
    assert_eq!((&seen["permits"], &seen["limit"], &seen["per_ms"]), (&2.into(), &2.into(), &3_600_000.into()));
    let shown = text(&run(&server, &["inspect", "api"])?.stdout);
    assert!(shown.contains("semaphore, a rate: 2 of 2 permits were started in the last 1h\n"), "{shown}");
    assert!(shown.contains("next    permits come back in 59m") && !shown.contains("holder"), "{shown}");
    assert_eq!(run(&server, &["force-release", "--yes", "api"])?.status.code(), Some(0));
    assert_eq!(start("0", "1h")?.status.code(), Some(0));
    Ok(())
}

#[test]
fn a_command_that_would_wait_behind_too_many_fails_at_once_and_says_why() -> Tested {
    let server = Server::start()?;
    let nested = format!("{} exec --max-waiters 0 job -- true", env!("CARGO_BIN_EXE_leasehold"));
    let output = run(&server, &["exec", "job", "--", "sh", "-c", &nested])?;
    let (code, message) = exit(&output);
    assert_eq!(code, Some(75), "{message}");
    assert!(message.contains("busy: the limit of waiting callers is reached (0)"), "{message}");
    Ok(())
}

#[test]
fn a_command_that_is_run_once_succeeds_in_one_of_six_processes_and_only_status_0_is_stored() -> Tested {
    let (server, directory) = (Server::start()?, tempdir()?);
    let file = directory.path().join("runs");
    let count = || fs::read_to_string(&file).unwrap_or_default().lines().count();
    let script = format!("echo run >> {}; exit ", file.display());
    let once = |wait, status| {
        let script = format!("{script}{status}");
        ["exec", "--once", "--keep", "36h", "--wait", wait, "nightly", "--", "sh", "-c", &script].map(str::to_owned)
    };
    for runs in [1, 2] {
        let failing = once("0", 7);
        let failing: Vec<&str> = failing.iter().map(String::as_str).collect();
        assert_eq!(run(&server, &failing)?.status.code(), Some(7));
        assert_eq!(count(), runs);
    }
    let good = once("forever", 0);
    let good: Vec<&str> = good.iter().map(String::as_str).collect();
    let jobs: Result<Vec<_>, _> = (0..6).map(|_| start(&server, &good)).collect();
    for job in jobs? {
        assert_eq!(finish(job)?.0, Some(0));
    }
    assert_eq!(count(), 3, "one of the six");
    let late = run(&server, &good)?;
    assert_eq!((late.status.code(), count()), (Some(0), 3));
    assert_eq!(run(&server, &["exec", "nightly", "--", "true"])?.status.code(), Some(0), "the name is free again");
    Ok(())
}

#[test]
fn a_success_that_is_forgotten_lets_the_command_run_again() -> Tested {
    let (server, directory) = (Server::start()?, tempdir()?);
    let file = directory.path().join("runs");
    let script = format!("echo run >> {}", file.display());
    let migrate = || run(&server, &["exec", "--once", "migrate-v42", "--", "sh", "-c", &script]);
    for runs in [1, 2] {
        for _ in 0..2 {
            assert_eq!(exit(&migrate()?), (Some(0), String::new()));
            assert_eq!(fs::read_to_string(&file)?.lines().count(), runs);
        }
        let forgotten = run(&server, &["forget", "migrate-v42"])?;
        assert_eq!((forgotten.status.code(), &*text(&forgotten.stdout)), (Some(0), "migrate-v42: deleted\n"));
    }
    let nothing = run(&server, &["forget", "migrate-v42"])?;
    let message = "migrate-v42: no result. Check the name and --prefix.\n";
    assert_eq!((nothing.status.code(), &*text(&nothing.stdout)), (Some(0), message));
    let nothing = run(&server, &["--json", "forget", "migrate-v42"])?;
    let said: serde_json::Value = serde_json::from_slice(&nothing.stdout)?;
    assert_eq!(said, serde_json::json!({ "name": "migrate-v42", "forgotten": false }));
    Ok(())
}

#[test]
fn commands_under_one_lock_exclude_each_other() -> Tested {
    let (server, directory) = (Server::start()?, tempdir()?);
    let file = directory.path().join("count");
    fs::write(&file, "0\n")?;
    let script = format!("n=$(cat {0}); sleep 0.05; echo $((n + 1)) > {0}", file.display());
    let jobs: Result<Vec<_>, _> = (0..6).map(|_| start(&server, &["exec", "job", "--", "sh", "-c", &script])).collect();
    for job in jobs? {
        assert_eq!(finish(job)?.0, Some(0));
    }
    assert_eq!(number_in(&file), 6);
    Ok(())
}

#[test]
fn readers_share_a_lock_and_a_writer_waits_for_them() -> Tested {
    let (server, directory) = (Server::start()?, tempdir()?);
    let go = directory.path().join("go");
    let wait = format!("until [ -e {} ]; do sleep 0.02; done", go.display());
    let reader = ["exec", "--read", "page", "--", "sh", "-c", &wait];
    let readers = [start(&server, &reader)?, start(&server, &reader)?];
    until("both read", || holders(&server, "page") == 2);
    assert_eq!(run(&server, &["exec", "-w", "0", "page", "--", "true"])?.status.code(), Some(75));
    let writer = start(&server, &["exec", "page", "--", "true"])?;
    until("the writer waits", || waiters(&server, "page") == 1);
    fs::write(&go, "")?;
    for process in readers.into_iter().chain([writer]) {
        assert_eq!(finish(process)?.0, Some(0));
    }
    Ok(())
}

#[test]
fn a_semaphore_has_its_permits_and_no_more() -> Tested {
    let (server, directory) = (Server::start()?, tempdir()?);
    let go = directory.path().join("go");
    let wait = format!("until [ -e {} ]; do sleep 0.02; done", go.display());
    let one = ["exec", "--permits", "1", "--of", "3", "reports", "--", "sh", "-c", &wait];
    let first = start(&server, &one)?;
    until("one permit is taken", || holders(&server, "reports") == 1);
    let two =
        |permits: &str| run(&server, &["exec", "--permits", permits, "--of", "3", "-w", "0", "reports", "--", "true"]);
    assert_eq!(two("2")?.status.code(), Some(0), "two are left");
    assert_eq!(two("3")?.status.code(), Some(75), "three are not");
    fs::write(&go, "")?;
    assert_eq!(finish(first)?.0, Some(0));
    assert_eq!(run(&server, &["exec", "--permits", "1", "reports", "--", "true"])?.status.code(), Some(64));
    Ok(())
}

#[test]
fn a_busy_lock_has_its_own_exit_code_and_its_holder_is_told() -> Tested {
    let server = Server::start()?;
    let _holder = start(&server, &["exec", "job", "--", "sleep", "60"])?;
    until("it is held", || holders(&server, "job") == 1);
    let (code, message) = exit(&run(&server, &["exec", "--wait", "0", "job", "--", "true"])?);
    assert_eq!(code, Some(75));
    assert!(message.contains("`job`: busy; held by ") && message.contains("inspect"), "{message}");
    let client = inspect(&server, "job")["holders"][0]["client"].as_str().unwrap_or_default().to_owned();
    // On a slow machine, the wait may be over before the server has answered.
    until("a wait that ends", || {
        let waited =
            run(&server, &["exec", "-v", "-E", "9", "-w", "1s", "job", "--", "true"]).expect("the program runs");
        let (code, message) = exit(&waited);
        assert!(matches!(code, Some(9 | 69)), "{code:?}: {message}");
        code == Some(9) && message.contains(&client) && message.contains("busy after")
    });
    Ok(())
}

#[test]
fn several_holders_of_a_busy_lock_are_named() -> Tested {
    let server = Server::start()?;
    let one = ["exec", "--permits", "1", "--of", "2", "reports", "--", "sleep", "60"];
    let _holders = [start(&server, &one)?, start(&server, &one)?];
    until("both hold permits", || holders(&server, "reports") == 2);
    let one_more = ["exec", "--permits", "1", "--of", "2", "--wait", "0", "reports", "--", "true"];
    let (code, message) = exit(&run(&server, &one_more)?);
    assert_eq!(code, Some(75), "{message}");
    assert!(message.contains("`reports`: busy; held by 2 holders"), "{message}");
    Ok(())
}

#[test]
fn a_wait_without_a_limit_and_a_ttl_can_come_from_the_environment() -> Tested {
    let server = Server::start()?;
    let holder = start(&server, &["exec", "job", "--", "sleep", "60"])?;
    until("it is held", || holders(&server, "job") == 1);
    let mut command = leasehold(&server, &["exec", "job", "--", "true"]);
    let (code, message) = exit(&command.env("LEASEHOLD_WAIT", "0").output()?);
    assert_eq!(code, Some(75), "{message}");
    let mut command = leasehold(&server, &["exec", "--wait", "forever", "job", "--", "sleep", "60"]);
    command.env("LEASEHOLD_WAIT", "0").env("LEASEHOLD_TTL", "1h");
    let _waiter = Process::spawn(command.stdout(Stdio::null()).stderr(Stdio::null()))?;
    until("it waits", || waiters(&server, "job") == 1);
    drop(holder);
    run(&server, &["force-release", "--yes", "job"])?;
    until("its lease is renewed for the TTL of the environment", || {
        inspect(&server, "job")["holders"][0]["remaining_ms"].as_u64().is_some_and(|left| left > 600_000)
    });
    Ok(())
}

#[test]
fn signals_reach_the_command_and_its_answer_counts() -> Tested {
    let (server, directory) = (Server::start()?, tempdir()?);
    // Not SIGINT and SIGHUP: a test that runs in the background inherits them as ignored, and so do its children.
    for (name, number, status) in
        [(Signal::SIGTERM, "TERM", 41), (Signal::SIGUSR2, "USR2", 42), (Signal::SIGUSR1, "USR1", 43)]
    {
        let ready = directory.path().join(number);
        let script =
            format!("trap 'exit {status}' {number}; echo 1 > {}; while :; do sleep 0.02; done", ready.display());
        let job = start(&server, &["exec", "job", "--", "sh", "-c", &script])?;
        number_in(&ready);
        signal(&job, name)?;
        assert_eq!(finish(job)?.0, Some(status), "{number}");
        assert_eq!(inspect(&server, "job")["state"], "free", "it was released, not left to its TTL");
    }
    Ok(())
}

#[test]
fn a_signal_during_the_wait_leaves_the_queue() -> Tested {
    let server = Server::start()?;
    let _holder = start(&server, &["exec", "job", "--", "sleep", "60"])?;
    until("it is held", || holders(&server, "job") == 1);
    let waiting = start(&server, &["exec", "job", "--", "true"])?;
    until("it waits", || waiters(&server, "job") == 1);
    signal(&waiting, Signal::SIGTERM)?;
    assert_eq!(finish(waiting)?.0, Some(143));
    assert_eq!(waiters(&server, "job"), 0);
    Ok(())
}

#[test]
fn a_terminal_that_changes_its_size_does_not_end_a_wait() -> Tested {
    let server = Server::start()?;
    server.cli(&["SET", "job", "somebody", "PX", "600000"])?;
    let waiting = start(&server, &["exec", "job", "--", "true"])?;
    until("it waits", || waiters(&server, "job") == 1);
    signal(&waiting, Signal::SIGWINCH)?;
    run(&server, &["force-release", "--yes", "job"])?;
    assert_eq!(finish(waiting)?.0, Some(0));
    Ok(())
}

#[test]
fn a_wait_that_ends_with_a_busy_lock_leaves_the_queue() -> Tested {
    let server = Server::start()?;
    let _holder = start(&server, &["exec", "job", "--", "sleep", "60"])?;
    until("it is held", || holders(&server, "job") == 1);
    // On a slow machine, the wait may be over before the server has answered.
    until("a wait that ends", || {
        let waited = run(&server, &["exec", "-w", "1s", "job", "--", "true"]).expect("the program runs");
        assert!(matches!(waited.status.code(), Some(75 | 69)), "{waited:?}");
        waited.status.code() == Some(75)
    });
    assert_eq!(waiters(&server, "job"), 0, "the next waiter does not wait for this one");
    Ok(())
}

#[test]
fn a_command_that_cannot_run_has_the_shells_exit_codes_and_takes_no_lock() -> Tested {
    let (server, directory) = (Server::start()?, tempdir()?);
    let file = directory.path().join("plain");
    fs::write(&file, "text")?;
    let file = file.to_str().ok_or("a path")?;
    for (program, code, word) in [
        ("no-such-command", 127, "command-not-found"),
        ("./no/such/command", 127, "command-not-found"),
        (file, 126, "command-not-executable"),
        ("/", 126, "command-not-executable"),
    ] {
        let (status, message) = exit(&run(&server, &["exec", "job", "--", program])?);
        assert_eq!(status, Some(code), "{program}");
        assert!(message.contains(word) && message.contains(program), "{message}");
    }
    assert_eq!(server.cli(&["DBSIZE"])?.integer(), Some(0), "no lock was acquired");
    Ok(())
}

#[test]
fn with_json_each_event_is_a_line() -> Tested {
    let server = Server::start()?;
    let output = run(&server, &["--json", "exec", "job", "--", "echo", "hi"])?;
    assert_eq!(output.stdout, b"hi\n");
    let events: Result<Vec<serde_json::Value>, _> = text(&output.stderr).lines().map(serde_json::from_str).collect();
    let events: Vec<_> = events?.into_iter().map(|event| event["event"].as_str().map(str::to_owned)).collect();
    assert_eq!(events, [Some("acquired".to_owned()), Some("released".to_owned())]);
    Ok(())
}

#[test]
fn a_server_that_cannot_be_reached_has_its_own_exit_code() -> Tested {
    let mut server = Server::start()?;
    let url = server.url();
    server.stop();
    let (code, message) = exit(&at(&url, &["exec", "job", "--", "true"]).output()?);
    assert_eq!(code, Some(69));
    assert!(message.contains("[unreachable]") && message.contains("REDIS_URL"), "{message}");
    Ok(())
}

#[test]
fn a_wait_without_a_limit_says_that_the_server_does_not_answer() -> Tested {
    let down = |words: &Words| {
        if words[0] != b"EVALSHA" {
            return Fate::Passes;
        }
        let refusal = b"return redis.error_reply('CLUSTERDOWN Hash slot not served')".to_vec();
        Fate::Becomes(vec![b"EVAL".to_vec(), refusal, b"0".to_vec()])
    };
    let (proxy, directory) = (Proxy::start(Server::start()?, down)?, tempdir()?);
    let said = directory.path().join("said");
    let mut command = at(&proxy.url(), &["--timeout", "1s", "exec", "job", "--", "true"]);
    let _waiting = Process::spawn(command.stderr(fs::File::create(&said)?))?;
    let what = format!("lock `job`: still waiting: no answer from {}", proxy.url().trim_end_matches('/'));
    until("what blocks the lock is told", || {
        let said = fs::read_to_string(&said).unwrap_or_default();
        said.contains(&what) || said.contains("still waiting: ") && said.contains("CLUSTERDOWN")
    });
    Ok(())
}

#[test]
fn an_outage_that_is_shorter_than_the_lease_changes_nothing() -> Tested {
    let (mut server, directory) = (Server::start()?, tempdir()?);
    let (ready, go) = (directory.path().join("ready"), directory.path().join("go"));
    let script = format!("echo 1 > {}; until [ -e {} ]; do sleep 0.02; done; exit 5", ready.display(), go.display());
    // `exec` gives up the release after this time. When it starts, the server must answer in this time, too.
    let hasty = ["--timeout", "1s", "exec", "job", "--", "sh", "-c", &script];
    let mut job = start(&server, &hasty)?;
    until("the command runs", || {
        if job.ended().is_ok_and(|status| status.is_some()) {
            job = start(&server, &hasty).expect("the program runs");
        }
        ready.exists()
    });
    server.stop();
    fs::write(&go, "")?;
    let (code, _, message) = finish(job)?;
    assert_eq!(code, Some(5), "the lease was valid when the command ended: {message}");
    assert!(message.contains("not released"), "{message}");
    Ok(())
}
