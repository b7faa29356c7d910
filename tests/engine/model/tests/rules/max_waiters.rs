//! How many callers wait, and when a token may not join the queue because of that.

use crate::common::model::{Model, model_lock};
use crate::common::{Answer, EXCLUSIVE, Lock, SHARED, token};

/// A lock that client 1 holds, and for which two callers of client 2 and three of client 3 wait.
fn five_waiting() -> Lock<Model> {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    wait(&mut lock, 2, "wait 2");
    wait(&mut lock, 3, "wait 3");
    lock
}

fn wait(lock: &mut Lock<Model>, client: u32, how: &str) -> Answer {
    lock.acquire(&token(client, 1), EXCLUSIVE, how).unwrap()
}

#[test]
fn a_token_joins_if_fewer_callers_wait_than_it_allows() {
    let mut lock = five_waiting();
    let answer = wait(&mut lock, 4, "wait 1/6");
    assert_eq!((answer.status.as_str(), answer.value, answer.elsewhere), ("waiting", 3, Some(5)));
    assert_eq!(lock.queue(), [token(2, 1), token(3, 1), token(4, 1)]);
}

#[test]
fn a_refused_token_leaves_nothing_and_its_client_learns_how_many_wait() {
    let mut lock = five_waiting();
    for most in [5, 4, 0] {
        let before = format!("{:?}", lock.state());
        let answer = wait(&mut lock, 4, &format!("wait 1/{most}"));
        assert_eq!((answer.status.as_str(), answer.value, answer.elsewhere), ("busy", 0, Some(5)));
        assert_eq!((answer.waiting, answer.holder.map(|(holder, _)| holder)), (2, Some(token(1, 1))));
        assert_eq!(format!("{:?}", lock.state()), before);
    }
}

#[test]
fn a_token_that_waits_keeps_its_place_and_does_not_count_itself() {
    let mut lock = five_waiting();
    let answer = wait(&mut lock, 3, "wait 7/1");
    assert_eq!((answer.status.as_str(), answer.value, answer.elsewhere), ("waiting", 2, Some(2)));
    let answer = wait(&mut lock, 4, "wait 1/20");
    assert_eq!(answer.elsewhere, Some(9), "a heartbeat changes the number");
}

#[test]
fn a_client_without_the_question_gets_no_number() {
    let mut lock = five_waiting();
    assert_eq!(wait(&mut lock, 4, "wait").elsewhere, None);
    assert_eq!(wait(&mut lock, 5, "wait 3").elsewhere, None);
    assert_eq!(wait(&mut lock, 6, "wait 1/50").elsewhere, Some(9), "one caller of client 4, three of client 5");
}

#[test]
fn callers_of_dead_clients_do_not_count() {
    let mut lock = five_waiting();
    lock.pass_ms(2_000);
    wait(&mut lock, 3, "wait 3");
    lock.pass_ms(1_500);
    assert_eq!(wait(&mut lock, 4, "wait 1/4").elsewhere, Some(3));
}

#[test]
fn callers_of_a_waiter_whose_record_is_wrong_do_not_count_because_it_is_never_granted() {
    let mut lock = five_waiting();
    let dead = lock.now_ms() + 3_000;
    for wrong in [format!("exclusive -5 3000 1 3 {dead}"), format!("3000 1 3 {dead}"), String::new()] {
        lock.command(&["HSET", "leasehold:{invoice:42}:waiters", &token(3, 1), &wrong]);
        assert_eq!(wait(&mut lock, 2, "wait 2/50").elsewhere, Some(0), "{wrong}");
    }
    // It is still in the queue, behind a waiter that lives.
    assert_eq!(lock.queue(), [token(2, 1), token(3, 1)]);
}

#[test]
fn a_token_that_can_be_granted_is_never_refused() {
    let mut lock = model_lock();
    assert_eq!(wait(&mut lock, 1, "wait 1/0").status, "entered");
    lock.release(&token(1, 1));
    lock.wait(&token(2, 1), SHARED);
    assert_eq!(lock.acquire(&token(3, 1), SHARED, "wait 1/0").unwrap().status, "entered", "readers share");
    assert_eq!(wait(&mut lock, 4, "wait 1/0").status, "busy");
    assert_eq!(wait(&mut lock, 4, "wait 1/1").status, "waiting");
    assert_eq!(
        lock.acquire(&token(5, 1), SHARED, "wait 1/1").unwrap().status,
        "busy",
        "a reader waits behind a writer"
    );
}

#[test]
fn of_more_than_a_thousand_waiters_each_of_the_others_counts_once() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    for client in 2..=1_102 {
        lock.acquire(&token(client, 1), EXCLUSIVE, "wait 2").unwrap();
    }
    let answer = wait(&mut lock, 2_000, "wait 1/5000");
    assert_eq!(answer.elsewhere, Some(2 * 1_000 + 101));
}
