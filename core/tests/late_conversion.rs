//! The server refuses an upgrade, and a delayed copy of the command is carried out all the same.

use leasehold_core::{
    AcquireOptions, ClientId, Command, CommandId, Config, Error, Input, LeaseId, LossReason, Mode, Outcome,
};
use leasehold_harness::Client;
use leasehold_harness::answers::{SERVER_US, status};

/// Waits until a command has left.
fn next(client: &mut Client) -> (CommandId, Command) {
    while client.unanswered.is_empty() {
        client.now = client.engine.poll_timeout().expect("the client has something to do").0.as_micros();
        client.feed(Input::Wake);
    }
    client.unanswered.remove(0)
}

fn answer(client: &mut Client, id: CommandId, word: &str, fence: i64) {
    client.now += 1_000;
    client.reply(id, Ok(status(word, [fence, 1, SERVER_US + client.now as i64, 30_000, 0, 0])));
}

fn has(command: &Command, word: &str) -> bool {
    command.words().any(|other| other.starts_with(word.as_bytes()))
}

/// The token that a convert moves the lease to: the second one in the command.
fn new_token(command: &Command) -> String {
    let id = ClientId::from_random([7; 16]).to_string();
    let words = command.words().map(|word| String::from_utf8_lossy(word).into_owned());
    words.filter(|word| word.starts_with(&id)).nth(1).expect("a convert has two tokens")
}

/// A client that holds the lock as a reader.
fn reader() -> (Client, LeaseId) {
    let mut reader = Client::new(Config::default());
    let acquire =
        reader.acquire("job", AcquireOptions { mode: Mode::Shared, renew: false, ..AcquireOptions::default() });
    reader.leave_undone();
    let (id, _) = next(&mut reader);
    answer(&mut reader, id, "entered", SERVER_US + 5);
    let lease = reader.grant_of(acquire).lease;
    (reader, lease)
}

#[test]
fn the_lease_goes_on_under_the_new_token_which_is_given_back_at_the_end() {
    let (mut reader, lease) = reader();
    let convert = reader.call(|op| Input::Convert { op, lease, mode: Mode::Exclusive });
    let (first, command) = next(&mut reader);
    let (copy, again) = next(&mut reader);
    let new = new_token(&command);
    assert_eq!(new_token(&again), new, "the answer is late, so the client asks again");
    answer(&mut reader, first, "conflict", 0);
    assert!(matches!(reader.result_of(convert), Some(Err(Error::Conflict(_)))));
    answer(&mut reader, copy, "converted", SERVER_US + 9);
    assert!(reader.lost.is_empty());

    reader.now += 1_000_000;
    reader.unanswered.clear();
    reader.call(|op| Input::Release { op, lease });
    let (_, release) = next(&mut reader);
    assert!(has(&release, &new), "{release:?} gives {new} back");
}

#[test]
fn a_second_upgrade_that_is_under_way_meanwhile_completes() {
    let (mut reader, lease) = reader();
    reader.call(|op| Input::Convert { op, lease, mode: Mode::Exclusive });
    let (first, _) = next(&mut reader);
    let (copy, _) = next(&mut reader);
    answer(&mut reader, first, "conflict", 0);

    let second = reader.call(|op| Input::Convert { op, lease, mode: Mode::Exclusive });
    let (_, _) = next(&mut reader);
    answer(&mut reader, copy, "converted", SERVER_US + 9);
    let (id, _) = next(&mut reader);
    answer(&mut reader, id, "converted", SERVER_US + 20);
    let result = reader.result_of(second);
    let is_writer = |outcome: &Outcome| matches!(outcome, Outcome::Converted(grant) if grant.mode == Mode::Exclusive);
    assert!(matches!(&result, Some(Ok(outcome)) if is_writer(outcome)), "{result:?}");
}

#[test]
fn without_the_answer_the_lease_is_lost_and_the_new_token_is_given_back() {
    let (mut reader, lease) = reader();
    reader.call(|op| Input::Convert { op, lease, mode: Mode::Exclusive });
    let (first, command) = next(&mut reader);
    let _copy = next(&mut reader);
    answer(&mut reader, first, "conflict", 0);

    reader.call(|op| Input::Verify { op, lease });
    let (id, _) = next(&mut reader);
    answer(&mut reader, id, "taken", 0);
    assert!(matches!(reader.lost[..], [(lost, _, LossReason::Taken)] if lost == lease), "{:?}", reader.lost);
    let (_, release) = next(&mut reader);
    let new = new_token(&command);
    assert!(has(&release, &new), "{release:?} gives {new} back");
}
