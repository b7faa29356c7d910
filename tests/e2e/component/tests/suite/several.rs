//! Several names as one lock.

use futures_util::future::join_all;
use leasehold_component_tests::{with_component, with_tcp_component};
use leasehold_servers::Server;
use leasehold_wasmtime_host::{ErrorKind, HoldEnd, LossReason, Multi, RedisProvider, ReleaseOutcome, Target};

use crate::common::*;
use crate::memory::{Memory, on_virtual_time};

const NAMES: [&str; 2] = ["{order:7}:stock", "{order:7}:invoice"];

#[tokio::test]
async fn several_names_are_one_lease_with_a_fence_for_each() {
    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let (one, other) = (open(locks, &server).await, open(locks, &server).await);
        let scripts = scripts_run(&server);
        let lease = ok(one.acquire(multi(&NAMES), long()).await);
        assert!(scripts_run(&server) <= scripts + 2, "one script, and its text the first time");
        let fences = lease.fences().await.unwrap();
        assert_eq!(fences.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), NAMES, "as they were asked for");
        assert_eq!(lease.fence().await.unwrap(), fences.iter().map(|(_, fence)| *fence).max().unwrap());
        assert_eq!(lease.name().await.unwrap(), NAMES.join(", "));
        assert!(NAMES.iter().all(|name| is_there(&server, name)));
        assert!(ok(other.try_acquire(mutex(NAMES[1]), None).await).is_none());

        ok(lease.extend(1_200_000).await);
        assert!(ok(lease.verify().await) && lease.remaining_ms().await.unwrap() > 600_000);
        assert!(matches!(refused(lease.downgrade().await).kind, ErrorKind::Unsupported));
        let nested = ok(lease.nested().await);
        assert_eq!(nested.fences().await.unwrap(), fences);
        assert_eq!(ok(lease.release().await), ReleaseOutcome::StillHeld);
        assert_eq!(ok(nested.release().await), ReleaseOutcome::Released);
        assert!(!NAMES.iter().any(|name| is_there(&server, name)));

        let single = ok(one.acquire(mutex("job"), long()).await);
        assert_eq!(single.fences().await.unwrap(), [("job".to_owned(), single.fence().await.unwrap())]);
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_does_not_get_all_keeps_none() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let (one, other) = (open_quick(locks, &server).await, open_quick(locks, &server).await);
        // First in several slots of a cluster, then in one.
        for names in [["a", "b"], NAMES] {
            let second = ok(other.acquire(mutex(names[1]), long()).await);
            assert!(ok(one.try_acquire(multi(&names), None).await).is_none());
            let error = refused(one.acquire(multi(&names), wait(2_000)).await);
            assert!(matches!(error.kind, ErrorKind::Busy) && error.retryable, "{error:?}");
            assert_eq!(error.lock.as_deref(), Some(names.join(", ").as_str()));
            assert!(error.waited_ms >= Some(2_000), "{error:?}");
            until("the first is given back", || !is_there(&server, names[0])).await;
            ok(second.release().await);
            let both = ok(one.acquire(multi(&names), long()).await);
            // Dropping the lease releases all names.
            both.drop().unwrap();
            until("both are free", || !names.iter().any(|name| is_there(&server, name))).await;
        }
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_one_name_ends_the_lease_and_frees_the_others() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let manager = open_quick(locks, &server).await;
        let lease = ok(manager.acquire(multi(&["a", "b", "c"]), ttl(3_000)).await);
        let losing = async {
            server.cli(&["DEL", "b"]).unwrap();
        };
        let (end, ()) = tokio::join!(soon("the holder is told", lease.hold(60_000)), losing);
        assert_eq!(ok(end), HoldEnd::Lost(LossReason::Gone));
        until("the others are free", || !is_there(&server, "a") && !is_there(&server, "c")).await;
        assert!(!lease.is_held().await.unwrap() && !ok(lease.verify().await));
        assert_eq!(ok(lease.release().await), ReleaseOutcome::AlreadyExpired);
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_several_names_that_nobody_holds_ends_with_its_ttl() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let manager = open_quick(locks, &server).await;
        for names in [["a", "b"], NAMES] {
            let lease = ok(manager.acquire(multi(&names), ttl(700)).await);
            ends_unrenewed(&server, names[0]).await;
            until("the other one ends as well", || !is_there(&server, names[1])).await;
            assert!(!lease.is_held().await.unwrap());
        }
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn all_names_are_renewed() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let manager = open_quick(locks, &server).await;
        for names in [["a", "b"], NAMES] {
            let lease = ok(manager.acquire(multi(&names), ttl(900)).await);
            assert_eq!(ok(lease.hold(3_000).await), HoldEnd::Held);
            assert!(ok(lease.verify().await) && names.iter().all(|name| is_there(&server, name)));
            ok(lease.release().await);
        }
    });
    work.await.unwrap();
}

#[tokio::test]
async fn pairs_in_opposite_orders_never_deadlock() {
    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let (one, other) = (open(locks, &server).await, open(locks, &server).await);
        let held = std::cell::Cell::new(0);
        let transfers = (0..100).map(async |number| {
            let (manager, names) = if number % 2 == 0 { (one, ["a", "b"]) } else { (other, ["b", "a"]) };
            let lease = ok(manager.acquire(multi(&names), long()).await);
            assert_eq!(held.replace(1), 0, "one at a time");
            tokio::task::yield_now().await;
            held.set(0);
            ok(lease.release().await);
        });
        soon("all have had their turn", join_all(transfers)).await;
    });
    work.await.unwrap();
}

#[tokio::test]
async fn names_that_can_not_be_are_refused_before_anything_is_sent() {
    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let manager = open(locks, &server).await;
        let before = scripts_run(&server);
        let many: Vec<String> = (0..257).map(|number| number.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for (names, wrong) in [
            (&[][..], "names"),
            (&["a", "b", "a"], "names"),
            (many.as_slice(), "names"),
            (&["a", ""], "name"),
            (&["a", "x{y"], "name"),
        ] {
            for error in [
                refused(manager.acquire(multi(names), long()).await),
                refused(manager.try_acquire(multi(names), None).await),
            ] {
                assert!(matches!(&error.kind, ErrorKind::InvalidOption(field) if field == wrong), "{error:?}");
            }
        }
        let apart = Target::Multi(Multi { parts: mutexes(&["a", "b"]), one_script: true });
        let error = refused(manager.acquire(apart, long()).await);
        assert!(matches!(error.kind, ErrorKind::CrossSlot) && !error.retryable, "{error:?}");
        assert_eq!(scripts_run(&server), before);

        server.cli(&["HSET", "b", "field", "1"]).unwrap();
        let error = refused(manager.acquire(multi(&["a", "b"]), long()).await);
        assert!(matches!(error.kind, ErrorKind::WrongKind), "{error:?}");
        until("the first is given back", || !is_there(&server, "a")).await;
        let together = Target::Multi(Multi { parts: mutexes(&NAMES), one_script: true });
        ok(ok(manager.acquire(together, long()).await).release().await);
    });
    work.await.unwrap();
}

#[tokio::test]
async fn as_many_and_as_long_names_as_there_may_be_are_locked_and_given_back() {
    let server = Server::start().unwrap();
    let work = with_tcp_component(async |locks| {
        let manager = open(locks, &server).await;
        for tag in ["", "{order:7}:"] {
            let names: Vec<String> =
                (0..256).map(|number| format!("{tag}{number:0width$}", width = 4_096 - tag.len())).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let lease = ok(manager.acquire(multi(&names), long()).await);
            assert_eq!(ok(lease.release().await), ReleaseOutcome::Released);
        }
        let names: Vec<String> = (0..256).map(|number| format!("{number:04097}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let error = refused(manager.acquire(multi(&names), long()).await);
        assert!(matches!(&error.kind, ErrorKind::InvalidOption(field) if field == "names"), "{error:?}");
    });
    work.await.unwrap();
}
