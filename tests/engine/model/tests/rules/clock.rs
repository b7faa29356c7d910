use leasehold_lua::{RAISE, election, reentrant, semaphore};

use crate::common::model::{Model, model_lock};
use crate::common::{EXCLUSIVE, Lock, SHARED, token};

/// A lock on a server that refuses `TIME` in scripts, in the middle of a millisecond.
fn lock_without_time() -> Lock<Model> {
    let mut lock = model_lock();
    lock.host.server.refuse_time(true);
    lock.host.now_us += 789;
    lock
}

#[test]
fn where_time_is_refused_scripts_know_the_time_to_the_millisecond_and_leave_the_key_as_it_is() {
    for before in [&[][..], &["SET", "invoice:42", "foreign"], &["SET", "invoice:42", "foreign", "PX", "5000"]] {
        let mut lock = lock_without_time();
        if !before.is_empty() {
            lock.command(before);
        }
        let state = |lock: &Lock<Model>| lock.host.server.keys(lock.host.now_us);
        let (keys, us) = (state(&lock), lock.now_us() / 1_000 * 1_000);
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

impl Lock<Model> {
    fn number_of_fence(&self) -> i64 {
        self.host.server.get(self.host.now_us, "leasehold:fence").and_then(|fence| fence.parse().ok()).unwrap_or(0)
    }
}
