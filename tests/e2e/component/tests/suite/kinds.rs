//! Reentrant locks, semaphores, and names that hold another kind of lock.

use leasehold_component_tests::with_component;
use leasehold_servers::Server;
use leasehold_wasmtime_host::{ErrorKind, HoldEnd, LossReason, RedisProvider, ReleaseOutcome, Semaphore, Target};

use crate::common::*;
use crate::memory::{Memory, on_virtual_time};

/// A Java thread's id, as it is on the server.
const JAVA: &str = "8743c9c0-0795-4907-87fd-6c719a6b4586:42";

fn permits(name: &str, permits: u32, limit: u32) -> Target {
    Target::Semaphore(Semaphore { name: name.to_owned(), limit, permits, per_ms: None })
}

fn listeners(server: &impl Place, name: &str) -> i64 {
    let reply = server.cli(&["PUBSUB", "NUMSUB", &format!("redisson_lock__channel:{{{name}}}")]).unwrap();
    reply.list()[1].integer().unwrap()
}

#[tokio::test]
async fn an_owner_takes_its_lock_again_and_gives_it_back_as_often() {
    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let (one, other) = (open(locks, &server).await, open(locks, &server).await);
        let first = ok(one.acquire(reentrant("account", 1), long()).await);
        let scripts = scripts_run(&server);
        let second = ok(one.acquire(reentrant("account", 1), long()).await);
        let third = ok(one.try_acquire(reentrant("account", 1), None).await).expect("the owner's own");
        let nested = ok(third.nested().await);
        assert_eq!(scripts_run(&server), scripts, "without a round trip");
        assert_eq!(first.fence().await.unwrap(), third.fence().await.unwrap());
        assert!(ok(one.try_acquire(reentrant("account", 2), None).await).is_none(), "another owner");
        assert!(ok(other.try_acquire(reentrant("account", 1), None).await).is_none(), "another manager");
        assert_eq!(ok(second.release().await), ReleaseOutcome::StillHeld);
        assert_eq!(ok(second.release().await), ReleaseOutcome::StillHeld, "a second call gives nothing more back");
        second.drop().unwrap();
        assert_eq!(ok(first.release().await), ReleaseOutcome::StillHeld);
        assert!(third.is_held().await.unwrap() && !first.is_held().await.unwrap() && ok(third.verify().await));
        // Dropping a hold releases it as well.
        third.drop().unwrap();
        assert!(is_there(&server, "account"));
        assert_eq!(ok(nested.release().await), ReleaseOutcome::Released);
        assert!(!is_there(&server, "account"));
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_handle_to_a_lease_is_told_of_its_loss() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let manager = open_quick(locks, &server).await;
        let first = ok(manager.acquire(reentrant("account", 1), ttl(3_000)).await);
        let second = ok(manager.acquire(reentrant("account", 1), ttl(3_000)).await);
        let taken = async {
            server.cli(&["DEL", "account"]).unwrap();
            server.cli(&["HSET", "account", JAVA, "1"]).unwrap();
            server.cli(&["PEXPIRE", "account", "60000"]).unwrap();
        };
        let (one, two, ()) = tokio::join!(first.hold(10_000), second.hold(10_000), taken);
        for end in [ok(one), ok(two)] {
            assert!(matches!(end, HoldEnd::Lost(LossReason::Taken)), "{end:?}");
        }
        assert_eq!(ok(first.release().await), ReleaseOutcome::NotOwner);
        assert_eq!(ok(second.release().await), ReleaseOutcome::NotOwner);
        assert_eq!(texts(&server.cli(&["HGETALL", "account"]).unwrap()), [JAVA, "1"], "it is left to them");
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_taken_again_lasts_as_long_as_it_was_asked_for_last() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let manager = open_quick(locks, &server).await;
        let first = ok(manager.acquire(reentrant("account", 1), ttl(3_000)).await);
        let granted = tokio::time::Instant::now();
        until("a good part of it is over", || granted.elapsed().as_millis() > 1_500).await;
        let second = ok(manager.acquire(reentrant("account", 1), ttl(3_000)).await);
        until("the first grant would be over", || granted.elapsed().as_millis() > 3_200).await;
        assert!(second.is_held().await.unwrap() && ok(second.verify().await));
        ok(first.release().await);
        ok(second.release().await);
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_java_holder_excludes_us_and_its_message_wakes_us() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        server.cli(&["HSET", "account", JAVA, "1"]).unwrap();
        server.cli(&["PEXPIRE", "account", "60000"]).unwrap();
        // The waiter polls every ten seconds.
        let options =
            quick().map(|patient| leasehold_wasmtime_host::ManagerOptions { claim_window_ms: Some(30_000), ..patient });
        let manager = ok(locks.open(&server.url(), options).await);
        let leaving = async {
            until("it listens", || listeners(&server, "account") == 1).await;
            // After the subscription is acknowledged, the waiter tries once more. By now, the server has answered.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            server.cli(&["DEL", "account"]).unwrap();
            server.cli(&["PUBLISH", "redisson_lock__channel:{account}", "0"]).unwrap();
            tokio::time::Instant::now()
        };
        let (lease, freed) = tokio::join!(manager.acquire(reentrant("account", 7), wait(20_000)), leaving);
        let lease = ok(lease);
        assert!(freed.elapsed().as_millis() < 10, "{:?}", freed.elapsed());
        until("it listens no more", || listeners(&server, "account") == 0).await;
        assert_eq!(number(&server, &["HLEN", "account"]), 1);
        ok(lease.release().await);
    });
    work.await.unwrap();
}

#[tokio::test]
async fn permits_are_given_by_weight_and_first_come_first_served() {
    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let (one, other) = (open(locks, &server).await, open(locks, &server).await);
        let single = ok(one.acquire(permits("reports", 1, 3), long()).await);
        let pair = ok(other.acquire(permits("reports", 2, 3), long()).await);
        assert!(pair.fence().await.unwrap() > single.fence().await.unwrap());
        assert!(ok(one.try_acquire(permits("reports", 1, 3), None).await).is_none());
        let leaving = async {
            until("all three are waited for", || waiters(&server, "reports") == 1).await;
            assert_eq!(ok(pair.release().await), ReleaseOutcome::Released);
            assert_eq!(ok(pair.release().await), ReleaseOutcome::Released);
            assert!(ok(other.try_acquire(permits("reports", 1, 3), None).await).is_none(), "the big one is first");
            single.drop().unwrap();
        };
        let (all, ()) = tokio::join!(one.acquire(permits("reports", 3, 3), long()), leaving);
        let all = ok(all);
        assert!(
            ok(other.try_acquire(permits("reports", 1, 2), None).await).is_none(),
            "a lower limit takes nothing away"
        );
        assert!(ok(all.verify().await));
        ok(all.release().await);
        assert!(!is_there(&server, "reports"));
    });
    work.await.unwrap();
}

#[tokio::test]
async fn permits_that_can_not_be_are_refused_at_once() {
    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let manager = open(locks, &server).await;
        for (wanted, limit, wrong) in [
            (0, 3, "permits"),
            (4, 3, "permits"),
            (1, 0, "limit"),
            (1, 1_000_001, "limit"),
            (u32::MAX, u32::MAX, "limit"),
        ] {
            let error = refused(manager.acquire(permits("reports", wanted, limit), long()).await);
            assert!(matches!(&error.kind, ErrorKind::InvalidOption(field) if field == wrong), "{error:?}");
        }
        let error = refused(manager.try_acquire(reentrant("", 0), None).await);
        assert!(matches!(&error.kind, ErrorKind::InvalidOption(field) if field == "name"), "{error:?}");
    });
    work.await.unwrap();
}

#[tokio::test]
async fn every_kind_refuses_a_name_that_another_kind_holds() {
    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let (one, other) = (open(locks, &server).await, open(locks, &server).await);
        let kinds: [fn(&str) -> Target; 4] = [mutex, read, |name| reentrant(name, 1), |name| permits(name, 1, 3)];
        for (held, holder) in kinds.iter().enumerate() {
            for (taken, taker) in kinds.iter().enumerate() {
                if held == taken || held.max(taken) < 2 {
                    continue;
                }
                let name = format!("door:{held}:{taken}");
                let lease = ok(one.acquire(holder(&name), long()).await);
                for manager in [&one, &other] {
                    let error = refused(manager.acquire(taker(&name), long()).await);
                    assert!(matches!(error.kind, ErrorKind::WrongKind), "{name}: {error:?}");
                }
                assert!(ok(lease.verify().await), "{name}");
                assert_eq!(ok(lease.release().await), ReleaseOutcome::Released);
                ok(ok(other.acquire(taker(&name), long()).await).release().await);
            }
        }
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_operator_takes_any_kind_from_its_holders() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let (one, operator) = (open_quick(locks, &server).await, open_quick(locks, &server).await);
        for target in [mutex("door"), reentrant("door", 1), permits("door", 2, 3)] {
            let lease = ok(one.acquire(target, ttl(2_000)).await);
            assert_eq!(ok(operator.force_release("door").await), 1);
            let end = ok(soon("the holder is told", lease.hold(10_000)).await);
            assert!(matches!(end, HoldEnd::Lost(LossReason::Revoked | LossReason::Gone)), "{end:?}");
            assert!(!is_there(&server, "door"));
            lease.drop().unwrap();
        }
        assert_eq!(ok(operator.force_release("door").await), 0);
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_key_without_a_ttl_is_named_and_deleted_only_with_foreign() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let manager = open_quick(locks, &server).await;
        server.cli(&["SET", "door", "somebody's data"]).unwrap();
        let error = refused(manager.acquire(mutex("door"), wait(1_000)).await);
        assert!(error.kind == ErrorKind::Busy && error.holder.is_some_and(|holder| holder.foreign));
        assert!(
            error
                .message
                .ends_with("; held by another library's key or other data, without a TTL: it never ends by itself"),
            "{}",
            error.message
        );
        let error = refused(manager.force_release("door").await);
        assert!(error.kind == ErrorKind::WrongKind && error.message.contains("`foreign`"), "{error:?}");
        assert!(is_there(&server, "door"));
        assert_eq!(ok(manager.force_release_foreign("door").await), 1);
        assert!(!is_there(&server, "door"));
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_release_that_waits_for_a_moving_slot_ends_with_its_outcome() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let (one, other) = (open_quick(locks, &server).await, open_quick(locks, &server).await);
        let lease = ok(one.acquire(mutex("door"), ttl(60_000)).await);
        let waiting = async { ok(other.acquire(mutex("door"), wait(60_000)).await) };
        let releasing = async {
            until("the other one waits", || waiters(&server, "door") == 1).await;
            server.moves_slots(true);
            let moving = async {
                tokio::time::sleep(std::time::Duration::from_secs(20)).await;
                server.moves_slots(false);
            };
            let (outcome, ()) = tokio::join!(async { ok(lease.release().await) }, moving);
            assert_eq!(outcome, ReleaseOutcome::Released);
        };
        let (next, ()) = tokio::join!(waiting, releasing);
        ok(next.release().await);
    });
    work.await.unwrap();
}
