use leasehold_harness::Rng;

use crate::common::model::{Model, model_lock};
use crate::common::{EXCLUSIVE, Lock, SHARED, token};

const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";

#[test]
fn at_maxmemory_a_new_lock_is_refused_and_nothing_is_written() {
    for mode in [EXCLUSIVE, SHARED] {
        let mut lock = model_lock();
        lock.host.server.set_out_of_memory(true);
        assert_eq!(lock.acquire(&token(1, 1), mode, "wait"), Err(OUT_OF_MEMORY.to_owned()), "{mode}");
        assert_eq!(lock.host.server.keys(lock.host.now_us), [], "{mode}");
    }
}

#[test]
fn at_maxmemory_a_release_passes_and_grants_the_next() {
    for (mode, tombstone) in [(EXCLUSIVE, 0), (EXCLUSIVE, 60_000), (SHARED, 0), (SHARED, 60_000)] {
        let mut lock = model_lock();
        lock.wait(&token(1, 1), mode);
        lock.wait(&token(2, 1), EXCLUSIVE);
        lock.host.server.set_out_of_memory(true);
        assert_eq!(
            lock.try_release_with_tombstone(&token(1, 1), tombstone).map(|answer| answer.status),
            Ok("released".to_owned())
        );
        assert_eq!(lock.holder(), Some(token(2, 1)), "{mode} {tombstone}");
    }
}

#[test]
fn at_maxmemory_a_release_of_nothing_leaves_a_tombstone_and_grants_too() {
    for tombstone in [0, 60_000] {
        let mut lock = model_lock();
        lock.wait(&token(1, 1), EXCLUSIVE);
        lock.wait(&token(2, 1), EXCLUSIVE);
        lock.command(&["DEL", "invoice:42"]);
        lock.host.server.set_out_of_memory(true);
        assert_eq!(
            lock.try_release_with_tombstone(&token(1, 1), tombstone).map(|answer| answer.status),
            Ok("gone".to_owned())
        );
        assert_eq!((lock.holder(), lock.tombstones().len()), (Some(token(2, 1)), usize::from(tombstone > 0)));
    }
}

#[test]
fn at_maxmemory_a_release_of_nothing_remembers_the_used_fence() {
    for tombstone in [0, 60_000] {
        let mut lock = model_lock();
        lock.wait(&token(1, 1), EXCLUSIVE);
        lock.used_fence = lock.host.now_us + 4_000;
        lock.host.server.set_out_of_memory(true);
        assert_eq!(
            lock.try_release_with_tombstone(&token(2, 1), tombstone).map(|answer| answer.status),
            Ok("taken".to_owned())
        );
        assert_eq!(lock.last_fence() as u64, lock.host.now_us + 4_000, "{tombstone}");
    }
}

#[test]
fn at_maxmemory_every_acquire_still_advances_the_queue() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.command(&["DEL", "invoice:42"]);
    lock.host.server.set_out_of_memory(true);
    assert_eq!(lock.try_acquire(&token(3, 1), EXCLUSIVE).status, "busy");
    assert_eq!(lock.holder(), Some(token(2, 1)));
}

#[test]
fn at_maxmemory_a_waiter_leaves() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.host.server.set_out_of_memory(true);
    assert_eq!(lock.release_with_tombstone(&token(2, 1), 60_000).status, "left");
}

#[test]
fn at_maxmemory_leases_are_renewed_and_converted() {
    for (mode, other) in [(EXCLUSIVE, SHARED), (SHARED, EXCLUSIVE)] {
        let mut lock = model_lock();
        lock.wait(&token(1, 1), mode);
        lock.host.server.set_out_of_memory(true);
        assert_eq!(lock.renew(&token(1, 1), mode, 1_000).status, "renewed", "{mode}");
        assert_eq!(lock.renew(&token(1, 1), mode, 60_000).status, "renewed", "{mode}");
        assert_eq!(lock.convert(&token(1, 1), &token(1, 2), other).status, "converted", "{mode}");
    }
}

#[test]
fn a_key_of_another_type_fails_every_script_before_it_writes() {
    type Call = fn(&mut Lock<Model>) -> Result<(), String>;
    let calls: [Call; 6] = [
        |lock| lock.acquire(&token(1, 1), EXCLUSIVE, "wait").map(drop),
        |lock| lock.acquire(&token(2, 1), SHARED, "wait").map(drop),
        |lock| lock.acquire(&token(1, 1), EXCLUSIVE, "refill").map(drop),
        |lock| lock.try_release_with_tombstone(&token(1, 1), 60_000).map(drop),
        |lock| lock.convert_with_tombstone(&token(1, 1), &token(1, 2), SHARED, 60_000).map(drop),
        |lock| lock.inspect().map(drop),
    ];
    for key in 0..5 {
        for (index, call) in calls.into_iter().enumerate() {
            // Inspect and a waiter behind an exclusive holder need no counter.
            if key == 1 && [1, 5].contains(&index) {
                continue;
            }
            let mut lock = model_lock();
            // The readers are read while there are some.
            lock.wait(&token(1, 1), if key == 4 { SHARED } else { EXCLUSIVE });
            lock.wait(&token(2, 1), EXCLUSIVE);
            let name = lock.keys[key].clone();
            lock.command(&["DEL", &name]);
            match key {
                0 | 1 => lock.command(&["HSET", &name, "field", "1"]),
                _ => lock.command(&["SET", &name, "text"]),
            };
            let before = lock.state();
            let error = call(&mut lock).unwrap_err();
            // The counter is not the lock's own key, so the error names it.
            let code = if key == 1 { "BADFENCE leasehold:fence " } else { "WRONGTYPE" };
            assert!(error.starts_with(code), "key {key}, call {index}: {error}");
            assert_eq!(format!("{:?}", lock.state()), format!("{before:?}"), "key {key}, call {index}");
        }
    }
}

#[test]
fn a_script_that_touches_a_key_it_did_not_declare_is_refused_by_the_model() {
    let mut lock = model_lock();
    let reply = crate::common::Host::run(&mut lock.host, &["EVAL", "return redis.call('GET', 'b')", "1", "a"]);
    assert!(reply.unwrap_err().contains("not declared"));
}

#[test]
fn no_key_is_ever_without_ttl_nor_outlives_its_longest_record() {
    for seed in 0..100 {
        let (mut rng, mut lock) = (Rng::new(seed), model_lock());
        for _ in 0..60 {
            random_call(&mut lock, &mut rng);
            let now_ms = lock.now_ms();
            for (key, expires_us) in lock.host.server.keys(lock.host.now_us) {
                if key == "leasehold:fence" {
                    assert_eq!(expires_us, None, "seed {seed}: the counter has a TTL");
                    continue;
                }
                let expires_us = expires_us.unwrap_or_else(|| panic!("seed {seed}: {key} has no TTL"));
                assert!(expires_us / 1000 <= now_ms + longest_ms(&key), "seed {seed}: {key} lives too long");
            }
            let shared = lock.holder().as_deref() == Some("shared");
            let latest = lock.host.server.zset(lock.host.now_us, &lock.keys[4]).last().map(|(_, score)| *score as u64);
            if let Some(latest) = latest.filter(|latest| shared && *latest > now_ms) {
                assert!(now_ms + lock.pttl(0) as u64 >= latest, "seed {seed}: N ends before a live reader");
            }
        }
    }
}

fn random_call(lock: &mut Lock<Model>, rng: &mut Rng) {
    let mode = *rng.pick(&[EXCLUSIVE, SHARED]);
    let (one, other) = (token(rng.below(4) as u32, 1), token(rng.below(4) as u32, 2));
    lock.ttl = *rng.pick(&[100, 2_000, 30_000]);
    lock.claim = *rng.pick(&[100, 3_000]);
    lock.used_fence = *rng.pick(&[0, 1_700_000_000_000_500]);
    match rng.below(9) {
        0..=2 => drop(lock.wait(&one, mode)),
        3 => drop(lock.refill(&one, mode)),
        4 => drop(lock.release_with_tombstone(&one, *rng.pick(&[0, 60_000]))),
        5 => drop(lock.convert(&one, &other, mode)),
        6 => drop(lock.acquire_fast(&other)),
        7 => drop(lock.renew(&one, mode, *rng.pick(&[0, 100, 30_000]))),
        _ => lock.pass_ms(*rng.pick(&[1, 99, 2_500])),
    }
}

fn longest_ms(key: &str) -> u64 {
    match key.rsplit(':').next() {
        Some("waiters") => 3_000,
        Some("queue") => 60_000,
        _ => 30_000,
    }
}
