use leasehold_lua::{
    ACQUIRE, ACQUIRE_FAST, BATCH, CONVERT, CUT_TTL, FORCE, MULTI, RAISE, RELEASE, Script, reentrant, semaphore,
};

use crate::common::model::{Model, model_lock};
use crate::common::{ALL_KEYS, EXCLUSIVE, Lock, SHARED, list, scalar_text, token};

const NOW: i64 = 1_700_000_000_000_000;
const FENCE: usize = 1;

/// Counters that these scripts can't have written, or from which no fence could rise.
pub(crate) const ABSURD: [&str; 17] = [
    "9007199254736897",
    "9007199254740992",
    "9223372036854775807",
    "1e300",
    "inf",
    "nan",
    "abc",
    "",
    "-5",
    "+5",
    " 5",
    "5 ",
    "0x10",
    "2000000000000000.5",
    // As long as the clock and below it, as texts compare.
    "1.60000000000000",
    "-600000000000000",
    "16000000000000 0",
];

/// A lock on a server whose counter is below the clock.
fn counted_lock() -> Lock<Model> {
    let mut lock = model_lock();
    lock.command(&["SET", "leasehold:fence", "5"]);
    lock
}

#[test]
fn each_grant_draws_a_greater_fence_even_in_one_microsecond() {
    let mut lock = model_lock();
    let mut last = 0;
    for counter in 1..100 {
        let fence = lock.wait(&token(1, counter), EXCLUSIVE).value;
        assert!(fence > last);
        assert_eq!(lock.last_fence(), fence);
        last = fence;
        lock.release(&token(1, counter));
    }
}

#[test]
fn all_names_of_a_server_draw_from_one_counter_without_ttl() {
    let mut lock = counted_lock();
    let first = lock.wait(&token(1, 1), EXCLUSIVE).value;
    lock.keys[0] = "invoice:43".to_owned();
    let second = lock.acquire_fast(&token(1, 2));
    lock.keys[0] = "invoice:44".to_owned();
    let third = lock.wait(&token(1, 3), SHARED).value;
    assert_eq!([first, second, third], [NOW, NOW + 1, NOW + 2]);
    assert_eq!(lock.pttl(FENCE), -1);
}

#[test]
fn a_block_is_not_drawn_from_the_counter_and_ends_a_millisecond_ahead_of_the_clock() {
    let mut lock = counted_lock();
    lock.block = 33;
    let first = lock.wait(&token(1, 1), EXCLUSIVE);
    assert_eq!((first.value, first.block, lock.last_fence()), (NOW, 33, NOW));
    lock.block = 9_000;
    let again = lock.refill(&token(1, 1), EXCLUSIVE);
    assert_eq!((again.value, again.block), (NOW + 1, 1_023));
    lock.command(&["SET", "leasehold:fence", &(NOW + 1_020).to_string()]);
    assert_eq!(lock.refill(&token(1, 1), EXCLUSIVE).block, 3);
    lock.command(&["SET", "leasehold:fence", &(NOW + 5_000).to_string()]);
    assert_eq!(lock.refill(&token(1, 1), EXCLUSIVE).block, 1);
}

#[test]
fn the_next_fence_is_above_the_greatest_that_a_holder_used() {
    let mut lock = counted_lock();
    lock.block = 1_024;
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.messages();
    lock.used_fence = NOW as u64 + 1_000;
    lock.release(&token(1, 1));
    let grant = lock.messages().remove(0).1;
    assert!(grant.starts_with(&format!("grant {} exclusive {} 23 ", token(2, 1), NOW + 1_001)), "{grant}");
    assert_eq!(lock.last_fence(), NOW + 1_001);
}

#[test]
fn a_used_fence_is_remembered_though_nobody_is_granted() {
    for (mode, status) in [(EXCLUSIVE, "released"), (SHARED, "released"), (EXCLUSIVE, "taken"), (EXCLUSIVE, "gone")] {
        let mut lock = counted_lock();
        if status != "gone" {
            lock.wait(&token(if status == "taken" { 2 } else { 1 }, 1), mode);
        }
        lock.used_fence = NOW as u64 + 500;
        assert_eq!(lock.release(&token(1, 1)).status, status);
        assert_eq!(lock.last_fence(), NOW + 500, "{mode} {status}");
        assert_eq!(lock.pttl(FENCE), -1);
    }
}

#[test]
fn a_release_without_a_used_fence_leaves_the_counter_as_it_is() {
    let mut lock = counted_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.command(&["SET", "leasehold:fence", "7"]);
    lock.release(&token(1, 1));
    assert_eq!(lock.last_fence(), 7);
    lock.command(&["DEL", "leasehold:fence"]);
    lock.used_fence = NOW as u64 + 500;
    assert_eq!(lock.release(&token(1, 1)).status, "gone");
    assert_eq!(lock.host.server.keys(lock.host.now_us), [], "a lost counter begins above each block anyway");
}

#[test]
fn a_wrong_used_fence_cannot_move_the_counter_far() {
    for (stored, used, last) in [
        (5, 2_000_000_000_000_000, NOW + 2_048),
        (5, u64::MAX, NOW + 2_048),
        (NOW + 300, 2_000_000_000_000_000, NOW + 2_348),
        (NOW + 300, NOW as u64 + 300, NOW + 300),
        (NOW + 300, NOW as u64 + 299, NOW + 300),
        (NOW + 300, 1, NOW + 300),
    ] {
        let mut lock = model_lock();
        lock.wait(&token(1, 1), EXCLUSIVE);
        lock.command(&["SET", "leasehold:fence", &stored.to_string()]);
        lock.used_fence = used;
        lock.release(&token(1, 1));
        assert_eq!(lock.last_fence(), last, "{stored} {used}");
    }
}

#[test]
fn a_convert_draws_a_fence_above_the_used_one() {
    for (from, to) in [(EXCLUSIVE, SHARED), (SHARED, EXCLUSIVE)] {
        let mut lock = counted_lock();
        lock.wait(&token(1, 1), from);
        lock.used_fence = NOW as u64 + 700;
        assert_eq!(lock.convert(&token(1, 1), &token(1, 2), to).value, NOW + 701, "{from}");
        let again = lock.convert(&token(1, 1), &token(1, 2), to);
        assert_eq!((again.status.as_str(), again.value), ("again", NOW + 702), "{from}");
    }
}

#[test]
fn force_draws_above_every_block_of_its_victims() {
    let mut lock = counted_lock();
    lock.block = 9_000;
    let victim = lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.messages();
    lock.force();
    assert!(lock.last_fence() >= victim.value + victim.block);
    assert!(lock.messages()[0].1.contains(&format!(" {} 1 ", NOW + 2_023)));
}

#[test]
fn force_of_a_free_lock_raises_the_counter_too() {
    let mut lock = counted_lock();
    lock.force();
    assert_eq!(lock.last_fence(), NOW + 2_023);
    lock.force();
    assert_eq!(lock.last_fence(), NOW + 2_024, "a counter that leads is raised by one");
}

#[test]
fn fences_rise_after_all_data_is_lost() {
    let mut lock = counted_lock();
    lock.block = 9_000;
    let before = lock.wait(&token(1, 1), EXCLUSIVE);
    lock.command(&["FLUSHALL"]);
    let after = lock.wait(&token(2, 1), EXCLUSIVE);
    assert!(after.value > before.value + before.block - 1);
    assert_eq!((after.value, after.block, lock.last_fence()), (NOW + 3_073, 1, NOW + 3_073));
}

#[test]
fn fences_rise_though_the_servers_clock_steps_back() {
    let mut lock = model_lock();
    let before = lock.wait(&token(1, 1), EXCLUSIVE).value;
    lock.release(&token(1, 1));
    lock.host.now_us -= 60_000_000;
    assert_eq!(lock.wait(&token(2, 1), EXCLUSIVE).value, before + 1);
    lock.release(&token(2, 1));
    assert_eq!(lock.acquire_fast(&token(3, 1)), before + 2);
}

#[test]
fn a_writers_fence_is_greater_than_those_that_the_readers_before_it_used() {
    let mut lock = counted_lock();
    lock.block = 33;
    let [first, second] = [1, 2].map(|client| lock.wait(&token(client, 1), SHARED));
    assert!(second.value > first.value);
    lock.wait(&token(3, 1), EXCLUSIVE);
    lock.used_fence = (first.value + 32) as u64;
    lock.release(&token(1, 1));
    lock.used_fence = 0;
    lock.release(&token(2, 1));
    assert_eq!(lock.value(), Some(format!("{} {}", token(3, 1), first.value + 33)));
}

#[test]
fn one_script_draws_one_fence_for_all_readers_that_it_grants() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.block = 33;
    lock.wait(&token(2, 1), SHARED);
    lock.wait(&token(3, 1), SHARED);
    lock.messages();
    lock.pass_ms(10);
    lock.release(&token(1, 1));
    let us = lock.host.now_us;
    let fences: Vec<String> = lock
        .messages()
        .iter()
        .map(|(_, grant)| grant.split(' ').skip(3).take(2).collect::<Vec<_>>().join("+"))
        .collect();
    assert_eq!(fences, [format!("{us}+33"), format!("{us}+33")]);
    assert_eq!((lock.value(), lock.last_fence()), (Some(format!("shared {us}")), us as i64));
}

#[test]
fn a_downgrade_shares_its_fence_with_the_readers_that_it_lets_in() {
    let mut lock = counted_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), SHARED);
    lock.messages();
    let fence = lock.convert(&token(1, 1), &token(1, 2), SHARED).value;
    let grant = lock.messages().remove(0).1;
    assert!(grant.starts_with(&format!("grant {} shared {fence} ", token(2, 1))), "{grant}");
    assert_eq!(lock.last_fence(), fence);
}

#[test]
fn permits_that_are_granted_together_share_a_fence_which_their_hash_tells() {
    let mut lock = counted_lock();
    let acquire = |lock: &mut Lock<Model>, token: &str, mode: &str| {
        let arguments = [token, mode, "30000", "wait", "3000", "33", "0", "native"];
        list(lock.call(&semaphore::ACQUIRE, &ALL_KEYS, &arguments).unwrap()).iter().map(scalar_text).collect::<Vec<_>>()
    };
    assert_eq!(acquire(&mut lock, &token(1, 1), "3/3")[..2], ["entered".to_owned(), NOW.to_string()]);
    assert_eq!(acquire(&mut lock, &token(2, 1), "1/3")[0], "waiting");
    assert_eq!(acquire(&mut lock, &token(3, 1), "2/3")[0], "waiting");
    lock.messages();
    lock.pass_ms(10);
    let us = lock.host.now_us;
    lock.call(&semaphore::RELEASE, &ALL_KEYS, &[&token(1, 1), "0", "0", "native"]).unwrap();
    let messages = lock.messages();
    let grant = |client, permits| format!("grant {} {permits}/3 {us} 33 ", token(client, 1));
    assert!(messages[0].1.starts_with(&grant(2, 1)) && messages[1].1.starts_with(&grant(3, 2)), "{messages:?}");
    assert_eq!(lock.last_fence(), us as i64);
    let mut permits = lock.host.server.hash(us, &lock.keys[4]);
    permits.sort();
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let us = us.to_string();
    let expected =
        [(token(2, 1), "1/3".to_owned()), (token(3, 1), "2/3".to_owned()), field("fence", &us), field("limit", "3")];
    assert_eq!(permits, [&expected[..], &[field("used", "3")]].concat());
    assert_eq!(lock.inspect().unwrap()[3], us);
}

#[test]
fn inspect_tells_the_fence_of_the_last_grant() {
    let mut lock = counted_lock();
    assert_eq!(lock.inspect().unwrap()[3], "0", "a free lock has none");
    let fence = lock.wait(&token(1, 1), EXCLUSIVE).value;
    lock.command(&["SET", "leasehold:fence", "2000000000000000"]);
    assert_eq!(lock.inspect().unwrap()[3], fence.to_string());
    lock.wait(&token(2, 1), EXCLUSIVE);
    assert_eq!(
        lock.inspect().unwrap()[1..4],
        [token(1, 1), "30000".to_owned(), fence.to_string()],
        "the mark hides nothing"
    );
}

#[test]
fn an_invalid_counter_prevents_every_grant_and_changes_nothing() {
    for absurd in ABSURD {
        let mut lock = model_lock();
        lock.command(&["SET", "leasehold:fence", absurd]);
        for (mode, how) in [(EXCLUSIVE, "try"), (SHARED, "try"), (EXCLUSIVE, "wait")] {
            let error = lock.acquire(&token(1, 1), mode, how).unwrap_err();
            assert!(error.starts_with("BADFENCE leasehold:fence"), "{absurd} {mode} {how}: {error}");
        }
        assert_eq!(lock.host.server.keys(lock.host.now_us).len(), 1, "{absurd}");

        let mut lock = model_lock();
        lock.wait(&token(1, 1), EXCLUSIVE);
        lock.wait(&token(2, 1), EXCLUSIVE);
        lock.command(&["SET", "leasehold:fence", absurd]);
        let before = lock.state();
        for error in [
            lock.acquire(&token(1, 1), EXCLUSIVE, "refill").unwrap_err(),
            lock.convert_with_tombstone(&token(1, 1), &token(1, 2), SHARED, 0).unwrap_err(),
            lock.try_release_with_tombstone(&token(1, 1), 0).unwrap_err(),
        ] {
            assert!(error.starts_with("BADFENCE"), "{absurd}: {error}");
        }
        assert_eq!(format!("{:?}", lock.state()), format!("{before:?}"), "{absurd}");
    }
}

#[test]
fn no_script_takes_the_ttl_away_that_an_operator_has_given_the_counter() {
    let [mine, next] = [token(1, 1), token(1, 2)];
    let (mine_and_space, next_and_space) = (format!("{mine} "), format!("{next} "));
    let calls: [(Script, &[usize], &[&str]); 10] = [
        (ACQUIRE_FAST, &[0, 2, 1], &[&next_and_space, "30000"]),
        (BATCH, &[0, 2, 1], &["1", "acquire", &next_and_space, "30000"]),
        (BATCH, &[0, 1], &["1", "release", &mine_and_space]),
        (ACQUIRE, &ALL_KEYS, &[&next, EXCLUSIVE, "30000", "wait", "1000", "1", "0", "native"]),
        (ACQUIRE, &ALL_KEYS, &[&mine, EXCLUSIVE, "30000", "refill", "1000", "1", "0", "native"]),
        (RELEASE, &ALL_KEYS, &[&mine, "0", "0", "native"]),
        (CONVERT, &ALL_KEYS, &[&mine, &next, SHARED, "30000", "1", "0", "0", "native"]),
        (FORCE, &ALL_KEYS, &["leases", "0", "native"]),
        (RAISE, &[0, 1], &[&mine, "1900000000000000"]),
        (MULTI, &[0, 2, 3, 1], &["30000", &mine, "exclusive"]),
    ];
    for (script, keys, arguments) in calls {
        for counter in ABSURD.into_iter().chain(["5", "1800000000000000", "9007199254736896"]) {
            for waiters in 0..3 {
                let mut lock = model_lock();
                (0..waiters).for_each(|client| _ = lock.wait(&token(1 + client, 1), EXCLUSIVE));
                lock.command(&["SET", "leasehold:fence", counter, "PX", "60000"]);
                // A counter that is refused fails the slow path.
                _ = lock.call(&script, keys, arguments);
                assert_eq!(lock.pttl(1), 60_000, "{} {arguments:?} {counter} {waiters}", script.name);
            }
        }
    }
}

#[test]
fn a_counter_of_another_type_is_named_by_every_script_that_needs_it_and_left_as_it_is() {
    let [mine, next] = [token(1, 1), token(1, 2)];
    let scripts: [(Script, &[usize], &[&str]); 9] = [
        (ACQUIRE, &ALL_KEYS, &[&next, EXCLUSIVE, "30000", "try", "1000", "1", "0", "native"]),
        (RELEASE, &ALL_KEYS, &[&mine, "0", "0", "native"]),
        (CONVERT, &ALL_KEYS, &[&mine, &next, SHARED, "30000", "1", "0", "0", "native"]),
        (FORCE, &ALL_KEYS, &["leases", "0", "native"]),
        (RAISE, &[0, 1], &[&mine, "5"]),
        (MULTI, &[0, 2, 3, 1], &["30000", &mine, "exclusive"]),
        (reentrant::ACQUIRE, &ALL_KEYS, &[&next, EXCLUSIVE, "30000", "try", "1000", "1", "0", "native"]),
        (semaphore::ACQUIRE, &ALL_KEYS, &[&next, "1/3", "30000", "try", "1000", "1", "0", "native"]),
        (semaphore::RELEASE, &ALL_KEYS, &[&mine, "0", "0", "native"]),
    ];
    for (script, keys, arguments) in scripts {
        let mut lock = model_lock();
        // A waiter or a try behind the exclusive holder needs no counter.
        let mode = if script == ACQUIRE { SHARED } else { EXCLUSIVE };
        lock.wait(&mine, mode);
        lock.command(&["DEL", "leasehold:fence"]);
        lock.command(&["ZADD", "leasehold:fence", "1.5", "member"]);
        let before = lock.state();
        let error = lock.call(&script, keys, arguments).unwrap_err();
        assert!(error.starts_with("BADFENCE leasehold:fence "), "{}: {error}", script.name);
        assert_eq!(format!("{:?}", lock.state()), format!("{before:?}"), "{}", script.name);
    }
}

#[test]
fn fences_rise_from_the_greatest_counter_that_there_is_room_for() {
    for mode in [EXCLUSIVE, SHARED] {
        let mut lock = model_lock();
        lock.block = 33;
        lock.command(&["SET", "leasehold:fence", "9007199254736896"]);
        let entered = lock.wait(&token(1, 1), mode);
        assert_eq!((entered.value, entered.block), (9_007_199_254_736_897, 1), "{mode}");
        assert_eq!(lock.last_fence(), 9_007_199_254_736_897, "{mode}");
    }
}

#[test]
fn no_absurd_ttl_is_written_on() {
    const ABSURD: &str = "9223370336854775807";
    for mode in [EXCLUSIVE, SHARED] {
        let mut lock = model_lock();
        lock.wait(&token(1, 1), mode);
        // The server answers a longer lease than the client accepts.
        let beyond = CUT_TTL;
        let other = if mode == EXCLUSIVE { SHARED } else { EXCLUSIVE };
        lock.command(&["PEXPIRE", "invoice:42", ABSURD]);
        let converted = lock.convert_with_tombstone(&token(1, 1), &token(1, 2), other, 0).unwrap();
        assert_eq!((converted.status.as_str(), converted.ms), ("converted", beyond), "{mode}");
        assert_eq!(lock.pttl(0), beyond, "{mode}");
    }
    let mut lock = model_lock();
    lock.wait(&token(1, 1), SHARED);
    lock.command(&["PEXPIRE", "invoice:42", ABSURD]);
    assert_eq!(lock.wait(&token(2, 1), SHARED).ms, 30_000);
}
