//! Locks over several real servers, independent of each other.

use std::time::Duration;

use leasehold_component_tests::{with_component, with_tcp_component};
use leasehold_servers::Server;
use leasehold_wasmtime_host::{
    Error, ErrorKind, HoldEnd, Locks, LossReason, Manager, ManagerOptions, Multi, RedisProvider, ReleaseOutcome,
    Semaphore, Target, Topology, VoteAnswer,
};
use tokio::time::Instant;

use crate::common::*;
use crate::memory::{Memories, Memory, on_virtual_time};

const TTL: u64 = 2_500;

fn three() -> [Server; 3] {
    std::array::from_fn(|_| Server::start().unwrap())
}

fn three_in_memory() -> [Memory; 3] {
    std::array::from_fn(|_| Memory::start())
}

fn urls(servers: &[impl Place]) -> Vec<String> {
    servers.iter().map(Place::url).collect()
}

/// A manager on a quorum of servers in memory.
async fn open_at<'a>(locks: Locks<'a>, servers: &[Memory]) -> Manager<'a> {
    ok(locks.open_at(Topology::Quorum(urls(servers)), quick()).await)
}

async fn not_opened(locks: Locks<'_>, urls: &[String], options: Option<ManagerOptions>) -> Error {
    refused(locks.open_at(Topology::Quorum(urls.to_vec()), options).await)
}

/// How many of the servers have a lock's key.
fn holding(servers: &[impl Place], name: &str) -> usize {
    servers.iter().filter(|server| is_there(*server, name)).count()
}

fn answers(error: &Error) -> Vec<&VoteAnswer> {
    error.votes.iter().map(|vote| &vote.answer).collect()
}

fn failed(code: &str) -> VoteAnswer {
    VoteAnswer::Failed(code.to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_majority_holds_the_lock_and_fences_rise() {
    let servers = three_in_memory();
    let work = on_virtual_time(Memories(servers.to_vec()), async |locks| {
        let (one, other) = (open_at(locks, &servers).await, open_at(locks, &servers).await);
        let lease = ok(one.acquire(mutex("job"), ttl(TTL)).await);
        assert!(holding(&servers, "job") >= 2 && lease.is_held().await.unwrap());
        assert!(ok(other.try_acquire(mutex("job"), None).await).is_none());
        let error = refused(other.acquire(mutex("job"), wait(800)).await);
        assert!(matches!(error.kind, ErrorKind::Busy) && error.retryable, "{error:?}");
        assert!(answers(&error).into_iter().filter(|answer| **answer == failed("busy")).count() >= 2, "{error:?}");
        assert_eq!(ok(one.inspect("job").await).holders.len(), 1);

        assert_eq!(ok(lease.hold(2 * TTL).await), HoldEnd::Held, "it is renewed");
        ok(lease.extend(10_000).await);
        assert!(ok(lease.verify().await) && lease.remaining_ms().await.unwrap() > 8_000);
        let nested = ok(lease.nested().await);
        assert_eq!(ok(lease.release().await), ReleaseOutcome::StillHeld);
        let next = other.acquire(mutex("job"), ttl(TTL));
        let (next, released) = tokio::join!(next, nested.release());
        assert_eq!(ok(released), ReleaseOutcome::Released);
        let next = ok(next);
        assert!(next.fence().await.unwrap() > lease.fence().await.unwrap());
        assert_eq!(ok(other.force_release("job").await), 1);
        assert!(!ok(next.verify().await));
        assert_eq!(ok(next.release().await), ReleaseOutcome::AlreadyExpired);
        until("all are free", || holding(&servers, "job") == 0).await;
    });
    work.await.unwrap();
}

#[tokio::test]
async fn real_servers_grant_renew_hand_over_and_free() {
    let mut servers = three();
    let work = with_component(RedisProvider, async |locks| {
        let open = async || ok(locks.open_at(Topology::Quorum(urls(&servers)), patient()).await);
        let (one, other) = (open().await, open().await);
        let lease = ok(one.acquire(mutex("job"), long()).await);
        // Otherwise the other client could be faster on one of them, and not queue on the first one.
        until("all have the lease", || holding(&servers, "job") == 3).await;
        assert!(ok(other.try_acquire(mutex("job"), None).await).is_none());
        ok(lease.extend(1_200_000).await);
        assert!(ok(lease.verify().await));
        let release = async {
            until("the other client is in the queue", || waiters(&servers[0], "job") == 1).await;
            ok(lease.release().await)
        };
        let (next, released) = tokio::join!(other.acquire(mutex("job"), long()), release);
        let next = ok(next);
        assert!(next.fence().await.unwrap() > lease.fence().await.unwrap() && released == ReleaseOutcome::Released);
        assert_eq!(ok(next.release().await), ReleaseOutcome::Released);
        // Here no lease is held: with these timeouts, a release would wait for two minutes for a server that stops meanwhile.
        servers[2].stop();
        let readers = [ok(one.acquire(read("page"), long()).await), ok(other.acquire(read("page"), long()).await)];
        assert!(ok(other.try_acquire(write("page"), None).await).is_none());
        for reader in readers {
            ok(reader.release().await);
        }
        for name in ["job", "last", "page"] {
            until("all are free", || holding(&servers[..2], name) == 0).await;
        }
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_nobody_holds_ends_on_every_server() {
    let servers = three_in_memory();
    let work = on_virtual_time(Memories(servers.to_vec()), async |locks| {
        let manager = open_at(locks, &servers).await;
        let lease = ok(manager.acquire(mutex("job"), ttl(TTL)).await);
        let granted = Instant::now();
        until("it is over", || holding(&servers, "job") == 0).await;
        assert!(granted.elapsed() <= Duration::from_millis(TTL), "after {:?}", granted.elapsed());
        assert!(!lease.is_held().await.unwrap());
        let end = ok(soon("the end is told", lease.hold(10_000)).await);
        assert_eq!(end, HoldEnd::Lost(LossReason::Expired));
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_dead_minority_is_done_without_and_joins_when_it_is_back() {
    let servers = three_in_memory();
    servers[0].stop();
    let work = on_virtual_time(Memories(servers.to_vec()), async |locks| {
        let manager = open_at(locks, &servers).await;
        let lease = ok(manager.acquire(mutex("job"), ttl(TTL)).await);
        assert_eq!(ok(lease.hold(2 * TTL).await), HoldEnd::Held, "renewed by the other two");
        assert!(ok(lease.verify().await));
        // This server was down when the manager was opened.
        servers[0].restart();
        let joining = async {
            until("the lease is there as well", || is_there(&servers[0], "job")).await;
            ok(lease.release().await)
        };
        let (end, outcome) = tokio::join!(lease.hold(60_000), joining);
        assert_eq!((ok(end), outcome), (HoldEnd::Released, ReleaseOutcome::Released));
        until("all are free", || holding(&servers, "job") == 0).await;
        // Then another server dies.
        servers[2].stop();
        let lease = ok(manager.acquire(mutex("job"), ttl(TTL)).await);
        assert_eq!(ok(lease.hold(TTL).await), HoldEnd::Held);
        assert_eq!(ok(lease.release().await), ReleaseOutcome::Released);
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_dead_majority_ends_the_lease_in_time_and_each_cause_is_told() {
    let servers = three_in_memory();
    let work = on_virtual_time(Memories(servers.to_vec()), async |locks| {
        let manager = open_at(locks, &servers).await;
        let lease = ok(manager.acquire(mutex("job"), ttl(TTL)).await);
        servers[0].stop();
        servers[1].stop();
        let start = Instant::now();
        let end = ok(soon("the loss is told", lease.hold(60_000)).await);
        assert_eq!(end, HoldEnd::Lost(LossReason::Expired));
        assert!(start.elapsed() < Duration::from_millis(TTL), "after {:?}", start.elapsed());

        let error = refused(manager.acquire(mutex("job"), wait(3_000)).await);
        assert!(matches!(error.kind, ErrorKind::Unreachable) && error.retryable, "{error:?}");
        assert_eq!(answers(&error)[..2], [&failed("unreachable"), &failed("unreachable")], "{error:?}");
        assert_eq!(error.votes[0].server, servers[0].url().trim_start_matches("redis://"));
        assert!(error.message.contains("2 of 3 unreachable") && !error.votes[0].problem.is_empty(), "{error:?}");

        let error = not_opened(locks, &urls(&servers), quick()).await;
        assert!(matches!(error.kind, ErrorKind::Unreachable), "{error:?}");
        assert_eq!(answers(&error), [&failed("unreachable"), &failed("unreachable"), &VoteAnswer::Agreed], "{error:?}");
        servers[0].restart();
        servers[1].restart();
        ok(ok(manager.acquire(mutex("job"), None).await).release().await);
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_slow_server_slows_nobody_down() {
    let servers = three_in_memory();
    let work = on_virtual_time(Memories(servers.to_vec()), async |locks| {
        let manager = open_at(locks, &servers).await;
        ok(ok(manager.acquire(mutex("job"), None).await).release().await);
        servers[1].pause();
        let start = Instant::now();
        let lease = ok(manager.acquire(mutex("job"), None).await);
        assert_eq!(ok(lease.release().await), ReleaseOutcome::Released);
        assert!(start.elapsed() < Duration::from_millis(50), "took {:?}", start.elapsed());
        servers[1].resume();
        until("its part is given back", || !is_there(&servers[1], "job")).await;
    });
    work.await.unwrap();
}

#[tokio::test]
async fn a_server_that_does_not_let_us_in_is_told_from_one_that_is_away() {
    let mut servers = three();
    servers[2].stop();
    let closed = Server::builder().password("right").start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let wrong = format!("redis://:wrong@127.0.0.1:{}/", closed.port());
        let mut given = urls(&servers);
        given[1] = wrong.clone();
        let error = not_opened(locks, &given, patient()).await;
        assert!(matches!(error.kind, ErrorKind::Unreachable), "{error:?}");
        assert_eq!(answers(&error), [&VoteAnswer::Agreed, &failed("auth"), &failed("unreachable")], "{error:?}");
        assert_eq!(error.votes[1].server, format!("127.0.0.1:{}", closed.port()));
        assert!(!format!("{error:?}").contains("wrong@"), "{error:?}");
        // A retry doesn't help if a majority refuses.
        given[2] = wrong.replace("127.0.0.1", "localhost");
        let error = not_opened(locks, &given, patient()).await;
        assert!(matches!(error.kind, ErrorKind::Auth) && !error.retryable, "{error:?}");
        given[2] = "no address".to_owned();
        let error = not_opened(locks, &given, patient()).await;
        assert!(matches!(error.kind, ErrorKind::Unsupported) && !error.retryable, "{error:?}");
    });
    work.await.unwrap();
}

#[tokio::test]
async fn servers_that_are_too_few_even_in_number_or_the_same_are_refused() {
    let servers: [Server; 4] = std::array::from_fn(|_| Server::start().unwrap());
    let urls = urls(&servers);
    let work = with_component(RedisProvider, async |locks| {
        let other = |from: &str, to: &str| vec![urls[0].clone(), urls[1].clone(), urls[0].replace(from, to)];
        let given = [
            urls[..0].to_vec(),
            urls[..1].to_vec(),
            urls[..2].to_vec(),
            urls[..4].to_vec(),
            other("", ""),
            other("redis://", "redis://:@"),
            // The two addresses differ. Only `INFO` shows that they lead to one server.
            other("127.0.0.1", "localhost"),
        ];
        for given in given {
            let error = not_opened(locks, &given, patient()).await;
            assert!(
                matches!(&error.kind, ErrorKind::InvalidOption(field) if field == "servers"),
                "{given:?}: {error:?}"
            );
        }
        let wrong = patient().map(|patient| ManagerOptions { node_timeout_ms: Some(1), ..patient });
        let error = refused(locks.open_at(Topology::Quorum(urls[..3].to_vec()), wrong).await);
        assert!(matches!(&error.kind, ErrorKind::InvalidOption(field) if field == "node-timeout-ms"), "{error:?}");
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn clients_wait_in_a_queue_on_the_first_server() {
    let servers = three_in_memory();
    let work = on_virtual_time(Memories(servers.to_vec()), async |locks| {
        let (one, other) = (open_at(locks, &servers).await, open_at(locks, &servers).await);
        let lease = ok(one.acquire(mutex("job"), ttl(TTL)).await);
        let release = async {
            until("the other client is in the queue", || waiters(&servers[0], "job") == 1).await;
            assert_eq!(waiters(&servers[1], "job"), 0);
            ok(lease.release().await)
        };
        let (next, released) = tokio::join!(other.acquire(mutex("job"), wait(10_000)), release);
        assert!(ok(next).is_held().await.unwrap() && released == ReleaseOutcome::Released);
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn several_names_are_one_lease() {
    let servers = three_in_memory();
    let work = on_virtual_time(Memories(servers.to_vec()), async |locks| {
        let manager = open_at(locks, &servers).await;
        // In one slot of a cluster, so one server would take both with one script.
        let both = || multi(&["{account}:2", "{account}:1"]);
        servers[0].stop();
        let lease = ok(manager.acquire(both(), ttl(TTL)).await);
        assert!(ok(manager.try_acquire(mutex("{account}:1"), None).await).is_none());
        assert_eq!(ok(lease.hold(2 * TTL).await), HoldEnd::Held, "both are renewed");
        assert_eq!(ok(lease.release().await), ReleaseOutcome::Released);
        let next = ok(manager.acquire(both(), ttl(TTL)).await);
        servers[1].cli(&["DEL", "{account}:1"]).unwrap();
        assert!(matches!(ok(next.hold(2 * TTL).await), HoldEnd::Lost(_)));
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn readers_hold_it_together_and_a_writer_has_its_turn() {
    let servers = three_in_memory();
    let work = on_virtual_time(Memories(servers.to_vec()), async |locks| {
        let (one, other) = (open_at(locks, &servers).await, open_at(locks, &servers).await);
        let third = open_at(locks, &servers).await;
        let first = ok(one.acquire(read("job"), ttl(TTL)).await);
        let second = ok(other.acquire(read("job"), ttl(TTL)).await);
        assert!(ok(other.try_acquire(write("job"), None).await).is_none());
        let release = async {
            until("the writer is in the queue", || waiters(&servers[0], "job") == 1).await;
            assert!(ok(third.try_acquire(read("job"), None).await).is_none(), "a reader does not pass it");
            let (one, two) = tokio::join!(first.hold(2 * TTL), second.hold(2 * TTL));
            assert_eq!([ok(one), ok(two)], [HoldEnd::Held; 2], "both are renewed");
            [ok(first.release().await), ok(second.release().await)]
        };
        let (writer, released) = tokio::join!(one.acquire(write("job"), wait(20_000)), release);
        assert_eq!(released, [ReleaseOutcome::Released; 2]);
        let fence = ok(writer).fence().await.unwrap();
        assert!(fence > first.fence().await.unwrap() && fence > second.fence().await.unwrap());
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn semaphores_reentrant_locks_and_conversions_are_refused() {
    let servers = three_in_memory();
    let work = on_virtual_time(Memories(servers.to_vec()), async |locks| {
        let manager = open_at(locks, &servers).await;
        let at_once = Multi { parts: mutexes(&["a", "b"]), one_script: true };
        let permits = Semaphore { name: "job".to_owned(), limit: 3, permits: 1, per_ms: None };
        let rate = Semaphore { per_ms: Some(1_000), ..permits.clone() };
        for target in [reentrant("job", 1), Target::Semaphore(permits), Target::Semaphore(rate), Target::Multi(at_once)]
        {
            let error = refused(manager.acquire(target, None).await);
            assert!(matches!(error.kind, ErrorKind::Unsupported) && !error.retryable, "{error:?}");
        }
        let lease = ok(manager.acquire(write("job"), None).await);
        assert!(matches!(refused(lease.downgrade().await).kind, ErrorKind::Unsupported));
        ok(lease.release().await);
    });
    work.await.unwrap();
}

#[tokio::test]
async fn the_component_that_connects_by_itself_connects_to_each_and_leaves_none() {
    let servers = three();
    let work = with_tcp_component(async |locks| {
        let manager = ok(locks.open_at(Topology::Quorum(urls(&servers)), patient()).await);
        let lease = ok(manager.acquire(mutex("job"), long()).await);
        assert!(ok(lease.verify().await));
        until("all have it", || holding(&servers, "job") == 3).await;
        assert_eq!(ok(lease.release().await), ReleaseOutcome::Released);
        lease.drop().unwrap();
        manager.drop().unwrap();
        for server in &servers {
            until("its connection is closed", || {
                let list = server.cli(&["CLIENT", "LIST"]).unwrap();
                list.text().unwrap_or_default().lines().count() == 1
            })
            .await;
        }
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_server_under_two_addresses_has_one_vote_even_if_it_was_away_at_the_start() {
    let mut servers: Vec<Memory> = (0..4).map(|_| Memory::start()).collect();
    // The keys of the first address are not those of the second one, so no acquire fails because of them.
    servers.push(servers[3].under_another_address());
    servers[3..].iter().for_each(Memory::stop);
    let work = on_virtual_time(Memories(servers.clone()), async |locks| {
        let manager = open_at(locks, &servers).await;
        servers[3..].iter().for_each(Memory::restart);
        ok(ok(manager.acquire(mutex("job"), None).await).release().await);
        servers[0].stop();
        // A majority of the five addresses: two other servers, and one vote of this server.
        let voting = async {
            loop {
                match manager.try_acquire(mutex("job"), None).await {
                    Ok(Ok(Some(lease))) => return lease,
                    _ => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        };
        ok(soon("it has a vote", voting).await.release().await);
        servers[1].stop();
        let error = refused(manager.try_acquire(mutex("job"), None).await);
        assert!(matches!(error.kind, ErrorKind::Unreachable), "{error:?}");
        assert_eq!(answers(&error).into_iter().filter(|answer| **answer == VoteAnswer::Agreed).count(), 2, "{error:?}");
    });
    work.await.unwrap();
}
