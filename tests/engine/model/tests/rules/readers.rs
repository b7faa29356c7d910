use crate::common::model::model_lock;
use crate::common::{EXCLUSIVE, SHARED, token};

const READERS: usize = 4;

#[test]
fn readers_share_and_a_writer_waits_for_the_last_of_them() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), SHARED);
    lock.wait(&token(2, 1), SHARED);
    assert_eq!(lock.wait(&token(3, 1), EXCLUSIVE).status, "waiting");
    lock.release(&token(1, 1));
    assert_eq!(lock.holder().as_deref(), Some("shared"));
    lock.release(&token(2, 1));
    assert_eq!(lock.holder(), Some(token(3, 1)));
}

#[test]
fn a_reader_does_not_overtake_a_writer_that_waits() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), SHARED);
    lock.wait(&token(2, 1), EXCLUSIVE);
    assert_eq!(lock.wait(&token(3, 1), SHARED).value, 2);
    assert_eq!(lock.try_acquire(&token(4, 1), SHARED).status, "busy");
}

#[test]
fn n_lives_as_long_as_the_longest_reader() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), SHARED);
    lock.ttl = 1_000;
    assert_eq!(lock.wait(&token(2, 1), SHARED).ms, 1_000);
    assert_eq!((lock.pttl(0), lock.pttl(READERS)), (30_000, 30_000), "a shorter reader lowers nothing");
    lock.ttl = 50_000;
    lock.wait(&token(3, 1), SHARED);
    assert_eq!((lock.pttl(0), lock.pttl(READERS)), (50_000, 50_000));
}

#[test]
fn removing_a_reader_lowers_n_to_the_end_of_the_last_that_is_left() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), SHARED);
    lock.ttl = 10_000;
    lock.wait(&token(2, 1), SHARED);
    lock.pass_ms(1_000);
    assert_eq!(lock.release(&token(1, 1)).status, "released");
    assert_eq!(lock.pttl(0), 9_000);
    lock.release(&token(2, 1));
    assert_eq!((lock.holder(), lock.readers()), (None, vec![]));
}

#[test]
fn a_dead_reader_is_dropped_at_its_own_expiry_though_others_keep_n() {
    let mut lock = model_lock();
    lock.ttl = 1_000;
    lock.wait(&token(1, 1), SHARED);
    lock.ttl = 30_000;
    lock.wait(&token(2, 1), SHARED);
    lock.pass_ms(1_000);
    assert_eq!(lock.release(&token(1, 1)).status, "taken", "its lease was over");
    assert_eq!(lock.readers(), [token(2, 1)]);
}

#[test]
fn a_lock_whose_last_reader_is_over_is_free_though_n_is_still_there() {
    let mut lock = model_lock();
    lock.ttl = 1_000;
    lock.wait(&token(1, 1), SHARED);
    lock.command(&["PEXPIRE", "invoice:42", "60000"]);
    lock.pass_ms(1_000);
    assert_eq!(lock.try_acquire(&token(2, 1), EXCLUSIVE).status, "entered");
}

#[test]
fn readers_of_an_earlier_lease_count_for_nothing_and_are_deleted_by_the_next_reader() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), SHARED);
    lock.command(&["SET", "invoice:42", &format!("{} 5", token(2, 1)), "PX", "30000"]);
    assert_eq!(lock.try_acquire(&token(9, 1), SHARED).status, "busy");
    assert_eq!(lock.refill(&token(1, 1), SHARED).status, "taken");
    assert_eq!(lock.convert(&token(1, 1), &token(1, 2), EXCLUSIVE).status, "taken");
    assert_eq!(lock.release(&token(1, 1)).status, "taken");
    assert_eq!((lock.holder(), lock.readers()), (Some(token(2, 1)), vec![token(1, 1)]));
    lock.release(&token(2, 1));
    lock.wait(&token(3, 1), SHARED);
    assert_eq!(lock.readers(), [token(3, 1)]);
    assert_eq!(lock.renew(&token(1, 1), SHARED, 30_000).status, "taken");
}

#[test]
fn readers_of_an_earlier_lease_are_deleted_by_a_downgrade_a_grant_and_a_renewal_of_theirs() {
    let enters: [fn(&mut crate::common::Lock<crate::common::model::Model>); 3] = [
        |lock| drop(lock.convert(&token(2, 1), &token(2, 2), SHARED)),
        |lock| {
            lock.wait(&token(3, 1), SHARED);
            lock.release(&token(2, 1));
        },
        |lock| drop(lock.renew(&token(1, 1), SHARED, 30_000)),
    ];
    for (index, enter) in enters.into_iter().enumerate() {
        let mut lock = model_lock();
        lock.wait(&token(1, 1), SHARED);
        lock.command(&["SET", "invoice:42", &format!("{} 5", token(2, 1)), "PX", "30000"]);
        enter(&mut lock);
        assert!(!lock.readers().contains(&token(1, 1)), "{index}");
        assert_eq!(lock.wait(&token(1, 1), EXCLUSIVE).status, "waiting", "{index}");
    }
}

#[test]
fn a_lost_n_frees_the_lock_and_its_readers_do_not_come_back() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), SHARED);
    lock.command(&["DEL", "invoice:42"]);
    lock.wait(&token(2, 1), SHARED);
    assert_eq!(lock.readers(), [token(2, 1)]);
}

#[test]
fn a_reader_whose_record_was_evicted_keeps_others_out_until_its_lease_is_over() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), SHARED);
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.command(&["DEL", "leasehold:{invoice:42}:readers"]);
    assert_eq!(lock.wait(&token(2, 1), EXCLUSIVE).status, "waiting");
    assert_eq!(lock.try_acquire(&token(3, 1), EXCLUSIVE).status, "busy");
    assert_eq!(lock.release(&token(4, 1)).status, "taken");
    // Otherwise, a new reader would be the last known one, and its release would delete N.
    assert_eq!(lock.try_acquire(&token(3, 1), SHARED).status, "busy");
    assert_eq!(lock.refill(&token(1, 1), SHARED).status, "taken");
    assert_eq!(lock.convert(&token(1, 1), &token(1, 2), EXCLUSIVE).status, "taken");
    assert_eq!(lock.renew(&token(1, 1), SHARED, 30_000).status, "gone", "it is told, and others wait all the same");
    assert_eq!((lock.holder().as_deref(), lock.pttl(0)), (Some("shared"), 30_000));
    lock.claim = 40_000;
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.pass_ms(30_001);
    assert_eq!(lock.wait(&token(2, 1), EXCLUSIVE).status, "entered");
}

#[test]
fn an_operator_frees_a_lock_whose_readers_were_evicted() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), SHARED);
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.command(&["DEL", "leasehold:{invoice:42}:readers"]);
    assert_eq!(lock.force().status, "released");
    assert_eq!(lock.holder(), Some(token(2, 1)));
}
