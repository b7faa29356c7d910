use crate::common::model::model_lock;
use crate::common::{EXCLUSIVE, SHARED, token};

#[test]
fn a_downgrade_lets_the_readers_at_the_head_in() {
    let mut lock = model_lock();
    let entered = lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), SHARED);
    lock.wait(&token(3, 1), EXCLUSIVE);
    lock.pass_ms(1_000);
    let reader = lock.convert(&token(1, 1), &token(1, 2), SHARED);
    assert_eq!((reader.status.as_str(), reader.ms, reader.waiting), ("converted", 30_000, 1));
    assert!(reader.value > entered.value);
    assert_eq!(lock.readers(), [token(2, 1), token(1, 2)]);
}

#[test]
fn the_only_reader_becomes_the_writer() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), SHARED);
    lock.wait(&token(2, 1), EXCLUSIVE);
    let writer = lock.convert(&token(1, 1), &token(1, 2), EXCLUSIVE);
    assert_eq!((writer.status.as_str(), writer.ms, writer.waiting), ("converted", 30_000, 1));
    assert_eq!((lock.holder(), lock.readers()), (Some(token(1, 2)), vec![]));
}

#[test]
fn a_reader_beside_others_conflicts_and_keeps_reading() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), SHARED);
    lock.wait(&token(2, 1), SHARED);
    assert_eq!(lock.convert_with_tombstone(&token(1, 1), &token(1, 2), EXCLUSIVE, 60_000).unwrap().status, "conflict");
    assert_eq!(lock.renew(&token(1, 1), SHARED, 30_000).status, "renewed");
    assert_eq!(lock.wait(&token(1, 1), SHARED).status, "again", "a lease that goes on has no tombstone");
}

#[test]
fn a_copy_of_a_convert_that_conflicted_does_not_convert_later() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), SHARED);
    lock.wait(&token(2, 1), SHARED);
    assert_eq!(lock.convert(&token(1, 1), &token(1, 2), EXCLUSIVE).status, "conflict");
    lock.release(&token(2, 1));
    assert_eq!(lock.convert(&token(1, 1), &token(1, 2), EXCLUSIVE).status, "conflict", "the copy");
    assert_eq!(lock.renew(&token(1, 1), SHARED, 30_000).status, "renewed");
    assert_eq!(lock.convert(&token(1, 1), &token(1, 3), EXCLUSIVE).status, "converted", "a new call");
}

#[test]
fn a_reader_beside_one_whose_lease_is_over_is_the_only_one() {
    let mut lock = model_lock();
    lock.ttl = 1_000;
    lock.wait(&token(1, 1), SHARED);
    lock.ttl = 30_000;
    lock.wait(&token(2, 1), SHARED);
    lock.pass_ms(1_000);
    assert_eq!(lock.convert(&token(2, 1), &token(2, 2), EXCLUSIVE).status, "converted");
}

#[test]
fn a_convert_never_lowers_a_ttl() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.ttl = 1_000;
    assert_eq!(lock.convert(&token(1, 1), &token(1, 2), SHARED).ms, 30_000);
    assert_eq!(lock.convert(&token(1, 2), &token(1, 3), EXCLUSIVE).ms, 30_000);
    assert_eq!(lock.pttl(0), 30_000);
}

#[test]
fn a_resent_convert_is_granted_again() {
    for (from, to) in [(EXCLUSIVE, SHARED), (SHARED, EXCLUSIVE)] {
        let mut lock = model_lock();
        lock.wait(&token(1, 1), from);
        let first = lock.convert(&token(1, 1), &token(1, 2), to);
        let resent = lock.convert_with_tombstone(&token(1, 1), &token(1, 2), to, 60_000).unwrap();
        assert_eq!((resent.status.as_str(), resent.ms), ("again", 30_000), "to {to}");
        assert!(resent.value > first.value);
        assert_eq!(lock.wait(&token(1, 1), from).status, "gone", "the resend left a tombstone");
    }
}

#[test]
fn a_delayed_copy_of_a_convert_does_not_undo_a_later_one() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.convert(&token(1, 1), &token(1, 2), SHARED);
    lock.convert(&token(1, 2), &token(1, 3), EXCLUSIVE);
    assert_eq!(lock.convert(&token(1, 1), &token(1, 2), SHARED).status, "taken");
    assert_eq!(lock.holder(), Some(token(1, 3)));
}

#[test]
fn the_old_token_never_comes_back_by_a_straggler() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.convert_with_tombstone(&token(1, 1), &token(1, 2), SHARED, 60_000).unwrap();
    lock.release(&token(1, 2));
    for how in ["try", "wait", "refill"] {
        assert_eq!(lock.acquire(&token(1, 1), EXCLUSIVE, how).unwrap().status, "gone");
    }
    assert_eq!(lock.holder(), None);
}

#[test]
fn a_convert_that_lost_its_lease_takes_the_old_token_out_of_the_queue_by_a_tombstone() {
    let mut lock = model_lock();
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.wait(&token(1, 1), EXCLUSIVE); // a late heartbeat of a lease that is gone
    assert_eq!(lock.convert_with_tombstone(&token(1, 1), &token(1, 2), SHARED, 60_000).unwrap().status, "taken");
    assert_eq!(lock.queue(), Vec::<String>::new());
    assert_eq!(lock.wait(&token(1, 1), EXCLUSIVE).status, "gone");
}

#[test]
fn a_convert_that_was_given_up_before_it_arrived_changes_nothing() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.release_with_tombstone(&token(1, 2), 60_000);
    assert_eq!(lock.convert(&token(1, 1), &token(1, 2), SHARED).status, "conflict");
    assert_eq!(lock.holder(), Some(token(1, 1)));
}

#[test]
fn a_convert_without_a_lease_says_whether_another_client_holds_the_lock() {
    let mut lock = model_lock();
    assert_eq!(lock.convert(&token(1, 1), &token(1, 2), SHARED).status, "gone");
    lock.wait(&token(2, 1), EXCLUSIVE);
    assert_eq!(lock.convert(&token(1, 1), &token(1, 2), SHARED).status, "taken");
}
