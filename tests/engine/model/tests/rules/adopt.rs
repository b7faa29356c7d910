//! A lease gets a new token in the mode that it has.

use crate::common::model::model_lock;
use crate::common::{EXCLUSIVE, SHARED, token};

#[test]
fn another_client_takes_the_lease_over_with_the_time_that_it_asks_for() {
    for ttl in [1_000_u16, 60_000] {
        let mut lock = model_lock();
        let entered = lock.wait(&token(1, 1), EXCLUSIVE);
        lock.wait(&token(3, 1), EXCLUSIVE);
        lock.ttl = ttl.into();
        let adopted = lock.convert_with_tombstone(&token(1, 1), &token(2, 1), EXCLUSIVE, 60_000).unwrap();
        assert_eq!((adopted.status.as_str(), adopted.ms, adopted.waiting), ("converted", i64::from(ttl), 1));
        assert_eq!((lock.holder(), lock.pttl(0)), (Some(token(2, 1)), i64::from(ttl)));
        assert!(adopted.value >= entered.value + entered.block, "above each fence of the former holder's block");
        assert_eq!(lock.release(&token(2, 1)).status, "released");
        assert_eq!(lock.holder(), Some(token(3, 1)), "the mark of the waiter was kept");
    }
}

#[test]
fn the_former_holder_is_told_and_its_token_never_comes_back() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.convert_with_tombstone(&token(1, 1), &token(2, 1), EXCLUSIVE, 60_000).unwrap();
    let payload = format!("revoked {} {}", token(1, 1), lock.keys[0]);
    assert!(lock.messages().iter().any(|(_, message)| *message == payload));
    assert_eq!(lock.renew(&token(1, 1), EXCLUSIVE, 30_000).status, "taken");
    assert_eq!(lock.release(&token(1, 1)).status, "taken");
    lock.release(&token(2, 1));
    assert_eq!(lock.acquire(&token(1, 1), EXCLUSIVE, "try").unwrap().status, "gone");
}

#[test]
fn adoptions_leave_the_counter_within_two_milliseconds_of_the_clock() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    for counter in 1..1_000 {
        let [old, new] = [counter, counter + 1].map(|counter| token(2 - counter % 2, counter.into()));
        let adopted = lock.convert_with_tombstone(&old, &new, EXCLUSIVE, 60_000).unwrap();
        // A copy of the command, and another client that comes too late.
        let again = lock.convert_with_tombstone(&old, &new, EXCLUSIVE, 60_000).unwrap();
        let late = lock.convert_with_tombstone(&old, &token(3, counter.into()), EXCLUSIVE, 60_000).unwrap();
        assert_eq!([adopted.status, again.status, late.status], ["converted", "again", "taken"]);
        lock.pass_ms(1);
    }
    assert!(lock.last_fence() < lock.now_us() + 2_023, "{} µs ahead", lock.last_fence() - lock.now_us());
}

#[test]
fn an_adoption_passes_a_block_whose_holder_has_told_nothing() {
    let mut lock = model_lock();
    lock.command(&["SET", "leasehold:fence", "5"]);
    lock.block = 9_000;
    let entered = lock.wait(&token(1, 1), EXCLUSIVE);
    assert_eq!(entered.block, 1_024);
    let adopted = lock.convert(&token(1, 1), &token(2, 1), EXCLUSIVE);
    assert!(adopted.value > entered.value + 1_023);
    let moved = lock.convert(&token(2, 1), &token(2, 2), EXCLUSIVE);
    assert_eq!(moved.value, adopted.value + 1, "a client knows which fences of its own block it used");
}

#[test]
fn a_token_of_another_client_that_only_waits_keeps_its_place() {
    let mut lock = model_lock();
    [token(1, 1), token(2, 1), token(3, 1)].iter().for_each(|token| drop(lock.wait(token, EXCLUSIVE)));
    assert_eq!(lock.convert_with_tombstone(&token(2, 1), &token(4, 1), EXCLUSIVE, 60_000).unwrap().status, "taken");
    assert_eq!((lock.queue(), lock.tombstones()), (vec![token(2, 1), token(3, 1)], vec![]));
    lock.release(&token(1, 1));
    assert_eq!(lock.holder(), Some(token(2, 1)));
}

#[test]
fn a_client_that_moves_its_own_lease_is_not_told() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.convert(&token(1, 1), &token(1, 2), EXCLUSIVE);
    assert_eq!(lock.messages(), []);
}

#[test]
fn a_lease_is_taken_over_once_and_a_resent_call_finds_it_again() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.convert(&token(1, 1), &token(2, 1), EXCLUSIVE);
    assert_eq!(lock.convert(&token(1, 1), &token(2, 1), EXCLUSIVE).status, "again");
    assert_eq!(lock.convert(&token(1, 1), &token(3, 1), EXCLUSIVE).status, "taken");
    assert_eq!(lock.holder(), Some(token(2, 1)));
}

#[test]
fn an_adopter_that_gave_up_takes_nothing() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.release_with_tombstone(&token(2, 1), 60_000);
    assert_eq!(lock.convert(&token(1, 1), &token(2, 1), EXCLUSIVE).status, "conflict");
    assert_eq!(lock.holder(), Some(token(1, 1)));
}

#[test]
fn a_lease_that_has_ended_is_not_taken_over() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.pass_ms(30_001);
    assert_eq!(lock.convert(&token(1, 1), &token(2, 1), EXCLUSIVE).status, "gone");
    assert_eq!(lock.holder(), None);
}

#[test]
fn a_reader_is_not_taken_over_as_a_writer() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), SHARED);
    for _ in 0..2 {
        assert_eq!(lock.convert(&token(1, 1), &token(2, 1), EXCLUSIVE).status, "conflict");
    }
    assert_eq!(lock.readers(), [token(1, 1)]);
    assert_eq!(lock.convert(&token(1, 1), &token(1, 2), EXCLUSIVE).status, "converted", "its own client upgrades it");
}

#[test]
fn a_readers_time_is_cut_and_that_of_others_is_not() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), SHARED);
    lock.ttl = 1_000;
    let alone = lock.convert(&token(1, 1), &token(1, 2), SHARED);
    assert_eq!((alone.status.as_str(), alone.ms, lock.pttl(0)), ("converted", 1_000, 1_000));
    assert_eq!(lock.readers(), [token(1, 2)]);
    lock.ttl = 30_000;
    lock.wait(&token(2, 1), SHARED);
    lock.ttl = 500;
    lock.convert(&token(1, 2), &token(1, 3), SHARED);
    assert_eq!((lock.readers(), lock.pttl(0)), (vec![token(1, 3), token(2, 1)], 30_000));
    lock.pass_ms(500);
    assert_eq!(lock.renew(&token(1, 3), SHARED, 30_000).status, "taken");
    assert_eq!(lock.renew(&token(2, 1), SHARED, 30_000).status, "renewed");
}
