//! The limits of one instance, and the answer to a call over a limit.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold_component_tests::{with_component, with_tcp_component};
use leasehold_servers::Server;
use leasehold_wasmtime_host::{
    AcquireOptions, Error, ErrorKind, HoldEnd, Lease, Locks, Manager, RedisProvider, ReleaseOutcome,
};

use crate::common::*;

/// How many calls an instance accepts at a time, and how many of them can only be releases.
const CALLS: usize = 4_096;
const FOR_RELEASES: usize = 1_024;
/// The most handles to leases, and the most managers.
const LEASES: usize = 16_384;
const MANAGERS: usize = 128;

fn is_overloaded(error: &Error) -> bool {
    matches!(&error.kind, ErrorKind::Other(code) if code == "overloaded") && error.retryable
}

/// Whether a call was within the limit.
fn is_taken<T>(answer: wasmtime::Result<Result<T, Error>>) -> bool {
    match answer.unwrap() {
        Ok(_) => true,
        Err(error) if is_overloaded(&error) => false,
        Err(error) => panic!("{error:?}"),
    }
}

/// Acquires this many locks at once, one for each name.
async fn take<'a>(manager: Manager<'a>, calls: usize) -> Vec<Result<Lease<'a>, Error>> {
    // A long wait, because machines that run tests are busy.
    let options =
        Some(AcquireOptions { ttl_ms: Some(600_000), wait_ms: Some(600_000), max_hold_ms: None, max_waiters: None });
    let calls = (0..calls).map(async |number| manager.acquire(mutex(&format!("job-{number}")), options).await.unwrap());
    join_all(calls).await
}

/// Makes more calls than an instance accepts. It refuses the calls over the limit, and the
/// locks of the other calls can be released.
async fn too_many_calls(locks: Locks<'_>, server: &Server) {
    let manager = open(locks, server).await;
    let answers = take(manager, 10_000).await;
    let refused: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    assert!(
        refused.iter().all(|error| is_overloaded(error)),
        "{:?}",
        refused.iter().find(|error| !is_overloaded(error))
    );
    let leases: Vec<_> = answers.iter().flatten().collect();
    assert!(leases.len() >= CALLS - FOR_RELEASES, "{} were granted", leases.len());
    for lease in leases {
        lease.drop().unwrap();
    }
    until("all are given back", || number(server, &["EXISTS", "job-0", "job-1", "job-3071"]) == 0).await;
    ok(ok(manager.acquire(mutex("job-0"), long()).await).release().await);
}

#[tokio::test]
async fn ten_thousand_calls_at_once_end_and_those_that_are_too_many_are_refused() {
    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| too_many_calls(locks, &server).await);
    work.await.unwrap();
}

#[tokio::test]
async fn ten_thousand_calls_at_once_do_no_harm_to_the_component_that_connects_by_itself() {
    let server = Server::start().unwrap();
    let work = with_tcp_component(async |locks| too_many_calls(locks, &server).await);
    work.await.unwrap();
}

#[tokio::test]
async fn callers_that_wait_do_not_keep_the_holder_from_giving_back() {
    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let manager = open(locks, &server).await;
        let lease = ok(manager.acquire(mutex("job"), ttl(600_000)).await);
        let held = ok(manager.acquire(mutex("held"), ttl(600_000)).await);
        let waits = join_all((0..CALLS).map(async |_| {
            let lease = manager.acquire(mutex("job"), ttl(600_000)).await.unwrap();
            lease.map(|lease| lease.drop().unwrap())
        }));
        let meanwhile = async {
            while is_taken(manager.inspect("other").await) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            for error in [
                refused(manager.acquire(mutex("other"), long()).await),
                refused(manager.try_acquire(mutex("other"), None).await),
                refused(manager.inspect("other").await),
                refused(held.hold(1_000).await),
                refused(held.verify().await),
            ] {
                assert!(is_overloaded(&error), "{error:?}");
            }
            assert_eq!(ok(held.release().await), ReleaseOutcome::Released);
            assert_eq!(ok(lease.release().await), ReleaseOutcome::Released);
        };
        let (waits, ()) = tokio::join!(waits, meanwhile);
        assert_eq!(waits.iter().filter(|wait| wait.as_ref().is_err_and(is_overloaded)).count(), FOR_RELEASES);
        assert_eq!(waits.iter().filter(|wait| wait.is_ok()).count(), CALLS - FOR_RELEASES);
        let lease = ok(manager.acquire(mutex("job"), long()).await);
        assert_eq!(ok(lease.hold(50).await), HoldEnd::Held);
    });
    work.await.unwrap();
}

#[tokio::test]
async fn leases_that_are_too_many_are_refused_until_some_are_dropped() {
    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let manager = open(locks, &server).await;
        let lease = ok(manager.acquire(mutex("job"), ttl(600_000)).await);
        let mut nested = Vec::new();
        while let Ok(lease) = lease.nested().await.unwrap() {
            nested.push(lease);
        }
        assert_eq!(nested.len() + 1, LEASES);
        for error in [
            refused(lease.nested().await),
            refused(manager.acquire(mutex("other"), long()).await),
            refused(manager.try_acquire(mutex("other"), None).await),
        ] {
            assert!(is_overloaded(&error), "{error:?}");
        }
        nested.pop().unwrap().drop().unwrap();
        ok(manager.acquire(mutex("other"), long()).await);
    });
    work.await.unwrap();
}

#[tokio::test]
async fn managers_that_are_too_many_are_refused_until_some_have_ended() {
    let server = Server::start().unwrap();
    let work = with_tcp_component(async |locks| {
        let managers = join_all((0..MANAGERS).map(async |_| open(locks, &server).await)).await;
        let error = refused(locks.open(&server.url(), patient()).await);
        assert!(is_overloaded(&error), "{error:?}");
        // All managers work at the same time.
        let turns = join_all(managers.iter().enumerate().map(async |(number, manager)| {
            let lease = ok(manager.acquire(mutex(&format!("job-{number}")), long()).await);
            ok(lease.release().await);
            lease.drop().unwrap();
        }));
        turns.await;
        managers[0].drop().unwrap();
        // The manager ends in the background.
        let again = async {
            while !is_taken(locks.open(&server.url(), patient()).await) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        soon("there is room for another one", again).await;
    });
    work.await.unwrap();
}
