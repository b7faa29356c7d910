//! One instance, without other clients.

use std::time::Duration;

use leasehold_component_tests::with_component;
use leasehold_servers::Server;
use leasehold_wasmtime_host::{
    AcquireOptions, ErrorKind, ManagerOptions, Mode, RedisProvider, ReleaseOutcome, Topology,
};

use crate::common::*;
use crate::memory::{Memory, on_virtual_time};

#[tokio::test]
async fn the_first_lock() {
    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let manager = open(locks, &server).await;
        let lease = ok(manager.acquire(mutex("job"), long()).await);
        assert!(lease.is_held().await.unwrap());
        assert!((1..=600_000).contains(&lease.remaining_ms().await.unwrap()));
        assert_eq!((lease.name().await.unwrap().as_str(), lease.mode().await.unwrap()), ("job", Mode::Exclusive));
        assert!(ok(lease.verify().await));

        assert_eq!(ok(lease.release().await), ReleaseOutcome::Released);
        assert!(!is_there(&server, "job"));
        assert!(!lease.is_held().await.unwrap());
        assert_eq!(ok(lease.release().await), ReleaseOutcome::Released, "a second call answers what the first did");
        lease.drop().unwrap();

        let fences =
            [ok(manager.acquire(mutex("job"), long()).await), ok(manager.acquire(mutex("other"), long()).await)];
        assert!(fences[0].fence().await.unwrap() > lease_fence_floor(&server));
        manager.drop().unwrap();
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_a_word_a_lease_lasts_30_s_and_a_wait_60_s() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let (one, other) = (ok(locks.open(&server.url(), None).await), ok(locks.open(&server.url(), None).await));
        let lease = ok(one.acquire(mutex("job"), None).await);
        assert!((29_000..=30_000).contains(&lease.remaining_ms().await.unwrap()));
        ok(lease.extend(600_000).await);
        let error = refused(other.acquire(mutex("job"), None).await);
        assert!((60_000..60_010).contains(&error.waited_ms.unwrap()), "{error:?}");
    });
    work.await.unwrap();
}

/// The server's clock a minute ago, in µs. Fences follow this clock.
fn lease_fence_floor(server: &Server) -> u64 {
    let time = texts(&server.cli(&["TIME"]).unwrap());
    time[0].parse::<u64>().unwrap() * 1_000_000 - 60_000_000
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_held_is_busy_for_another_client_and_none_for_a_try() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let (one, other) = (open_quick(locks, &server).await, open_quick(locks, &server).await);
        let lease = ok(one.acquire(mutex("job"), long()).await);
        assert!(ok(other.try_acquire(mutex("job"), None).await).is_none());
        let error = refused(other.acquire(mutex("job"), wait(2_000)).await);
        assert!(matches!(error.kind, ErrorKind::Busy), "{error:?}");
        assert!(error.retryable && error.lock.as_deref() == Some("job"));
        assert!((2_000..2_010).contains(&error.waited_ms.unwrap()), "{error:?}");
        assert!((597_900..598_000).contains(&error.holder_remaining_ms.unwrap()), "{error:?}");
        ok(lease.release().await);
        assert!(ok(other.try_acquire(mutex("job"), None).await).is_some());
    });
    work.await.unwrap();
}

#[tokio::test]
async fn a_try_takes_no_notice_of_how_long_to_wait() {
    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let manager = open(locks, &server).await;
        for wait_ms in [0, 1, u64::MAX] {
            let lease = ok(manager.try_acquire(mutex("job"), wait(wait_ms)).await).unwrap();
            assert!(ok(manager.try_acquire(mutex("job"), wait(wait_ms)).await).is_none());
            ok(lease.release().await);
        }
    });
    work.await.unwrap();
}

#[tokio::test]
async fn a_name_may_have_any_character_and_its_lock_is_handed_over() {
    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let (one, other) = (open(locks, &server).await, open(locks, &server).await);
        let longest = "n".repeat(64 << 10);
        for name in [" ", "a b", "\r\n*1", "\0", "ü🔒", "{a}b", "\"", longest.as_str()] {
            let lease = ok(one.acquire(mutex(name), long()).await);
            assert_eq!(lease.name().await.unwrap(), name);
            let releasing = async {
                while ok(one.inspect(name).await).waiters.is_empty() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                ok(lease.release().await);
            };
            let (next, ()) =
                soon("it is handed over", async { tokio::join!(other.acquire(mutex(name), long()), releasing) }).await;
            ok(ok(next).release().await);
        }
    });
    work.await.unwrap();
}

#[tokio::test]
async fn a_waiter_gets_the_lock_when_it_is_released() {
    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let (one, other) = (open(locks, &server).await, open(locks, &server).await);
        let lease = ok(one.acquire(mutex("job"), long()).await);
        let waiting = other.acquire(mutex("job"), long());
        let releasing = async {
            until("somebody waits", || waiters(&server, "job") == 1).await;
            ok(lease.release().await);
            lease.fence().await.unwrap()
        };
        let (next, fence) = tokio::join!(waiting, releasing);
        assert!(ok(next).fence().await.unwrap() > fence);
    });
    work.await.unwrap();
}

#[tokio::test]
async fn a_lease_that_is_dropped_is_released_in_the_background() {
    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let manager = open(locks, &server).await;
        let lease = ok(manager.acquire(mutex("job"), long()).await);
        assert!(is_there(&server, "job"));
        lease.drop().unwrap();
        until("the lock is free", || !is_there(&server, "job")).await;
    });
    work.await.unwrap();
}

#[tokio::test]
async fn a_manager_that_is_dropped_with_its_last_lease_leaves_nothing_on_the_server() {
    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let manager = open(locks, &server).await;
        let lease = ok(manager.acquire(mutex("job"), long()).await);
        manager.drop().unwrap();
        assert!(ok(lease.verify().await), "a lease outlives its manager");
        lease.drop().unwrap();
        until("the lock is free", || !is_there(&server, "job")).await;
        until("its connection is closed", || {
            let list = server.cli(&["CLIENT", "LIST"]).unwrap();
            list.text().unwrap_or_default().lines().count() == 1
        })
        .await;
    });
    work.await.unwrap();
}

#[tokio::test]
async fn a_nested_hold_keeps_the_lock_until_the_last_is_given_back() {
    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let manager = open(locks, &server).await;
        let outer = ok(manager.acquire(mutex("job"), long()).await);
        let before = scripts_run(&server);
        let inner = ok(outer.nested().await);
        assert_eq!(inner.fence().await.unwrap(), outer.fence().await.unwrap());
        assert_eq!(ok(outer.release().await), ReleaseOutcome::StillHeld);
        assert_eq!(scripts_run(&server), before, "counted without the server");
        assert!(inner.is_held().await.unwrap() && !outer.is_held().await.unwrap());
        assert!(matches!(refused(outer.nested().await).kind, ErrorKind::NotHeld));
        assert_eq!(ok(inner.release().await), ReleaseOutcome::Released);
    });
    work.await.unwrap();
}

#[tokio::test]
async fn inspect_tells_who_holds_and_who_waits() {
    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let (one, other) = (open(locks, &server).await, open(locks, &server).await);
        assert!(ok(one.inspect("job").await).holders.is_empty());
        let lease = ok(one.acquire(mutex("job"), long()).await);
        let looking = async {
            until("somebody waits", || waiters(&server, "job") == 1).await;
            let seen = ok(one.inspect("job").await);
            let [holder] = seen.holders.as_slice() else { panic!("{seen:?}") };
            assert!(
                holder.mode == Mode::Exclusive && !holder.foreign && holder.remaining_ms > Some(20_000),
                "{seen:?}"
            );
            assert!(seen.last_fence >= Some(lease.fence().await.unwrap()));
            assert_eq!(seen.waiters.len(), 1);
            ok(lease.release().await);
        };
        let (next, ()) = tokio::join!(other.acquire(mutex("job"), long()), looking);
        ok(next);
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn inspect_and_busy_tell_the_labels_and_the_times() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let named =
            |label: &str| Some(ManagerOptions { label: Some(label.to_owned()), ..quick().unwrap_or_else(|| panic!()) });
        let one = ok(locks.open(&server.url(), named("nightly")).await);
        let other = ok(locks.open(&server.url(), named("by hand")).await);
        let lease = ok(one.acquire(mutex("job"), ttl(3_000)).await);
        let holding = async {
            ok(lease.hold(60_000).await);
        };
        let looking = async {
            until("the holder has renewed", || server.keys("leasehold:client:") == 1).await;
            let seen = ok(other.inspect("job").await);
            assert_eq!(seen.holders[0].label.as_deref(), Some("nightly"));
            assert!(seen.holders[0].held_ms >= Some(200), "{seen:?}");
            let error = refused(other.acquire(mutex("job"), wait(3_000)).await);
            let holder = error.holder.as_ref().unwrap_or_else(|| panic!("{error:?}"));
            assert_eq!(holder.label.as_deref(), Some("nightly"));
            assert!(holder.held_ms >= Some(500) && error.message.contains("; held by nightly for "), "{error:?}");
            ok(lease.release().await);
        };
        tokio::join!(holding, looking);
        let bad = refused(locks.open(&server.url(), named(&"x".repeat(1 << 20))).await);
        assert!(matches!(&bad.kind, ErrorKind::InvalidOption(field) if field == "label"), "{bad:?}");
    });
    work.await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_is_refused_before_anything_is_sent() {
    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let options = ManagerOptions { claim_window_ms: Some(1), ..quick().unwrap() };
        let error = refused(locks.open(&server.url(), Some(options)).await);
        assert!(matches!(&error.kind, ErrorKind::InvalidOption(field) if field == "claim-window-ms"), "{error:?}");

        let manager = open(locks, &server).await;
        let before = scripts_run(&server);
        let none = AcquireOptions { ttl_ms: None, wait_ms: None, max_hold_ms: None, max_waiters: None };
        let cases = [
            ("job", AcquireOptions { ttl_ms: Some(1), ..none }, "ttl-ms"),
            ("job", AcquireOptions { wait_ms: Some(0), ..none }, "wait-ms"),
            ("job", AcquireOptions { wait_ms: Some(600_001), ..none }, "wait-ms"),
            ("job", AcquireOptions { max_hold_ms: Some(1), ..none }, "max-hold-ms"),
            ("", none, "name"),
            ("a}b", none, "name"),
        ];
        for (name, options, wrong) in cases {
            let error = refused(manager.acquire(mutex(name), Some(options)).await);
            assert!(matches!(&error.kind, ErrorKind::InvalidOption(field) if field == wrong), "{error:?}");
            assert!(!error.retryable);
        }
        assert_eq!(scripts_run(&server), before);

        let lease = ok(manager.acquire(mutex("job"), long()).await);
        for time in [0, 600_001, u64::MAX] {
            let error = refused(lease.hold(time).await);
            assert!(matches!(&error.kind, ErrorKind::InvalidOption(field) if field == "for-ms"), "{error:?}");
        }
        let error = refused(lease.extend(u64::MAX).await);
        assert!(matches!(&error.kind, ErrorKind::InvalidOption(field) if field == "ttl-ms"), "{error:?}");
    });
    work.await.unwrap();
}

#[tokio::test]
async fn a_topology_that_cannot_be_had_here_is_unsupported() {
    let work = with_component(RedisProvider, async |locks| {
        let error = refused(locks.open_at(Topology::Cluster(vec!["redis://127.0.0.1/".into()]), None).await);
        assert!(matches!(error.kind, ErrorKind::Unsupported), "{error:?}");
    });
    work.await.unwrap();
}

#[tokio::test]
async fn a_wrong_password_is_auth_and_nobody_at_the_address_unreachable() {
    let server = Server::builder().password("right").start().unwrap();
    let mut gone = Server::start().unwrap();
    gone.stop();
    let work = with_component(RedisProvider, async |locks| {
        let url = format!("redis://:wrong@127.0.0.1:{}/", server.port());
        let error = refused(locks.open(&url, patient()).await);
        assert!(matches!(error.kind, ErrorKind::Auth) && !error.retryable, "{error:?}");
        let error = refused(locks.open(&gone.url(), patient()).await);
        assert!(matches!(error.kind, ErrorKind::Unreachable) && error.retryable, "{error:?}");
        assert!(error.waited_ms < Some(60_000), "what was refused at once was not waited for: {error:?}");
        let error = refused(locks.open("no address", quick()).await);
        assert!(matches!(error.kind, ErrorKind::Unsupported) && !error.retryable, "{error:?}");
        ok(ok(locks.open(&server.url(), patient()).await).acquire(mutex("job"), long()).await);
    });
    work.await.unwrap();
}

#[tokio::test]
async fn another_kind_of_value_under_the_name_is_wrong_kind_and_is_left_alone() {
    let server = Server::start().unwrap();
    server.cli(&["HSET", "job", "field", "1"]).unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let manager = open(locks, &server).await;
        let error = refused(manager.acquire(mutex("job"), long()).await);
        assert!(matches!(error.kind, ErrorKind::WrongKind), "{error:?}");
        assert_eq!(number(&server, &["HLEN", "job"]), 1);
    });
    work.await.unwrap();
}

#[tokio::test]
async fn many_calls_of_one_instance_share_one_engine_and_the_lock_is_handed_over_inside() {
    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let manager = open(locks, &server).await;
        let before = scripts_run(&server);
        let mut last = 0;
        let held = std::cell::RefCell::new(&mut last);
        let cycles = (0..200).map(async |_| {
            let lease = ok(manager.acquire(mutex("job"), long()).await);
            let fence = lease.fence().await.unwrap();
            let before = std::mem::replace(&mut **held.borrow_mut(), fence);
            assert!(before < fence, "one at a time, in order: {before} then {fence}");
            tokio::time::sleep(Duration::from_millis(1)).await;
            ok(lease.release().await);
            lease.drop().unwrap();
        });
        futures_util::future::join_all(cycles).await;
        let sent = scripts_run(&server) - before;
        assert!((2..40).contains(&sent), "{sent} commands for 200 cycles");
    });
    work.await.unwrap();
}
