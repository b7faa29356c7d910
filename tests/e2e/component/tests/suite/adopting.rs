//! A lease that another manager takes over.

use std::time::Duration;

use leasehold_component_tests::with_component;
use leasehold_servers::Server;
use leasehold_wasmtime_host::{ErrorKind, HoldEnd, LossReason, RedisProvider, ReleaseOutcome};

use crate::common::*;
use crate::memory::{Memory, on_virtual_time};

#[tokio::test(start_paused = true)]
async fn the_adopter_goes_on_with_a_greater_fence_and_the_former_holder_is_told() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let (one, other) = (open_quick(locks, &server).await, open_quick(locks, &server).await);
        // Its next renewal finds the adoption, in case the message came before the subscription.
        let lease = ok(one.acquire(mutex("job"), ttl(900)).await);
        let token = ok(lease.token().await);
        let adopting = async {
            let adopted = ok(other.adopt(mutex("job"), &token, ttl(20_000)).await);
            assert!(adopted.fence().await.unwrap() > lease.fence().await.unwrap());
            assert!(ok(adopted.verify().await));
            adopted
        };
        let (kept, adopted) = tokio::join!(lease.hold(10_000), adopting);
        assert!(matches!(ok(kept), HoldEnd::Lost(LossReason::Revoked | LossReason::Taken)));
        assert_eq!(ok(adopted.hold(1).await), HoldEnd::Held);
        let again = refused(one.adopt(mutex("job"), &token, None).await);
        assert!(matches!(again.kind, ErrorKind::NotHeld), "{again:?}");
        assert_eq!(ok(adopted.release().await), ReleaseOutcome::Released);
        assert!(matches!(refused(adopted.token().await).kind, ErrorKind::NotHeld));
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_detached_lease_stays_taken_for_its_time_and_another_manager_adopts_it() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let (one, other) = (open_quick(locks, &server).await, open_quick(locks, &server).await);
        let lease = ok(one.acquire(mutex("job"), ttl(900)).await);
        let token = ok(lease.detach(Some(60_000)).await);
        assert_eq!(ok(lease.release().await), ReleaseOutcome::Detached);
        // Longer than the lease's TTL.
        tokio::time::sleep(Duration::from_secs(30)).await;
        let waiting = refused(other.acquire(mutex("job"), wait(1_000)).await);
        assert!(matches!(waiting.kind, ErrorKind::Busy), "{waiting:?}");
        let adopted = ok(other.adopt(mutex("job"), &token, ttl(20_000)).await);
        assert_eq!(ok(adopted.release().await), ReleaseOutcome::Released);

        // Without a time, the lock stays taken until the lease would have ended.
        let lease = ok(one.acquire(mutex("job"), ttl(20_000)).await);
        ok(lease.detach(None).await);
        lease.drop().unwrap();
        let waiting = refused(other.acquire(mutex("job"), wait(1_000)).await);
        assert!(matches!(waiting.kind, ErrorKind::Busy), "{waiting:?}");
        tokio::time::sleep(Duration::from_secs(21)).await;
        ok(other.acquire(mutex("job"), wait(1_000)).await);
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_before_it_is_detached_is_lost_for_that_reason() {
    let server = Memory::start();
    let work = on_virtual_time(server.provider(), async |locks| {
        let (one, other) = (open_quick(locks, &server).await, open_quick(locks, &server).await);
        for (taken, reason) in [(false, LossReason::Gone), (true, LossReason::Taken)] {
            let lease = ok(one.acquire(mutex("job"), ttl(20_000)).await);
            server.cli(&["DEL", "job"]).unwrap();
            if taken {
                ok(other.acquire(mutex("job"), ttl(20_000)).await);
            }
            let error = refused(lease.detach(Some(60_000)).await);
            assert_eq!(error.kind, ErrorKind::Lost(reason), "{error:?}");
        }
    });
    work.await.unwrap();
}

#[tokio::test]
async fn what_cant_be_adopted_is_refused() {
    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let manager = open(locks, &server).await;
        let bad = refused(manager.adopt(mutex("job"), "token", None).await);
        assert!(matches!(&bad.kind, ErrorKind::InvalidOption(field) if field == "token"), "{bad:?}");
        let token = "01234567-89ab-cdef-0123-456789abcdef:7";
        let reader = refused(manager.adopt(read("job"), token, None).await);
        assert!(matches!(reader.kind, ErrorKind::NotHeld), "{reader:?}");
        let owner = refused(manager.adopt(reentrant("account", 1), token, None).await);
        assert!(matches!(owner.kind, ErrorKind::Unsupported), "{owner:?}");
        let lease = ok(manager.acquire(reentrant("account", 1), long()).await);
        assert!(matches!(refused(lease.token().await).kind, ErrorKind::Unsupported));
    });
    work.await.unwrap();
}
