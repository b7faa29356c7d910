//! The fast paths: a free lock is taken, and a lock that nobody waits for is given back. They change nothing otherwise.

use leasehold_core::{Reply, Scalar};

use crate::common::model::{Model, model_lock};
use crate::common::{EXCLUSIVE, Lock, SHARED, scalar_number, token};

const NOW: i64 = 1_700_000_000_000_000;

type Prepare = fn(&mut Lock<Model>);

/// Everything that keeps a client from entering at once.
const OBSTACLES: [(&str, Prepare); 7] = [
    ("held", |lock| drop(lock.wait(&token(2, 1), EXCLUSIVE))),
    ("read", |lock| drop(lock.wait(&token(2, 1), SHARED))),
    ("its own", |lock| drop(lock.wait(&token(1, 1), EXCLUSIVE))),
    ("held by another library", |lock| drop(lock.command(&["SET", "invoice:42", "somebody", "PX", "9000"]))),
    ("of another type", |lock| drop(lock.command(&["HSET", "invoice:42", "field", "1"]))),
    ("wanted by a waiter whose holder has gone", |lock| {
        lock.wait(&token(3, 1), EXCLUSIVE);
        lock.wait(&token(2, 1), EXCLUSIVE);
        lock.command(&["DEL", "invoice:42"]);
    }),
    ("one with a tombstone", |lock| drop(lock.release_with_tombstone(&token(1, 1), 60_000))),
];

#[test]
fn a_free_lock_is_taken_as_by_the_slow_path() {
    let (mut fast, mut slow) = (model_lock(), model_lock());
    for lock in [&mut fast, &mut slow] {
        lock.command(&["SET", "leasehold:fence", "5"]);
    }
    let fence = fast.acquire_fast(&token(1, 1));
    assert_eq!(fence, slow.try_acquire(&token(1, 1), EXCLUSIVE).value);
    assert_eq!(format!("{:?}", fast.state()), format!("{:?}", slow.state()));
    assert_eq!((fence, fast.pttl(0), fast.pttl(1)), (NOW, 30_000, -1));
}

#[test]
fn a_lock_that_is_not_free_for_everybody_is_left_to_the_slow_path() {
    for (what, prepare) in OBSTACLES {
        let mut lock = model_lock();
        lock.command(&["SET", "leasehold:fence", "5"]);
        prepare(&mut lock);
        let before = lock.state();
        assert_eq!(lock.acquire_fast(&token(1, 1)), 0, "{what}");
        assert_eq!(format!("{:?}", lock.state()), format!("{before:?}"), "{what}");
    }
}

#[test]
fn fences_of_the_fast_path_rise_within_one_microsecond() {
    let mut lock = model_lock();
    lock.command(&["SET", "leasehold:fence", "5"]);
    for counter in 0..3 {
        let fence = lock.acquire_fast(&token(1, counter as u64));
        assert_eq!((fence, lock.last_fence()), (NOW + counter, NOW + counter));
        assert!(lock.release_fast(&format!("{} {fence}", token(1, counter as u64))));
    }
}

#[test]
fn a_counter_that_leads_the_clock_is_told_with_the_clock() {
    for (stored, fence) in [
        ("1700000000000000", "1700000000000001"),
        ("2000000000000000", "2000000000000001"),
        ("9007199254736896", "9007199254736897"),
    ] {
        let mut lock = model_lock();
        lock.command(&["SET", "leasehold:fence", stored]);
        let Ok(Reply::List(items)) = lock.try_acquire_fast(&token(1, 1)) else { panic!("{stored}") };
        assert_eq!(items.iter().map(scalar_number).collect::<Vec<_>>(), [NOW, fence.parse().unwrap()]);
        assert_eq!(lock.value(), Some(format!("{} {fence}", token(1, 1))));
        assert_eq!(lock.last_fence().to_string(), fence);
    }
}

#[test]
fn a_counter_with_fewer_digits_than_the_clock_is_below_it() {
    for stored in ["0", "9", "999999999999999"] {
        let mut lock = model_lock();
        lock.command(&["SET", "leasehold:fence", stored]);
        assert_eq!((lock.acquire_fast(&token(1, 1)), lock.last_fence()), (NOW, NOW), "{stored}");
    }
}

#[test]
fn a_lost_counter_is_left_to_the_slow_path() {
    let mut lock = model_lock();
    assert_eq!(lock.acquire_fast(&token(1, 1)), 0);
    assert_eq!(lock.host.server.keys(lock.host.now_us), []);
}

#[test]
fn a_counter_that_is_no_fence_is_left_as_it_is() {
    for absurd in super::fences::ABSURD {
        let mut lock = model_lock();
        lock.command(&["SET", "leasehold:fence", absurd]);
        assert_eq!(lock.acquire_fast(&token(1, 1)), 0, "{absurd}");
        let stored = lock.host.server.get(lock.host.now_us, "leasehold:fence");
        assert_eq!((stored.as_deref(), lock.value()), (Some(absurd), None));
    }
}

#[test]
fn a_counter_of_another_type_is_left_to_the_slow_path_and_as_it_is() {
    let mut lock = model_lock();
    lock.command(&["ZADD", "leasehold:fence", "1.5", "member"]);
    let before = lock.state();
    assert_eq!(lock.acquire_fast(&token(1, 1)), 0);
    assert_eq!(format!("{:?}", lock.state()), format!("{before:?}"));
}

#[test]
fn at_maxmemory_the_fast_path_writes_nothing() {
    let mut lock = model_lock();
    lock.command(&["SET", "leasehold:fence", "5"]);
    lock.host.server.set_out_of_memory(true);
    assert_eq!(lock.acquire_fast(&token(1, 1)), 0);
    assert_eq!((lock.last_fence(), lock.value()), (5, None));
    assert!(lock.acquire(&token(1, 1), EXCLUSIVE, "wait").unwrap_err().starts_with("OOM"), "the slow path tells why");
}

#[test]
fn a_fast_release_needs_the_exact_value() {
    let mut lock = model_lock();
    let fence = lock.wait(&token(1, 1), EXCLUSIVE).value;
    let value = lock.value().unwrap();
    let others = [
        token(1, 1),
        format!("{} ", token(1, 1)),
        format!("{} {}", token(1, 1), fence - 1),
        format!("{} {fence}", token(1, 2)),
        format!("{}*{fence}", token(1, 1)),
        format!("{value} "),
        String::new(),
    ];
    for other in others {
        assert!(!lock.release_fast(&other), "{other}");
        assert_eq!(lock.value().as_ref(), Some(&value), "{other}");
    }
    assert!(lock.release_fast(&value));
    assert_eq!(lock.value(), None);
    assert!(!lock.release_fast(&value), "it is given back once");
}

#[test]
fn a_fast_release_of_a_marked_lock_does_nothing() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    let value = lock.value().unwrap();
    lock.wait(&token(2, 1), EXCLUSIVE);
    assert!(!lock.release_fast(&value));
    assert_eq!(lock.holder(), Some(token(1, 1)));
    assert_eq!(lock.release(&token(1, 1)).status, "released");
    assert_eq!(lock.holder(), Some(token(2, 1)));
}

#[test]
fn a_late_copy_of_a_fast_release_does_not_end_a_later_lease() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    let value = lock.value().unwrap();
    lock.release(&token(1, 1));
    lock.wait(&token(2, 1), EXCLUSIVE);
    assert!(!lock.release_fast(&value));
    assert_eq!(lock.holder(), Some(token(2, 1)));
}

#[test]
fn a_renewal_and_a_refill_leave_the_value_that_a_fast_release_compares() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    let value = lock.value().unwrap();
    lock.pass_ms(1_000);
    lock.renew(&token(1, 1), EXCLUSIVE, 60_000);
    lock.refill(&token(1, 1), EXCLUSIVE);
    assert!(lock.release_fast(&value));
}

#[test]
fn a_fast_release_is_allowed_at_maxmemory_and_refused_by_a_replica() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    let value = lock.value().unwrap();
    lock.host.server.set_read_only(true);
    let refused = lock.call(&leasehold_lua::RELEASE_FAST, &[0], &[&value]).unwrap_err();
    assert!(refused.starts_with("READONLY"), "{refused}");
    lock.host.server.set_read_only(false);
    lock.host.server.set_out_of_memory(true);
    assert_eq!(lock.call(&leasehold_lua::RELEASE_FAST, &[0], &[&value]), Ok(Reply::One(Scalar::Int(1))));
}
