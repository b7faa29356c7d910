use crate::common::model::model_lock;
use crate::common::{EXCLUSIVE, SHARED, token};

const FENCE: usize = 1;

#[test]
fn each_grant_draws_a_greater_fence_even_in_one_microsecond() {
    let mut lock = model_lock();
    let mut last = 0;
    for counter in 1..100 {
        let fence = lock.wait(&token(1, counter), EXCLUSIVE).value;
        assert!(fence > last);
        last = fence;
        lock.release(&token(1, counter));
    }
}

#[test]
fn the_next_fence_is_greater_than_every_one_of_a_block() {
    let mut lock = model_lock();
    lock.block = 33;
    let first = lock.wait(&token(1, 1), EXCLUSIVE);
    assert_eq!((first.value, first.block), (1_700_000_000_000_000, 33));
    let again = lock.refill(&token(1, 1), EXCLUSIVE);
    assert_eq!(again.value, first.value + 33);
}

#[test]
fn blocks_are_cut_so_that_fences_never_run_ahead_of_the_clock_by_more_than_a_millisecond() {
    let mut lock = model_lock();
    lock.block = 1_000;
    let blocks: Vec<i64> = (0..4)
        .map(|_| {
            let answer = lock.wait(&token(1, 1), EXCLUSIVE);
            assert!(answer.value <= answer.us + 1_024 + 3);
            answer.block
        })
        .collect();
    assert_eq!(blocks, [1_000, 24, 1, 1]);
}

#[test]
fn fences_rise_after_all_data_is_lost() {
    let mut lock = model_lock();
    lock.block = 1_024;
    let before = lock.wait(&token(1, 1), EXCLUSIVE);
    lock.command(&["FLUSHALL"]);
    lock.pass_ms(2);
    assert!(lock.wait(&token(2, 1), EXCLUSIVE).value > before.value + before.block - 1);
}

#[test]
fn fences_rise_though_the_servers_clock_steps_back() {
    let mut lock = model_lock();
    let before = lock.wait(&token(1, 1), EXCLUSIVE).value;
    lock.release(&token(1, 1));
    lock.host.now_us -= 60_000_000;
    assert_eq!(lock.wait(&token(2, 1), EXCLUSIVE).value, before + 1);
}

#[test]
fn a_writers_fence_is_greater_than_those_of_all_readers_before_it() {
    let mut lock = model_lock();
    lock.block = 33;
    let readers = [1, 2].map(|client| lock.wait(&token(client, 1), SHARED));
    lock.wait(&token(3, 1), EXCLUSIVE);
    lock.release(&token(1, 1));
    lock.release(&token(2, 1));
    let writer = lock.wait(&token(3, 1), EXCLUSIVE);
    assert_eq!(writer.status, "again");
    assert!(readers.iter().all(|reader| writer.value > reader.value + reader.block - 1));
}

#[test]
fn readers_granted_together_have_blocks_of_their_own() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.block = 33;
    lock.wait(&token(2, 1), SHARED);
    lock.wait(&token(3, 1), SHARED);
    lock.messages();
    lock.pass_ms(1);
    lock.release(&token(1, 1));
    let us = lock.host.now_us;
    let fences: Vec<String> = lock
        .messages()
        .iter()
        .map(|(_, grant)| grant.split(' ').skip(3).take(2).collect::<Vec<_>>().join("+"))
        .collect();
    assert_eq!(fences, [format!("{us}+33"), format!("{}+33", us + 33)]);
}

#[test]
fn a_fence_is_remembered_for_its_retention_at_least_ten_ttls_and_never_shorter_than_before() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    assert_eq!(lock.pttl(FENCE), 3_600_000);
    lock.retention = 60_000;
    lock.pass_ms(1_000);
    lock.wait(&token(1, 1), EXCLUSIVE);
    assert_eq!(lock.pttl(FENCE), 3_599_000);

    let mut lock = model_lock();
    lock.retention = 60_000;
    lock.wait(&token(1, 1), EXCLUSIVE);
    assert_eq!(lock.pttl(FENCE), 300_000);
    lock.ttl = 40_000;
    lock.wait(&token(2, 1), SHARED);
    lock.release(&token(1, 1));
    assert_eq!(lock.pttl(FENCE), 400_000, "a grant counts the waiter's ttl, not its claim window");
}

#[test]
fn an_invalid_stored_fence_prevents_every_grant_and_changes_nothing() {
    for absurd in ["9007199254740992", "9223372036854775807", "1e300", "inf", "nan", "abc", ""] {
        let mut lock = model_lock();
        lock.command(&["SET", "leasehold:{invoice:42}:fence", absurd, "PX", "60000"]);
        for (mode, how) in [(EXCLUSIVE, "try"), (SHARED, "try"), (EXCLUSIVE, "wait")] {
            let error = lock.acquire(&token(1, 1), mode, how).unwrap_err();
            assert!(error.starts_with("BADFENCE leasehold:{invoice:42}:fence"), "{absurd} {mode} {how}: {error}");
        }
        assert_eq!(lock.host.server.keys(lock.host.now_us).len(), 1, "{absurd}");

        let mut lock = model_lock();
        lock.wait(&token(1, 1), EXCLUSIVE);
        lock.wait(&token(2, 1), EXCLUSIVE);
        lock.command(&["SET", "leasehold:{invoice:42}:fence", absurd, "PX", "60000"]);
        let before = lock.state();
        for error in [
            lock.acquire(&token(1, 1), EXCLUSIVE, "refill").unwrap_err(),
            lock.convert_and_bury(&token(1, 1), &token(1, 2), SHARED, 0).unwrap_err(),
            lock.release_and_bury(&token(1, 1), 0).unwrap_err(),
        ] {
            assert!(error.starts_with("BADFENCE"), "{absurd}: {error}");
        }
        assert_eq!(format!("{:?}", lock.state()), format!("{before:?}"), "{absurd}");
    }
}

#[test]
fn fences_rise_from_the_greatest_that_there_is_room_for_and_from_one_that_is_no_whole_number() {
    for (stored, next) in [("9007199254740990", 9_007_199_254_740_991), ("2000000000000000.5", 2_000_000_000_000_001)] {
        for mode in [EXCLUSIVE, SHARED] {
            let mut lock = model_lock();
            lock.block = 33;
            lock.command(&["SET", "leasehold:{invoice:42}:fence", stored, "PX", "60000"]);
            let entered = lock.wait(&token(1, 1), mode);
            assert_eq!((entered.value, entered.block), (next, 1), "{mode}");
            assert_eq!(lock.last_fence(), next, "{mode}");
        }
    }
}

#[test]
fn no_absurd_ttl_is_written_on() {
    const ABSURD: &str = "9223370336854775807";
    for mode in [EXCLUSIVE, SHARED] {
        let mut lock = model_lock();
        lock.command(&["SET", "leasehold:{invoice:42}:fence", "5", "PX", ABSURD]);
        assert_eq!(lock.wait(&token(1, 1), mode).status, "entered", "{mode}");
        assert_eq!(lock.pttl(FENCE), 30 * 24 * 3_600_000, "{mode}");

        // The server answers a longer lease than the client accepts. The client's limit is 25 hours.
        let beyond = 25 * 3_600_000 + 1;
        let other = if mode == EXCLUSIVE { SHARED } else { EXCLUSIVE };
        lock.command(&["PEXPIRE", "invoice:42", ABSURD]);
        let converted = lock.convert_and_bury(&token(1, 1), &token(1, 2), other, 0).unwrap();
        assert_eq!((converted.status.as_str(), converted.ms), ("converted", beyond), "{mode}");
        assert_eq!(lock.pttl(0), beyond, "{mode}");
    }
    let mut lock = model_lock();
    lock.wait(&token(1, 1), SHARED);
    lock.command(&["PEXPIRE", "invoice:42", ABSURD]);
    assert_eq!(lock.wait(&token(2, 1), SHARED).ms, 30_000);
}
