//! What a close tells of leases whose release failed, for every way in which it can fail.

use std::time::Duration;

use leasehold_core::{Config, Error, Failure, Input, OpId, Outcome, Reply, Scalar};

use super::client::{Client, entries, fixed, granting};

/// A reply to a command, or its failure.
type Answer = Result<Reply, Failure>;

const HELD: usize = 3;

fn refused(text: &str) -> Answer {
    Err(Failure::Refused(text.to_owned()))
}

/// The failures that a retry may mend.
fn temporary() -> Vec<Answer> {
    let refusals = ["OOM command not allowed when used memory > 'maxmemory'.", "READONLY You can't write", "LOADING"];
    let others = [Failure::Unavailable("refused".into()), Failure::Interrupted("reset".into()), Failure::TimedOut];
    refusals.map(refused).into_iter().chain(others.map(Err)).collect()
}

/// The failures that no retry mends.
fn final_ones() -> Vec<Answer> {
    let refusals = [
        "NOPERM User default has no permissions to run the 'evalsha' command",
        "NOAUTH Authentication required.",
        "WRONGPASS invalid username-password pair or user is disabled.",
        "BADFENCE leasehold:fence holds no fence of ours",
    ];
    let others = [Failure::Closed("the client was quit".into()), Failure::Unsupported("no such script here".into())];
    let unreadable = Ok(Reply::One(Scalar::Text(b"?".into())));
    refusals.map(refused).into_iter().chain(others.map(Err)).chain([unreadable]).collect()
}

fn closes(client: &mut Client) -> OpId {
    let op = client.call(|op| Input::Close { op });
    client.feed(Input::Wake);
    op
}

/// The server gives this answer to every release, until nothing more is asked.
fn answers(client: &mut Client, answer: &Answer) {
    while !client.unanswered.is_empty() {
        client.answer_with(answer.clone());
    }
}

fn told(client: &Client, op: OpId) -> Option<u32> {
    match client.result_of(op)? {
        Ok(Outcome::Closed { unreleased, .. }) => Some(*unreleased),
        other => panic!("{other:?}"),
    }
}

fn holding(batches: bool) -> Client {
    let mut client = Client::new(Config { batches, ..Config::default() });
    client.hold(HELD, fixed());
    client
}

#[test]
fn a_close_whose_releases_can_not_succeed_ends_at_once_and_counts_them() {
    for (answer, batches) in final_ones().into_iter().flat_map(|answer| [(answer.clone(), false), (answer, true)]) {
        let mut client = holding(batches);
        let op = closes(&mut client);
        answers(&mut client, &answer);
        assert_eq!(told(&client, op), Some(HELD as u32), "{answer:?}, batches: {batches}");
        let again = closes(&mut client);
        assert_eq!(told(&client, again), Some(HELD as u32), "{answer:?}");
        client.pass(Duration::from_secs(700));
        assert!(client.engine.is_idle(), "{answer:?}: the leases are over, and nothing is left of them");
    }
}

#[test]
fn a_close_whose_releases_fail_for_a_response_timeout_counts_them() {
    for (answer, batches) in temporary().into_iter().flat_map(|answer| [(answer.clone(), false), (answer, true)]) {
        let mut client = holding(batches);
        let op = closes(&mut client);
        for _ in 0..20 {
            assert_eq!(told(&client, op), None, "{answer:?}: it is tried again");
            answers(&mut client, &answer);
            client.pass(Duration::from_millis(100));
        }
        assert_eq!(told(&client, op), Some(HELD as u32), "{answer:?}, batches: {batches}");
    }
}

#[test]
fn a_close_does_not_count_leases_whose_keys_belong_to_another_program() {
    let mut client = holding(true);
    let op = closes(&mut client);
    answers(&mut client, &refused("WRONGTYPE Operation against a key holding the wrong kind of value"));
    assert_eq!(told(&client, op), Some(0));
}

#[test]
fn a_close_counts_a_lease_whose_release_failed_before_until_the_lease_ends() {
    for (passed, unreleased) in [(Duration::ZERO, 1), (Duration::from_secs(601), 0)] {
        let mut client = Client::new(Config::default());
        let lease = client.hold(1, fixed())[0];
        let op = client.call(|op| Input::Release { op, lease });
        client.feed(Input::Wake);
        answers(&mut client, &refused("NOPERM no"));
        assert!(matches!(client.result_of(op), Some(Err(Error::Auth(_)))), "{:?}", client.ended);
        client.pass(passed);
        let close = closes(&mut client);
        assert_eq!(told(&client, close), Some(unreleased), "after {passed:?}");
    }
}

#[test]
fn a_close_does_not_count_a_lease_that_a_second_copy_of_the_release_gave_back() {
    let mut client = holding(true);
    let op = closes(&mut client);
    // Each is sent again, alone. The server answers the second copies, and then the first ones.
    client.pass(Duration::from_millis(1_100));
    assert_eq!(client.unanswered.len(), 1 + HELD, "{:?}", client.unanswered);
    let (batch, command) = client.unanswered.remove(0);
    assert_eq!(entries(&command).map(|entries| entries.len()), Some(HELD));
    for _ in 0..HELD - 1 {
        client.answer_with(refused("NOPERM no"));
    }
    client.reply(batch, Ok(granting(&command, client.now)));
    client.serve(Duration::from_micros(10));
    assert_eq!(told(&client, op), Some(0));
}
