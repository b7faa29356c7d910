//! `leasehold lead`: the program runs while its process leads, and again when it leads again.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use leasehold_servers::{Process, Server};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::{TempDir, tempdir};

use crate::common::{Tested, exit, finish, inspect, lives, run, start, text, until, waiters};

const NAME: &str = "scheduler";

/// A process that takes part in the election. Its program writes `<fence> <process id>` for each term.
struct Candidate {
    process: Process,
    directory: TempDir,
}

impl Candidate {
    /// `before` is what the program does first, such as ignoring a signal.
    fn start(server: &Server, options: &[&str], before: &str) -> Result<Self, Box<dyn std::error::Error>> {
        let directory = tempdir()?;
        let at = directory.path().display();
        let script = format!("{before}; echo $LEASEHOLD_FENCE $$ >> {at}/terms; while :; do sleep 0.02; done");
        let arguments = [&["lead"], options, &[NAME, "--", "sh", "-c", &script]].concat();
        Ok(Self { process: start(server, &arguments)?, directory })
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("terms")
    }

    /// Waits until the program has been started so often. Returns the fence and the process of the last time.
    fn term(&self, number: usize) -> (u64, i32) {
        until("the program runs", || terms(&self.file()).len() >= number);
        terms(&self.file()).last().copied().unwrap_or_default()
    }

    fn signal(&self, signal: Signal) -> Tested {
        Ok(kill(Pid::from_raw(i32::try_from(self.process.pid())?), signal)?)
    }
}

fn terms(file: &Path) -> Vec<(u64, i32)> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
    whole
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)))
        .collect()
}

/// A leader that hears messages, because it has waited for another one to resign.
fn listening(server: &Server, options: &[&str], before: &str) -> Result<Candidate, Box<dyn std::error::Error>> {
    let first = Candidate::start(server, &[], ":")?;
    first.term(1);
    let candidate = Candidate::start(server, options, before)?;
    until("it campaigns", || waiters(server, NAME) == 1);
    first.signal(Signal::SIGTERM)?;
    finish(first.process)?;
    candidate.term(1);
    Ok(candidate)
}

fn leader(server: &Server) -> Value {
    inspect(server, NAME)["leader"].clone()
}

#[test]
fn a_signal_ends_the_program_then_the_process_resigns_and_the_next_one_leads() -> Tested {
    let server = Server::start()?;
    for (name, number, status) in [(Signal::SIGTERM, "TERM", 41), (Signal::SIGUSR1, "USR1", 42)] {
        let first =
            Candidate::start(&server, &["--value", "10.0.0.7:80 a"], &format!("trap 'exit {status}' {number}"))?;
        let (fence, program) = first.term(1);
        assert_eq!(leader(&server), serde_json::json!({ "fence": fence, "value": "10.0.0.7:80 a" }));
        let second = Candidate::start(&server, &["--value", "b"], ":")?;
        until("the second one campaigns", || waiters(&server, NAME) == 1);
        assert!(!second.file().exists(), "one leads at a time");
        first.signal(name)?;
        assert_eq!(finish(first.process)?.0, Some(status), "the program's answer counts");
        assert!(!lives(program));
        let (next, _) = second.term(1);
        assert!(next > fence);
        assert_eq!(leader(&server), serde_json::json!({ "fence": next, "value": "b" }));
        second.signal(Signal::SIGTERM)?;
        assert_eq!(finish(second.process)?.0, Some(143));
        assert_eq!(inspect(&server, NAME)["state"], "free", "it resigned, it was not left to its TTL");
    }
    Ok(())
}

#[test]
fn a_program_that_ends_by_itself_ends_the_term_and_its_status_counts() -> Tested {
    let server = Server::start()?;
    for status in [0, 7] {
        let script = format!("echo $LEASEHOLD_NAME; exit {status}");
        let output = run(&server, &["--json", "lead", NAME, "--", "sh", "-c", &script])?;
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(status), format!("{NAME}\n")));
        let events: Result<Vec<Value>, _> = text(&output.stderr).lines().map(serde_json::from_str).collect();
        let events: Vec<_> = events?.iter().map(|event| event["event"].clone()).collect();
        assert_eq!(events, ["leads", "resigned"]);
        assert_eq!(inspect(&server, NAME)["state"], "free");
    }
    Ok(())
}

#[test]
fn a_program_whose_term_is_lost_is_ended_and_starts_again_in_the_next_term() -> Tested {
    let server = Server::start()?;
    let candidate = listening(&server, &["--grace", "600s"], "trap 'exit 0' TERM")?;
    let mut last = candidate.term(1);
    for number in 2..4 {
        assert_eq!(exit(&run(&server, &["force-release", "--yes", NAME])?).0, Some(0));
        let next = candidate.term(number);
        assert!(next.0 > last.0 && !lives(last.1), "{next:?} after {last:?}");
        last = next;
    }
    candidate.signal(Signal::SIGTERM)?;
    let (code, _, message) = finish(candidate.process)?;
    assert_eq!(code, Some(0), "{message}");
    let lost = format!("election `{NAME}`: the term was lost: ");
    assert!(message.matches(&lost).count() == 2 && message.contains("the program gets SIGTERM"), "{message}");
    Ok(())
}

#[test]
fn a_program_runs_again_after_an_outage_in_which_the_server_lost_its_data() -> Tested {
    let mut server = Server::start()?;
    // On a slow machine, terms are lost before, too.
    let candidate = Candidate::start(&server, &["--ttl", "2s"], ":")?;
    let (_, first) = candidate.term(1);
    server.stop();
    until("the program has ended", || !lives(first));
    let before = terms(&candidate.file()).len();
    server.restart()?;
    let (fence, program) = candidate.term(before + 1);
    assert!(program != first);
    until("it leads", || leader(&server)["fence"].as_u64().is_some_and(|now| now >= fence));
    Ok(())
}

#[test]
fn a_process_that_was_asked_to_end_does_not_campaign_again() -> Tested {
    let server = Server::start()?;
    let candidate = listening(&server, &["--grace", "300ms"], "trap '' TERM")?;
    let (_, program) = candidate.term(1);
    // The program goes on. Then the term is lost.
    candidate.signal(Signal::SIGTERM)?;
    run(&server, &["force-release", "--yes", NAME])?;
    let file = candidate.file();
    let (code, _, message) = finish(candidate.process)?;
    assert!(matches!(code, Some(137 | 143)), "{code:?}: {message}");
    assert!(!lives(program) && terms(&file).len() <= 1);
    assert_eq!(inspect(&server, NAME)["state"], "free");
    Ok(())
}

#[test]
fn a_campaign_says_behind_whom_it_waits_if_it_is_to_say_everything() -> Tested {
    let server = Server::start()?;
    let _leads = listening(&server, &["--label", "host-1/7"], ":")?;
    let mut campaigns = Candidate::start(&server, &["--verbose"], ":")?;
    let mut line = String::new();
    BufReader::new(campaigns.process.take_stderr().ok_or("no pipe")?).read_line(&mut line)?;
    assert!(line.starts_with("leasehold: election `scheduler`: waits; led by host-1/7 ("), "{line}");
    campaigns.signal(Signal::SIGTERM)?;
    finish(campaigns.process)?;

    let mut campaigns = start(&server, &["--json", "lead", NAME, "--", "true"])?;
    let mut line = String::new();
    BufReader::new(campaigns.take_stderr().ok_or("no pipe")?).read_line(&mut line)?;
    let event: Value = serde_json::from_str(&line)?;
    assert_eq!(
        (&event["event"], &event["lock"]["holders"][0]["label"]),
        (&"busy".into(), &"host-1/7".into()),
        "{line}"
    );
    kill(Pid::from_raw(i32::try_from(campaigns.pid())?), Signal::SIGTERM)?;
    finish(campaigns)?;
    Ok(())
}

#[test]
fn a_signal_during_a_campaign_ends_it() -> Tested {
    let server = Server::start()?;
    let leads = Candidate::start(&server, &[], ":")?;
    leads.term(1);
    let campaigns = Candidate::start(&server, &[], ":")?;
    until("it campaigns", || waiters(&server, NAME) == 1);
    campaigns.signal(Signal::SIGTERM)?;
    assert_eq!(finish(campaigns.process)?.0, Some(143));
    assert_eq!(waiters(&server, NAME), 0);
    Ok(())
}

#[test]
fn when_lead_is_killed_the_program_ends_before_the_term_does() -> Tested {
    let server = Server::start()?;
    let candidate = Candidate::start(&server, &["--ttl", "60s"], ":")?;
    let (_, program) = candidate.term(1);
    candidate.signal(Signal::SIGKILL)?;
    until("the guard has ended the program", || !lives(program));
    assert_eq!(inspect(&server, NAME)["state"], "held", "the term runs on, so nobody overlapped with the program");
    Ok(())
}

#[test]
fn a_leader_that_is_paused_is_followed_by_another_one_and_campaigns_again() -> Tested {
    let server = Server::start()?;
    let paused = Candidate::start(&server, &["--ttl", "2s"], ":")?;
    let (_, program) = paused.term(1);
    paused.process.pause()?;
    until("the guard has ended its program", || !lives(program));
    let fence = terms(&paused.file()).last().map_or(0, |(fence, _)| *fence);
    let next = Candidate::start(&server, &[], ":")?;
    assert!(next.term(1).0 > fence);
    let before = terms(&paused.file()).len();
    paused.process.resume()?;
    until("it campaigns again", || waiters(&server, NAME) == 1);
    next.signal(Signal::SIGTERM)?;
    finish(next.process)?;
    paused.term(before + 1);
    paused.signal(Signal::SIGTERM)?;
    let (_, _, message) = finish(paused.process)?;
    assert!(message.contains("the term was lost: ") && message.contains("paused"), "{message}");
    Ok(())
}

#[test]
fn an_election_that_cannot_be_held_says_why() -> Tested {
    let server = Server::start()?;
    for (program, code) in [("no-such-program", 127), ("/", 126)] {
        assert_eq!(run(&server, &["lead", NAME, "--", program])?.status.code(), Some(code));
    }
    assert_eq!(server.cli(&["DBSIZE"])?.integer(), Some(0), "nobody campaigned");
    let _holder = start(&server, &["exec", NAME, "--", "sleep", "60"])?;
    until("a lock of this name is held", || inspect(&server, NAME)["state"] == "held");
    let (code, message) = exit(&run(&server, &["lead", NAME, "--", "true"])?);
    assert!(code == Some(65) && message.contains("[wrong-kind]"), "{code:?}: {message}");
    let others = [Server::start()?, Server::start()?];
    let urls = format!("{},{},{}", server.url(), others[0].url(), others[1].url());
    let (code, message) = exit(&run(&server, &["--url", &urls, "--quorum", "lead", "other", "--", "true"])?);
    assert!(code == Some(78) && message.contains("a quorum has no elections"), "{code:?}: {message}");
    Ok(())
}
