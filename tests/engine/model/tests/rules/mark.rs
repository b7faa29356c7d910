//! The mark in N says that clients wait. The fast release leaves a marked lock to the slow one.

use crate::common::model::model_lock;
use crate::common::{EXCLUSIVE, SHARED, token};

#[test]
fn while_nobody_waits_n_is_the_holder_and_its_fence() {
    let mut lock = model_lock();
    let fence = lock.wait(&token(1, 1), EXCLUSIVE).value;
    assert_eq!(lock.value(), Some(format!("{} {fence}", token(1, 1))));
    lock.release(&token(1, 1));
    let fence = lock.wait(&token(1, 2), SHARED).value;
    assert_eq!(lock.value(), Some(format!("shared {fence}")));
}

#[test]
fn a_client_that_joins_the_queue_marks_the_holder_and_changes_nothing_else_of_it() {
    for (mode, holder) in [(EXCLUSIVE, token(1, 1)), (SHARED, "shared".to_owned())] {
        let mut lock = model_lock();
        let fence = lock.wait(&token(1, 1), mode).value;
        lock.pass_ms(10_000);
        assert_eq!(lock.wait(&token(2, 1), EXCLUSIVE).status, "waiting");
        assert_eq!((lock.value(), lock.pttl(0)), (Some(format!("{holder}*{fence}")), 20_000), "{mode}");
    }
}

#[test]
fn a_heartbeat_marks_a_holder_that_came_after_the_join() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), EXCLUSIVE);
    let unmarked = format!("{} 7", token(3, 1));
    lock.command(&["SET", "invoice:42", &unmarked, "PX", "30000"]);
    assert_eq!(lock.wait(&token(2, 1), EXCLUSIVE).status, "waiting");
    assert_eq!((lock.value(), lock.pttl(0)), (Some(unmarked.replace(' ', "*")), 30_000));
}

#[test]
fn a_hand_over_keeps_the_mark_until_nobody_waits() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.wait(&token(3, 1), EXCLUSIVE);
    lock.release(&token(1, 1));
    assert_eq!((lock.holder(), lock.is_marked()), (Some(token(2, 1)), true));
    lock.release(&token(2, 1));
    assert_eq!((lock.holder(), lock.is_marked()), (Some(token(3, 1)), false));
}

#[test]
fn readers_that_are_granted_are_marked_only_while_a_writer_waits_behind_them() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), SHARED);
    lock.wait(&token(3, 1), SHARED);
    lock.release(&token(1, 1));
    assert_eq!((lock.readers().len(), lock.is_marked()), (2, false));
    lock.wait(&token(4, 1), EXCLUSIVE);
    lock.wait(&token(5, 1), SHARED);
    lock.release(&token(2, 1));
    lock.release(&token(3, 1));
    assert_eq!((lock.holder(), lock.is_marked()), (Some(token(4, 1)), true));
}

#[test]
fn a_converted_lease_is_marked_while_others_wait() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.convert(&token(1, 1), &token(1, 2), SHARED);
    assert!(lock.is_marked());
    lock.convert(&token(1, 2), &token(1, 3), EXCLUSIVE);
    assert_eq!((lock.holder(), lock.is_marked()), (Some(token(1, 3)), true));
    lock.release(&token(2, 1));
    lock.convert(&token(1, 3), &token(1, 4), SHARED);
    assert!(!lock.is_marked());
}

#[test]
fn a_try_marks_nobody() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.try_acquire(&token(2, 1), EXCLUSIVE);
    lock.fleet = "mixed";
    lock.wait(&token(3, 1), EXCLUSIVE);
    assert!(!lock.is_marked());
}

#[test]
fn a_tombstone_is_no_waiter_and_marks_nobody() {
    let mut lock = model_lock();
    lock.release_with_tombstone(&token(9, 1), 60_000);
    lock.wait(&token(1, 1), EXCLUSIVE);
    assert!(!lock.is_marked());
}

#[test]
fn a_marked_holder_is_still_the_holder() {
    for mode in [EXCLUSIVE, SHARED] {
        let mut lock = model_lock();
        lock.wait(&token(1, 1), mode);
        lock.wait(&token(2, 1), EXCLUSIVE);
        assert!(lock.is_marked());
        assert_eq!(lock.wait(&token(1, 1), mode).status, "again");
        assert_eq!(lock.renew(&token(1, 1), mode, 60_000).status, "renewed");
        let other = lock.renew(&token(3, 1), mode, 60_000);
        assert_eq!((other.status.as_str(), other.foreign), ("taken", 0));
        assert_eq!(lock.try_acquire(&token(3, 1), EXCLUSIVE).foreign, 0);
        assert_eq!(lock.release(&token(1, 1)).status, "released");
        assert_eq!(lock.holder(), Some(token(2, 1)));
    }
}

#[test]
fn a_value_of_another_library_is_never_rewritten() {
    let looks_like_ours = format!("{} x", token(7, 1));
    let without_fence = token(7, 1);
    for value in ["somebody", "abc 123", "abc*123", "shared", " 5", "", &looks_like_ours, &without_fence] {
        let mut lock = model_lock();
        lock.command(&["SET", "invoice:42", value, "PX", "5000"]);
        for _ in 0..2 {
            assert_eq!(lock.wait(&token(1, 1), EXCLUSIVE).status, "waiting", "{value}");
        }
        assert_eq!((lock.value().as_deref(), lock.pttl(0)), (Some(value), 5_000));
        assert_eq!(lock.release(&token(1, 1)).status, "left");
        assert_eq!(lock.value().as_deref(), Some(value));
    }
}

#[test]
fn a_value_that_only_looks_like_a_token_is_another_librarys() {
    let ours = format!("{} 5", token(7, 1));
    let (upper, long) = (ours.replace("-4000-", "-400G-"), ours.replace("-4000-", "-40000-"));
    for value in ["a-b-c-d-e:1 5", &upper, &long, &ours.replace(':', ":x")] {
        let mut lock = model_lock();
        lock.command(&["SET", "invoice:42", value, "PX", "5000"]);
        let answers = [
            lock.try_acquire(&token(1, 1), EXCLUSIVE),
            lock.wait(&token(1, 1), EXCLUSIVE),
            lock.wait(&token(2, 1), SHARED),
        ];
        assert_eq!(answers.map(|answer| (answer.foreign, answer.ms)), [(1, 5_000); 3], "{value}");
        assert_eq!((lock.value().as_deref(), lock.messages()), (Some(value), vec![]), "{value}");
    }
}

#[test]
fn a_client_waits_behind_a_waiter_of_another_kind_when_the_last_reader_has_just_ended() {
    let mut lock = model_lock();
    lock.ttl = 30;
    lock.wait(&token(1, 1), SHARED);
    assert_eq!(lock.wait(&token(2, 1), "1/2").status, "waiting");
    lock.command(&["SET", "invoice:42", "shared 5", "KEEPTTL"]);
    lock.pass_ms(30);
    assert_eq!(lock.wait(&token(3, 1), EXCLUSIVE).status, "waiting");
}
