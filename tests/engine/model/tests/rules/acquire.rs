use crate::common::model::model_lock;
use crate::common::{EXCLUSIVE, SHARED, token};

#[test]
fn a_free_lock_is_entered_with_the_whole_ttl() {
    let mut lock = model_lock();
    let answer = lock.wait(&token(1, 1), EXCLUSIVE);
    assert_eq!((answer.status.as_str(), answer.ms, answer.waiting, answer.foreign), ("entered", 30_000, 0, 0));
    assert_eq!(answer.us, 1_700_000_000_000_000);
    assert_eq!((lock.holder(), lock.pttl(0)), (Some(token(1, 1)), 30_000));
}

#[test]
fn a_held_lock_is_busy_for_a_try_and_tells_what_the_holder_has_left() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.pass_ms(1_000);
    let answer = lock.try_acquire(&token(2, 1), EXCLUSIVE);
    assert_eq!((answer.status.as_str(), answer.value, answer.ms), ("busy", 0, 29_000));
    assert_eq!(lock.queue(), Vec::<String>::new());
}

#[test]
fn a_busy_lock_tells_who_holds_it_alone_and_since_when() {
    let mut lock = model_lock();
    let granted = lock.wait(&token(1, 1), EXCLUSIVE);
    lock.pass_ms(1_000);
    let holder = Some((token(1, 1), granted.value + granted.block - 1));
    assert_eq!(lock.try_acquire(&token(2, 1), EXCLUSIVE).holder, holder);
    assert_eq!(lock.wait(&token(2, 2), SHARED).holder, holder);
    assert_eq!(lock.wait(&token(3, 1), SHARED).holder, holder, "a waiter changes nothing");
    lock.release(&token(1, 1));
    // Two readers were granted. None of them holds it alone.
    assert_eq!(lock.wait(&token(4, 1), EXCLUSIVE).holder, Some((String::new(), 0)));
    lock.release(&token(2, 2));
    assert_eq!(lock.wait(&token(4, 1), EXCLUSIVE).holder, Some((token(3, 1), 0)), "the last fence may be another's");
}

#[test]
fn a_resend_by_the_holder_is_granted_again_with_a_raised_ttl_and_a_fresh_fence() {
    let mut lock = model_lock();
    let first = lock.wait(&token(1, 1), EXCLUSIVE);
    lock.pass_ms(10_000);
    let again = lock.wait(&token(1, 1), EXCLUSIVE);
    assert_eq!((again.status.as_str(), again.ms), ("again", 30_000));
    assert!(again.value > first.value);
    assert_eq!(lock.pttl(0), 30_000);
}

#[test]
fn a_resend_with_a_shorter_ttl_never_lowers_what_is_held() {
    for mode in [EXCLUSIVE, SHARED] {
        let mut lock = model_lock();
        lock.wait(&token(1, 1), mode);
        lock.ttl = 5_000;
        lock.pass_ms(1_000);
        assert_eq!(lock.wait(&token(1, 1), mode).ms, 29_000, "{mode}");
        assert_eq!(lock.pttl(0), 29_000, "{mode}");
        assert_eq!(lock.refill(&token(1, 1), mode).ms, 29_000, "{mode}");
    }
}

#[test]
fn a_token_held_in_one_mode_conflicts_with_the_other() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    assert_eq!(lock.wait(&token(1, 1), SHARED).status, "conflict");
    assert_eq!(lock.holder(), Some(token(1, 1)));
    lock.release(&token(1, 1));
    lock.wait(&token(1, 2), SHARED);
    assert_eq!(lock.wait(&token(1, 2), EXCLUSIVE).status, "conflict");
    assert_eq!(lock.holder().as_deref(), Some("shared"));
}

#[test]
fn a_refill_raises_what_is_held() {
    for mode in [EXCLUSIVE, SHARED] {
        let mut lock = model_lock();
        let entered = lock.wait(&token(1, 1), mode);
        lock.pass_ms(20_000);
        lock.block = 33;
        let refilled = lock.refill(&token(1, 1), mode);
        assert_eq!((refilled.status.as_str(), refilled.block, refilled.ms), ("again", 33, 30_000), "{mode}");
        assert!(refilled.value > entered.value);
    }
}

#[test]
fn a_refill_neither_enters_nor_joins() {
    let mut lock = model_lock();
    assert_eq!(lock.refill(&token(1, 1), EXCLUSIVE).status, "gone");
    assert_eq!(lock.holder(), None);

    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.wait(&token(3, 1), EXCLUSIVE);
    assert_eq!(lock.refill(&token(1, 1), EXCLUSIVE).status, "taken");
    assert_eq!(lock.queue(), [token(3, 1)]);
}

#[test]
fn a_refill_that_finds_its_lease_gone_grants_the_next_in_line() {
    for (mode, next) in [(EXCLUSIVE, EXCLUSIVE), (EXCLUSIVE, SHARED), (SHARED, EXCLUSIVE)] {
        let mut lock = model_lock();
        lock.wait(&token(2, 1), mode);
        lock.wait(&token(3, 1), next);
        lock.command(&["DEL", "invoice:42"]);
        lock.messages();
        assert_eq!(lock.refill(&token(2, 1), mode).status, "taken", "the next has it");
        let holder = if next == EXCLUSIVE { token(3, 1) } else { "shared".to_owned() };
        assert_eq!((lock.holder(), lock.messages().len()), (Some(holder), 1), "{mode} {next}");
    }
}

#[test]
fn a_crashed_holder_frees_the_lock_after_its_ttl() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.pass_ms(30_000);
    assert_eq!(lock.try_acquire(&token(2, 1), EXCLUSIVE).status, "busy");
    lock.pass_ms(1);
    assert_eq!(lock.try_acquire(&token(2, 1), EXCLUSIVE).status, "entered");
}

#[test]
fn an_acquire_with_a_lost_counter_enters_and_begins_a_new_one() {
    let mut lock = model_lock();
    let entered = lock.try_acquire(&token(1, 1), EXCLUSIVE);
    assert_eq!((entered.value, entered.block), (1_700_000_000_003_073, 1));
    assert_eq!(lock.last_fence(), entered.value);
}

#[test]
fn inspect_tells_holder_readers_and_the_queue_in_order() {
    let mut lock = model_lock();
    assert_eq!(lock.inspect().unwrap(), ["1700000000000000", "", "-2", "0", "0", "0", "0", "0", "nil", "nil"]);
    let entered = lock.wait(&token(1, 1), SHARED);
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.wait(&token(3, 1), SHARED);
    let record = |mode| format!("{mode} 30000 3000 1 1 1700000003000");
    let last = entered.value.to_string();
    let expected = [
        "1700000000000000",
        "shared",
        "30000",
        &last,
        "1",
        &token(1, 1),
        "1700000030000",
        "2",
        &token(2, 1),
        &record(EXCLUSIVE),
        "1700000000000000",
        &token(3, 1),
        &record(SHARED),
        "1700000000000001",
        "0",
        "2",
        "nil",
        "nil",
    ];
    assert_eq!(lock.inspect().unwrap(), expected);
}

#[test]
fn inspect_tells_since_when_one_client_holds_the_lock_alone() {
    let mut lock = model_lock();
    let granted = lock.wait(&token(1, 1), EXCLUSIVE);
    lock.pass_ms(5_000);
    assert_eq!(lock.inspect().unwrap()[6], (granted.value + granted.block - 1).to_string());
    lock.release(&token(1, 1));
    assert_eq!(lock.inspect().unwrap()[6], "0");
}

#[test]
fn inspect_shows_no_reader_whose_lease_is_over_or_that_was_left_behind() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), SHARED);
    lock.ttl = 50_000;
    lock.wait(&token(2, 1), SHARED);
    lock.pass_ms(30_000);
    assert_eq!(lock.inspect().unwrap()[4..6], ["1".to_owned(), token(2, 1)]);
    lock.command(&["SET", "invoice:42", &format!("{} 5", token(3, 1)), "PX", "30000"]);
    assert_eq!(lock.inspect().unwrap()[4], "0");
    assert_eq!(lock.readers().len(), 2, "it only reads");
}
