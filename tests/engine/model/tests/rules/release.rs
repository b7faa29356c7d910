use crate::common::model::model_lock;
use crate::common::{EXCLUSIVE, SHARED, token};

const QUEUE: usize = 2;

#[test]
fn only_the_holder_frees_the_lock() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    assert_eq!(lock.release(&token(1, 2)).status, "taken");
    assert_eq!(lock.release(&token(2, 1)).status, "taken");
    assert_eq!(lock.holder(), Some(token(1, 1)));
    assert_eq!(lock.release(&token(1, 1)).status, "released");
    assert_eq!((lock.holder(), lock.release(&token(1, 1)).status.as_str()), (None, "gone"));
}

#[test]
fn a_waiter_that_is_released_leaves_the_queue() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), EXCLUSIVE);
    let left = lock.release(&token(2, 1));
    assert_eq!((left.status.as_str(), left.waiting), ("left", 0));
    assert_eq!((lock.queue(), lock.waiters()), (vec![], vec![]));
}

#[test]
fn a_head_that_leaves_makes_way_for_the_readers_behind_it() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), SHARED);
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.wait(&token(3, 1), SHARED);
    assert_eq!(lock.release(&token(2, 1)).status, "left");
    assert_eq!(lock.readers(), [token(3, 1), token(1, 1)]);
}

#[test]
fn a_token_with_a_tombstone_never_comes_back_by_a_straggler() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    assert_eq!(lock.release_with_tombstone(&token(1, 1), 60_000).status, "released");
    for how in ["try", "wait"] {
        assert_eq!(lock.acquire(&token(1, 1), EXCLUSIVE, how).unwrap().status, "gone");
    }
    assert_eq!(lock.refill(&token(1, 1), EXCLUSIVE).status, "gone");
    assert_eq!((lock.holder(), lock.queue()), (None, vec![]));
    lock.pass_ms(59_999);
    assert_eq!(lock.wait(&token(1, 1), EXCLUSIVE).status, "gone");
}

#[test]
fn a_release_leaves_a_tombstone_whatever_it_found() {
    let mut lock = model_lock();
    assert_eq!(lock.release_with_tombstone(&token(1, 1), 60_000).status, "gone");
    lock.wait(&token(2, 1), EXCLUSIVE);
    assert_eq!(lock.release_with_tombstone(&token(3, 1), 60_000).status, "taken");
    lock.wait(&token(4, 1), SHARED);
    assert_eq!(lock.release_with_tombstone(&token(4, 1), 60_000).status, "left");
    for client in [1, 3, 4] {
        assert_eq!(lock.wait(&token(client, 1), SHARED).status, "gone");
    }
}

#[test]
fn each_tombstone_first_removes_those_that_are_over() {
    let mut lock = model_lock();
    lock.release_with_tombstone(&token(1, 1), 1_000);
    lock.pass_ms(500);
    lock.release_with_tombstone(&token(2, 1), 60_000);
    lock.pass_ms(500);
    lock.release_with_tombstone(&token(3, 1), 1_000);
    assert_eq!(lock.tombstones(), [token(2, 1), token(3, 1)]);
    assert_eq!(lock.pttl(QUEUE), 59_500, "the key outlives its longest record and no more");
}

#[test]
fn a_release_without_a_tombstone_leaves_no_trace_but_the_fence() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), SHARED);
    lock.release(&token(1, 1));
    lock.release(&token(2, 1));
    let keys: Vec<String> = lock.host.server.keys(lock.host.now_us).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["leasehold:fence"]);
}

#[test]
fn tombstones_are_in_the_queue_and_count_for_no_position() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.release_with_tombstone(&token(9, 1), 60_000);
    lock.release_with_tombstone(&token(9, 2), 30_000);
    for (client, position) in [(2, 1), (3, 2)] {
        let waiting = lock.wait(&token(client, 1), EXCLUSIVE);
        assert_eq!((waiting.value, waiting.waiting), (position, position));
    }
    assert_eq!(lock.inspect().unwrap()[5..].len(), 1 + 3 * 2 + 4, "they don't wait");
    let waiting = lock.wait(&token(3, 1), EXCLUSIVE);
    assert_eq!((waiting.value, waiting.waiting), (2, 2));
    lock.release(&token(1, 1));
    assert_eq!((lock.holder(), lock.queue(), lock.tombstones().len()), (Some(token(2, 1)), vec![token(3, 1)], 2));
}

#[test]
fn a_tombstone_is_over_after_its_time_though_it_is_still_in_the_queue() {
    let mut lock = model_lock();
    lock.release_with_tombstone(&token(2, 1), 60_000);
    lock.release_with_tombstone(&token(1, 1), 1_000);
    lock.pass_ms(999);
    assert_eq!(lock.wait(&token(1, 1), EXCLUSIVE).status, "gone");
    lock.pass_ms(1);
    assert_eq!(lock.tombstones(), [token(2, 1), token(1, 1)]);
    assert_eq!(lock.wait(&token(1, 1), EXCLUSIVE).status, "entered");
}

#[test]
fn a_token_joins_again_over_its_own_old_tombstone() {
    let mut lock = model_lock();
    lock.wait(&token(3, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.release_with_tombstone(&token(1, 1), 1_000);
    lock.pass_ms(1_001);
    let joined = lock.wait(&token(1, 1), EXCLUSIVE);
    assert_eq!((joined.status.as_str(), joined.waiting), ("waiting", 2));
    let again = lock.wait(&token(1, 1), EXCLUSIVE);
    assert_eq!((again.status.as_str(), again.value, again.waiting), ("waiting", 2, 2));
    assert_eq!((lock.queue(), lock.tombstones()), (vec![token(2, 1), token(1, 1)], vec![]));
}

#[test]
fn a_resent_release_leaves_the_tombstone() {
    for tombstone in [0, 60_000] {
        let mut lock = model_lock();
        lock.wait(&token(2, 1), EXCLUSIVE);
        lock.wait(&token(1, 1), EXCLUSIVE);
        assert_eq!(lock.release_with_tombstone(&token(1, 1), 60_000).status, "left");
        assert_eq!(lock.release_with_tombstone(&token(1, 1), tombstone).status, "taken");
        assert_eq!((lock.tombstones(), lock.waiters()), (vec![token(1, 1)], vec![]));
        assert_eq!(lock.wait(&token(1, 1), EXCLUSIVE).status, "gone");
    }
}

#[test]
fn a_waiter_with_a_tombstone_waits_no_more() {
    let mut lock = model_lock();
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.wait(&token(1, 1), EXCLUSIVE);
    let left = lock.release_with_tombstone(&token(1, 1), 60_000);
    assert_eq!((left.status.as_str(), left.waiting), ("left", 0));
    assert_eq!((lock.queue(), lock.waiters(), lock.tombstones()), (vec![], vec![], vec![token(1, 1)]));
    lock.release(&token(2, 1));
    assert_eq!(lock.holder(), None, "a tombstone is granted nothing");
}

#[test]
fn a_tombstone_outlives_the_waiters() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.release_with_tombstone(&token(9, 1), 60_000);
    lock.wait(&token(2, 1), EXCLUSIVE);
    assert_eq!(lock.pttl(QUEUE), 60_000);
    lock.release(&token(2, 1));
    assert_eq!((lock.tombstones(), lock.pttl(QUEUE)), (vec![token(9, 1)], 60_000));
    lock.pass_ms(60_001);
    assert_eq!(lock.pttl(QUEUE), -2);
}
