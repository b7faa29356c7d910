//! Several locks at once: all of them or none.

use leasehold_lua::{MULTI, semaphore};

use crate::common::model::{Model, model_lock};
use crate::common::{ALL_KEYS, Host as _, Lock, list, scalar_text, token};

fn semaphore_lock() -> Lock<Model> {
    let mut lock = model_lock();
    lock.keys[4] = lock.keys[4].replace("readers", "permits");
    lock
}

/// Takes one part, which has a fourth key.
fn take(lock: &mut Lock<Model>, ttl: &str, token: &str, mode: &str) -> Vec<String> {
    let reply = lock.call(&MULTI, &[0, 2, 3, 4, 1], &[ttl, token, mode]).unwrap();
    list(reply).iter().map(scalar_text).collect()
}

/// Whether the token has permits.
fn holds(lock: &mut Lock<Model>, token: &str) -> bool {
    let reply = lock.call(&semaphore::RELEASE, &ALL_KEYS, &[token, "0", "0", "native"]).unwrap();
    scalar_text(&list(reply)[0]) == "released"
}

#[test]
fn permits_that_have_ended_make_room_and_a_token_that_comes_again_keeps_its_new_ones() {
    let mut lock = semaphore_lock();
    assert_eq!(take(&mut lock, "30000", &token(1, 1), "1/3")[2], "entered");
    assert_eq!(take(&mut lock, "10", &token(2, 1), "1/3")[2], "entered");
    assert_eq!(take(&mut lock, "10", &token(3, 1), "1/3")[2], "entered");
    let busy = take(&mut lock, "10", &token(4, 1), "1/3");
    assert_eq!([&busy[2], &busy[3]], ["busy", "1"]);
    lock.pass_ms(11);
    assert_eq!(take(&mut lock, "30000", &token(2, 1), "2/3")[2], "entered");
    assert_eq!(take(&mut lock, "30000", &token(4, 1), "1/3")[2], "busy");
    assert!(!holds(&mut lock, &token(3, 1)));
    assert!(holds(&mut lock, &token(2, 1)));
}

#[test]
fn a_reader_counts_after_old_readers_and_beside_others() {
    let mut lock = model_lock();
    assert_eq!(take(&mut lock, "30000", &token(1, 1), "shared")[2], "entered");
    assert_eq!(take(&mut lock, "30000", &token(1, 1), "shared")[2], "again");
    assert_eq!(take(&mut lock, "30000", &token(2, 1), "shared")[2], "entered");
    assert_eq!(lock.wait(&token(3, 1), "exclusive").status, "waiting");
    let busy = take(&mut lock, "30000", &token(4, 1), "shared");
    assert_eq!([&busy[2], &busy[3]], ["busy", "1"], "a writer waits");
}

#[test]
fn nobody_joins_readers_whose_time_is_over_in_this_millisecond() {
    for (ends, answer) in [(0, "busy"), (1, "entered")] {
        let mut lock = model_lock();
        let ends = (lock.now_us() / 1_000 + ends).to_string();
        let [name, readers] = [0, 4].map(|key| lock.keys[key].clone());
        lock.host.run(&["SET", &name, "shared 5", "PX", "1000"]).unwrap();
        lock.host.run(&["ZADD", &readers, &ends, &token(1, 1)]).unwrap();
        assert_eq!(take(&mut lock, "30000", &token(2, 1), "shared")[2], answer);
    }
}
