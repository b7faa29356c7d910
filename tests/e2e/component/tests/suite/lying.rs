//! A connection provider that is a component and breaks its promises: `tests/e2e/component-liar`, composed with `lock.wasm`.
//! A lock's name says how the commands for it are answered.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold_component_tests::component_beside_lock;
use leasehold_wasmtime_host::{Error, ErrorKind, HoldEnd, Locks, LossReason, Manager};
use tokio::time::Instant;

use crate::common::*;
use crate::memory::{Memory, composed_on_virtual_time};

/// Runs `work` in an instance of the lock component and the liar.
async fn lied_to<R>(work: impl AsyncFnOnce(Locks<'_>) -> R) -> wasmtime::Result<R> {
    // The component needs no provider from its host.
    composed_on_virtual_time(&component_beside_lock("lied-to.wasm"), Memory::start().provider(), work).await
}

async fn managers<const N: usize>(locks: Locks<'_>) -> [Manager<'_>; N] {
    let opened = join_all((0..N).map(async |_| ok(locks.open("redis://liar", quick()).await))).await;
    opened.try_into().unwrap_or_else(|_| panic!("not {N}"))
}

/// The manager takes, keeps and gives back a lock, and another one waits for it.
async fn is_usable(one: Manager<'_>, other: Manager<'_>, name: &str) {
    let lease = ok(soon(name, one.acquire(mutex(name), None)).await);
    assert!(ok(lease.verify().await), "{name}");
    let (next, released) = tokio::join!(other.acquire(mutex(name), None), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        lease.release().await
    });
    ok(released);
    let next = ok(next);
    assert!(next.fence().await.unwrap() > lease.fence().await.unwrap(), "{name}");
    ok(next.release().await);
}

#[tokio::test(start_paused = true)]
async fn answers_in_any_order_reach_the_calls_that_they_belong_to() {
    let work = lied_to(async |locks| {
        let managers: [_; 8] = managers(locks).await;
        let calls = (0..200).map(async |number| {
            let name = format!("reversed-{number}");
            let lease = ok(managers[number % 8].acquire(mutex(&name), long()).await);
            let seen = ok(managers[(number + 1) % 8].inspect(&name).await);
            assert_eq!(seen.last_fence, Some(lease.fence().await.unwrap()), "{name}");
            ok(lease.release().await);
        });
        join_all(calls).await;
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn commands_that_run_twice_change_nothing() {
    let work = lied_to(async |locks| {
        let [one, other, third] = managers(locks).await;
        for number in 0..10 {
            is_usable(one, other, &format!("twice-{number}")).await;
        }
        let both = multi(&["twice-a", "twice-b"]);
        let lease = ok(one.acquire(both.clone(), None).await);
        assert!(ok(other.try_acquire(both.clone(), None).await).is_none());
        ok(lease.release().await);
        let readers = [ok(one.acquire(read("twice-r"), None).await), ok(other.acquire(read("twice-r"), None).await)];
        assert!(ok(third.try_acquire(write("twice-r"), None).await).is_none());
        for reader in readers {
            ok(reader.release().await);
        }
        ok(ok(third.acquire(write("twice-r"), None).await).release().await);
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_after_its_call_was_cancelled_is_ignored() {
    let work = lied_to(async |locks| {
        let [one, other] = managers(locks).await;
        for number in 0..20 {
            let name = format!("late-{number}");
            let error = refused(soon(&name, one.acquire(mutex(&name), wait(600))).await);
            assert!(matches!(error.kind, ErrorKind::Unreachable) && error.retryable, "{error:?}");
            is_usable(one, other, &format!("good-{number}")).await;
        }
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_never_answered_end_in_time_and_use_nothing_up() {
    let work = lied_to(async |locks| {
        // A manager sends commands of one moment together, so it would lie about the others, too.
        let [one, other, third] = managers(locks).await;
        // More calls than an instance can have under way.
        for round in 0..6 {
            let start = Instant::now();
            let waits = (0..1_000).map(async |number| {
                let error = refused(one.acquire(mutex(&format!("never-{round}-{number}")), wait(600)).await);
                assert!(matches!(error.kind, ErrorKind::Unreachable), "{error:?}");
            });
            join_all(waits).await;
            assert!(start.elapsed() < Duration::from_millis(700), "{:?}", start.elapsed());
            is_usable(other, third, "good").await;
        }
    });
    work.await.unwrap();
}

/// What a lie can lead to: any error of the contract, but no trap and no call that never ends.
async fn survives(one: Manager<'_>, other: Manager<'_>, word: &str, rounds: usize) {
    for round in 0..rounds {
        let name = format!("{word}-{round}");
        let tried = soon(&name, one.acquire(mutex(&name), wait(300))).await.unwrap();
        let seen = soon(&name, other.inspect(&name)).await.unwrap();
        let _ = is_an_error(seen);
        if let Some(lease) = is_an_error(tried) {
            let _ = soon(&name, lease.hold(100)).await.unwrap().map_err(is_known);
            let _ = soon(&name, lease.extend(1_000)).await.unwrap().map_err(is_known);
            let _ = soon(&name, lease.downgrade()).await.unwrap().map_err(is_known);
            let _ = soon(&name, lease.verify()).await.unwrap().map_err(is_known);
            let _ = soon(&name, lease.release()).await.unwrap().map_err(is_known);
            lease.drop().unwrap();
        }
        let forced = soon(&name, other.force_release(&name)).await.unwrap();
        let _ = is_an_error(forced);
        for target in [read(&name), reentrant(&name, 7), multi(&[&name, "b"])] {
            let tried = soon(&name, other.try_acquire(target, None)).await.unwrap();
            if let Some(Some(lease)) = is_an_error(tried) {
                let _ = soon(&name, lease.release()).await.unwrap().map_err(is_known);
                lease.drop().unwrap();
            }
        }
    }
}

fn is_an_error<T>(answer: Result<T, Error>) -> Option<T> {
    answer.map_err(is_known).ok()
}

fn is_known(error: Error) {
    assert!(!error.message.is_empty() && error.message.len() < 5_000, "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn any_answer_is_taken_without_a_trap() {
    let work = lied_to(async |locks| {
        let [one, other] = managers(locks).await;
        for word in ["garbage", "swapped"] {
            survives(one, other, word, 60).await;
        }
        // The manager may believe for a while that its command was batched with a lie.
        soon("it works again", async { while one.try_acquire(mutex("good"), None).await.unwrap().is_err() {} }).await;
        let [one, other] = managers(locks).await;
        is_usable(one, other, "other").await;
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_traps_ends_the_instance_and_all_of_its_calls() {
    let work = lied_to(async |locks| {
        let [one, other] = managers(locks).await;
        let lease = ok(one.acquire(mutex("good"), None).await);
        let trapped = one.acquire(mutex("trap"), wait(600));
        let _ = tokio::join!(trapped, other.acquire(mutex("good"), wait(600)), lease.hold(600));
    });
    let error = format!("{:?}", work.await.unwrap_err());
    assert!(error.contains("unreachable"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_blocks_keeps_no_call_from_ending_and_no_holder_from_learning_of_its_loss() {
    let work = lied_to(async |locks| {
        let [one, other] = managers(locks).await;
        let lease = ok(one.acquire(mutex("good"), ttl(1_500)).await);
        let start = Instant::now();
        let tried = async {
            let error = refused(other.acquire(mutex("deaf"), wait(600)).await);
            assert!(matches!(error.kind, ErrorKind::Unreachable), "{error:?}");
            start.elapsed()
        };
        let held = async { (ok(lease.hold(60_000).await), start.elapsed()) };
        let (tried, (end, held)) = soon("both end", async { tokio::join!(tried, held) }).await;
        assert!(tried < Duration::from_millis(700), "{tried:?}");
        assert_eq!(end, HoldEnd::Lost(LossReason::Expired));
        assert!(held < Duration::from_millis(1_500), "{held:?}");
        soon("it goes on", async { while one.inspect("good").await.unwrap().is_err() {} }).await;
        is_usable(one, other, "next").await;
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_manager_that_is_dropped_while_its_provider_blocks_keeps_no_holder_from_learning_of_its_loss() {
    let work = lied_to(async |locks| {
        let [one, other, idle, third] = managers(locks).await;
        let lease = ok(one.acquire(mutex("good"), ttl(1_500)).await);
        let start = Instant::now();
        let dropping = async {
            let error = refused(other.acquire(mutex("deaf"), wait(100)).await);
            assert!(matches!(error.kind, ErrorKind::Unreachable), "{error:?}");
            other.drop().unwrap();
            idle.drop().unwrap();
        };
        let held = async { (ok(lease.hold(60_000).await), start.elapsed()) };
        let ((), (end, held)) = soon("both end", async { tokio::join!(dropping, held) }).await;
        assert_eq!(end, HoldEnd::Lost(LossReason::Expired));
        assert!(held < Duration::from_millis(1_500), "{held:?}");
        soon("it goes on", async { while one.inspect("good").await.unwrap().is_err() {} }).await;
        is_usable(one, third, "next").await;
    });
    work.await.unwrap();
}
