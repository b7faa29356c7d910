use crate::common::model::model_lock;
use crate::common::{EXCLUSIVE, SHARED, token};

#[test]
fn a_foreign_holder_excludes_and_is_told_with_what_its_key_has_left() {
    let mut lock = model_lock();
    lock.command(&["SET", "invoice:42", "somebody", "NX", "PX", "5000"]);
    for mode in [EXCLUSIVE, SHARED] {
        let answer = lock.try_acquire(&token(1, 1), mode);
        assert_eq!((answer.status.as_str(), answer.ms, answer.foreign), ("busy", 5_000, 1), "{mode}");
    }
    let head = lock.wait(&token(1, 1), EXCLUSIVE);
    assert_eq!((head.status.as_str(), head.value, head.ms, head.foreign), ("waiting", 1, 5_000, 1));
    assert_eq!(lock.messages(), [], "a foreign client has no channel");
    assert_eq!(lock.release(&token(2, 1)).status, "taken");
    assert_eq!(lock.holder().as_deref(), Some("somebody"));
}

#[test]
fn a_key_without_ttl_is_foreign_and_never_ends() {
    for value in ["somebody", &token(7, 1), &format!("{} 5", token(7, 1))] {
        let mut lock = model_lock();
        lock.command(&["SET", "invoice:42", value]);
        let answer = lock.wait(&token(1, 1), EXCLUSIVE);
        assert_eq!((answer.status.as_str(), answer.ms, answer.foreign), ("waiting", -1, 1), "{value}");
        assert_eq!(lock.renew(&token(1, 1), EXCLUSIVE, 1_000).foreign, 1, "{value}");
    }
}

#[test]
fn force_leaves_a_key_without_ttl_alone_unless_any_is_asked_for() {
    for value in ["somebody", &token(7, 1), &format!("{} 5", token(7, 1)), "shared 5"] {
        let mut lock = model_lock();
        lock.command(&["SET", "invoice:42", value]);
        let answer = lock.force();
        assert_eq!((answer.status.as_str(), answer.value), ("taken", 0), "{value}");
        assert_eq!(lock.pttl(0), -1, "{value}");
        let answer = lock.force_which("any");
        assert_eq!((answer.status.as_str(), answer.value), ("released", 1), "{value}");
        assert_eq!(lock.holder(), None);
    }
}

#[test]
fn force_takes_the_lock_of_another_library_that_has_a_ttl() {
    let mut lock = model_lock();
    lock.command(&["SET", "invoice:42", "somebody", "PX", "5000"]);
    assert_eq!(lock.force().status, "released");
    assert_eq!(lock.holder(), None);
}

#[test]
fn a_foreign_client_that_lets_go_frees_the_lock_for_the_head() {
    let mut lock = model_lock();
    lock.command(&["SET", "invoice:42", "somebody", "PX", "5000"]);
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.command(&["DEL", "invoice:42"]);
    assert_eq!(lock.wait(&token(1, 1), EXCLUSIVE).status, "entered");
}

#[test]
fn our_own_holders_are_not_foreign() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    assert_eq!(lock.try_acquire(&token(2, 1), EXCLUSIVE).foreign, 0);
    assert_eq!(lock.renew(&token(2, 1), EXCLUSIVE, 1_000).foreign, 0);
    lock.convert(&token(1, 1), &token(1, 2), SHARED);
    assert_eq!(lock.try_acquire(&token(2, 1), EXCLUSIVE).foreign, 0);
    assert_eq!(lock.renew(&token(2, 1), EXCLUSIVE, 1_000).foreign, 0);
}

#[test]
fn our_holder_excludes_a_foreign_client() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.command(&["SET", "invoice:42", "somebody", "NX", "PX", "5000"]);
    assert_eq!(lock.holder(), Some(token(1, 1)));
    lock.convert(&token(1, 1), &token(1, 2), SHARED);
    lock.command(&["SET", "invoice:42", "somebody", "NX", "PX", "5000"]);
    assert_eq!(lock.holder().as_deref(), Some("shared"));
}

#[test]
fn in_a_mixed_fleet_a_release_grants_no_waiter_and_leaves_the_key_free() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.fleet = "mixed";
    lock.messages();
    assert_eq!(lock.release(&token(1, 1)).status, "released");
    assert_eq!((lock.holder(), lock.messages()), (None, vec![]));
}

#[test]
fn in_a_mixed_fleet_a_caller_never_joins_and_enters_past_waiters() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.fleet = "mixed";
    lock.messages();
    assert_eq!(lock.wait(&token(3, 1), EXCLUSIVE).status, "busy");
    assert_eq!((lock.queue(), lock.messages()), (vec![token(2, 1)], vec![]));
    lock.release(&token(1, 1));
    assert_eq!(lock.wait(&token(3, 1), EXCLUSIVE).status, "entered");
}

#[test]
fn in_a_mixed_fleet_a_waiter_that_enters_leaves_the_queue() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.fleet = "mixed";
    lock.release(&token(1, 1));
    assert_eq!(lock.wait(&token(2, 1), EXCLUSIVE).status, "entered");
    assert_eq!((lock.queue(), lock.waiters()), (vec![], vec![]));
}
