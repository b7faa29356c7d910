use leasehold_lua::{RAISE, election, reentrant, semaphore};
use leasehold_model::{Engine, TimeFor};

use crate::common::model::{Model, model_lock};
use crate::common::{EXCLUSIVE, Lock, SHARED, token};

/// A lock on a server that refuses `TIME` in scripts, in the middle of a millisecond.
fn lock_without_time() -> Lock<Model> {
    let mut lock = model_lock();
    lock.host.server.allow_time(TimeFor::Nobody);
    lock.host.now_us += 789;
    lock
}

#[test]
fn where_time_is_refused_scripts_know_the_millisecond_and_leave_the_key_as_it_is() {
    for before in [&[][..], &["SET", "invoice:42", "foreign"], &["SET", "invoice:42", "foreign", "PX", "5000"]] {
        let mut lock = lock_without_time();
        if !before.is_empty() {
            lock.command(before);
        }
        let state = |lock: &Lock<Model>| lock.host.server.keys(lock.host.now_us);
        let (keys, us) = (state(&lock), lock.now_us() / 1_000 * 1_000 + 999);
        assert_eq!(lock.inspect().unwrap()[0], us.to_string(), "{before:?}");
        assert_eq!(lock.renew(&token(1, 1), EXCLUSIVE, 1_000).us, us, "{before:?}");
        assert_eq!(lock.renew(&token(1, 1), SHARED, 1_000).us, us, "{before:?}");
        for (script, keys) in [(&RAISE, &[0, 1][..]), (&reentrant::RENEW, &[0]), (&semaphore::RENEW, &[0, 4])] {
            // A key of another type is still refused.
            let _ = lock.call(script, keys, &[&token(1, 1), "1000"]);
        }
        let _ = lock.call(&election::LEADER, &[0], &[]);
        assert_eq!(state(&lock), keys, "{before:?}");
        assert_eq!(lock.value().is_some(), !before.is_empty());
    }
}

/// Lua's numbers are exact up to 2^53 ms, which are 285,000 years. Such a key is never a lease.
#[test]
fn where_time_is_refused_a_key_whose_ttl_is_too_great_for_lua_tells_the_time_and_does_not_end() {
    for ms in ["9007199254740993", "1000000000000000001", "9000000000000000123"] {
        let mut lock = lock_without_time();
        // The functions know the time.
        lock.host.server.run_scripts_in(Engine::Lua);
        lock.command(&["SET", "invoice:42", "foreign", "PX", ms]);
        lock.pass_ms(333);
        let us = lock.now_us() / 1_000 * 1_000 + 999;
        assert_eq!(lock.inspect().unwrap()[0], us.to_string(), "{ms}");
        lock.pass_ms(100_000 * 365 * 24 * 3_600_000);
        assert_eq!(lock.value().as_deref(), Some("foreign"), "{ms}");
    }
}

#[test]
fn where_time_is_refused_fences_rise_within_one_millisecond() {
    let mut lock = lock_without_time();
    let mut last = 0;
    for turn in 1..=5 {
        let answer = lock.try_acquire(&token(1, turn), EXCLUSIVE);
        assert_eq!(answer.status, "entered");
        assert!(answer.value > last, "{answer:?} after {last}");
        last = answer.value;
        assert_eq!(lock.release(&token(1, turn)).status, "released");
        assert!(lock.acquire_fast(&token(2, turn)) > last);
        last = lock.number_of_fence();
        assert_eq!(lock.release(&token(2, turn)).status, "released");
    }
}

/// Clients of two users, of whom only the first may run `TIME`, 100 µs after the begin of a millisecond.
fn shared_lock() -> Lock<Model> {
    let mut lock = model_lock();
    lock.host.server.allow_time(TimeFor::Some);
    lock.host.now_us += 100;
    lock.command(&["SET", "leasehold:fence", "5"]);
    lock.block = 9_000;
    lock
}

#[test]
fn a_user_without_time_draws_above_what_another_user_used_until_now() {
    for fast in [false, true] {
        let mut lock = shared_lock();
        let holder = lock.wait(&token(1, 1), EXCLUSIVE);
        // The holder has handed it over 400 times. Its clock has passed that fence, so it doesn't tell it.
        let used = holder.value + 400;
        lock.host.now_us += 500;
        lock.release(&token(1, 1));
        lock.host.server.set_user(1);
        let next = if fast { lock.acquire_fast(&token(2, 1)) } else { lock.try_acquire(&token(2, 1), EXCLUSIVE).value };
        assert!(next > used, "{next} after {used}");
    }
}

#[test]
fn users_with_and_without_time_draw_above_each_others_blocks_when_a_holder_can_not_tell_its_fences() {
    for (first, second) in [(0, 1), (1, 0), (0, 0), (1, 1)] {
        for how in ["force", "adopt", "lose the counter"] {
            let mut lock = shared_lock();
            // At the end of the millisecond, where the clock of a script with `TIME` is most ahead of its begin.
            lock.host.now_us += 899 * u64::from(first == 0);
            lock.host.server.set_user(first);
            let holder = lock.wait(&token(1, 1), EXCLUSIVE);
            let last = holder.value + holder.block - 1;
            lock.host.server.set_user(second);
            let next = match how {
                "adopt" => lock.convert(&token(1, 1), &token(2, 1), EXCLUSIVE).value,
                "force" => {
                    lock.force();
                    lock.try_acquire(&token(2, 1), EXCLUSIVE).value
                }
                _ => {
                    lock.command(&["DEL", "leasehold:fence", "invoice:42"]);
                    lock.try_acquire(&token(2, 1), EXCLUSIVE).value
                }
            };
            assert!(next > last, "{how}, {first} and then {second}: {next} after {last}");
        }
    }
}

impl Lock<Model> {
    fn number_of_fence(&self) -> i64 {
        self.host.server.get(self.host.now_us, "leasehold:fence").and_then(|fence| fence.parse().ok()).unwrap_or(0)
    }
}
