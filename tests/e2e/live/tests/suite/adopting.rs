//! A lease that another process takes over.

use std::time::{Duration, Instant};

use leasehold::{Error, LossReason, ReleaseOutcome};
use leasehold_live::{
    Tested, begin, client, quick, shared_server, soon, subscribed, unique, until, waiters, write_guarded,
};
use leasehold_servers::Server;

#[tokio::test]
async fn the_adopter_goes_on_with_a_greater_fence_and_the_former_holder_is_told() -> Tested {
    let server = Server::start()?;
    let (first, second, third) = (client(&server).await?, client(&server).await?, client(&server).await?);
    let lease = first.mutex("invoice").acquire().await?;
    let token = lease.token()?;
    until("its client listens", async || subscribed(&server).is_ok_and(|count| count == 1)).await;
    let waiting = begin(third.mutex("invoice"));
    until("one waits", async || waiters(&server, "invoice").is_ok_and(|count| count == 1)).await;

    let adopted = second.mutex("invoice").adopt(&token).await?;
    assert!(adopted.fence() > lease.fence() && adopted.is_held() && adopted.verify().await?);
    assert_eq!(soon("the loss", lease.lost()).await, LossReason::Revoked);
    let mut store = server.connect()?;
    assert!(write_guarded(&mut store, "store", adopted.fence().get(), "new")?);
    assert!(!write_guarded(&mut store, "store", lease.fence().get(), "old")?, "a write of the former holder");
    assert_eq!(lease.release().await?, ReleaseOutcome::AlreadyExpired);
    assert_eq!(adopted.release().await?, ReleaseOutcome::Released);
    soon("the next in line", waiting).await??.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_lease_outlives_the_process_that_acquired_it() -> Tested {
    let (server, name) = (shared_server(), unique("job"));
    let (first, second) = (client(server).await?, client(server).await?);
    let lease = first.mutex(&name).ttl(Duration::from_millis(1500)).acquire().await?;
    let token = lease.token()?;
    lease.stop_renewing();
    // As in a process that is killed: nothing is released.
    std::mem::forget(lease);
    let adopted = second.mutex(&name).ttl(Duration::from_millis(900)).adopt(&token).await?;
    until("it is renewed", async || adopted.remaining() < Duration::from_millis(600)).await;
    until("it is renewed", async || adopted.remaining() > Duration::from_millis(700)).await;
    assert!(first.mutex(&name).try_acquire().await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_token_works_once_and_not_after_the_lease() -> Tested {
    let (server, name) = (shared_server(), unique("job"));
    let (first, second) = (client(server).await?, client(server).await?);
    let lease = first.mutex(&name).acquire().await?;
    let token = lease.token()?;
    let adopted = second.mutex(&name).adopt(&token).await?;
    for locks in [&first, &second] {
        let again = locks.mutex(&name).adopt(&token).await;
        assert!(matches!(again, Err(Error::NotHeld { .. })), "{again:?}");
    }
    assert!(adopted.verify().await?);
    adopted.release().await?;

    let lease = first.mutex(&name).acquire().await?;
    let token = lease.token()?;
    lease.release().await?;
    let late = second.mutex(&name).adopt(&token).await;
    assert!(matches!(late, Err(Error::NotHeld { .. })), "{late:?}");
    assert!(second.mutex(&name).try_acquire().await?.is_some(), "it left nothing behind");
    Ok(())
}

#[tokio::test]
async fn a_client_adopts_its_own_lease_while_others_of_it_wait() -> Tested {
    let (server, name) = (shared_server(), unique("job"));
    let locks = client(server).await?;
    let lease = locks.read_write(&name).write().acquire().await?;
    let waiting = begin(locks.mutex(&name));
    let adopted = locks.read_write(&name).write().adopt(&lease.token()?).await?;
    assert_eq!(soon("the loss", lease.lost()).await, LossReason::Revoked);
    adopted.downgrade().await?;
    assert!(adopted.verify().await?);
    adopted.release().await?;
    soon("the lock", waiting).await??.release().await?;
    Ok(())
}

#[tokio::test]
async fn an_exported_lease_is_given_back_and_not_handed_over() -> Tested {
    let (server, name) = (shared_server(), unique("job"));
    let (first, second) = (client(server).await?, client(server).await?);
    let lock = first.mutex(&name).linger(Duration::from_secs(60));
    let lease = lock.acquire().await?;
    let token = lease.token()?;
    let waiting = begin(lock.clone());
    lease.release().await?;
    let next = soon("the lock", waiting).await??;
    let late = second.mutex(&name).adopt(&token).await;
    assert!(matches!(late, Err(Error::NotHeld { .. })), "the next holder has another token: {late:?}");
    assert!(next.verify().await?);
    Ok(())
}

#[tokio::test]
async fn what_cant_be_adopted_is_refused() -> Tested {
    let (server, name) = (shared_server(), unique("job"));
    let locks = client(server).await?;
    for text in ["", "token", "01234567-89ab-cdef-0123-456789abcdef:07", "01234567-89AB-cdef-0123-456789abcdef:7"] {
        let refused = locks.mutex(&name).adopt(text).await;
        assert!(matches!(&refused, Err(Error::InvalidOption { field: "token", .. })), "{text}: {refused:?}");
    }
    let token = "01234567-89ab-cdef-0123-456789abcdef:7";
    let refused = [
        locks.read_write(&name).read().adopt(token).await,
        locks.semaphore(&name, 3).permits(1).adopt(token).await,
        locks.reentrant(&name, &leasehold::Owner::new()).adopt(token).await,
        locks.multi([&name, "other"]).adopt(token).await,
    ];
    for refused in refused {
        assert!(matches!(&refused, Err(Error::Unsupported { .. })), "{refused:?}");
    }
    let reader = locks.read_write(&name).read().acquire().await?;
    assert!(matches!(reader.token(), Err(Error::Unsupported { .. })));
    Ok(())
}

#[tokio::test]
async fn a_lease_that_is_no_longer_renewed_ends_and_can_be_extended() -> Tested {
    let (server, name) = (shared_server(), unique("job"));
    let locks = quick().connect(&server.url()).await?;
    let lease = locks.mutex(&name).ttl(Duration::from_millis(600)).acquire().await?;
    lease.stop_renewing();
    lease.extend(Duration::from_millis(900)).await?;
    assert!(lease.remaining() > Duration::from_millis(800));
    assert_eq!(soon("the end", lease.lost()).await, LossReason::Expired);
    Ok(())
}

#[tokio::test]
async fn a_lease_lasts_for_its_ttl_after_the_last_renewal_although_it_came_after_a_wait() -> Tested {
    let (server, name) = (Server::start()?, unique("job"));
    let (first, second) = (client(&server).await?, client(&server).await?);
    let ttl = Duration::from_secs(3);
    let lease = first.mutex(&name).acquire().await?;
    let waiting = begin(second.mutex(&name).ttl(ttl));
    until("one waits", async || waiters(&server, &name).is_ok_and(|count| count == 1)).await;
    lease.release().await?;
    let lease = soon("the lock", waiting).await??;
    let start = Instant::now();
    // The server granted it for the claim window, which is 300 ms here.
    lease.stop_renewing();
    assert_eq!(soon("the end", lease.lost()).await, LossReason::Expired);
    assert!(start.elapsed() > ttl * 9 / 10 && start.elapsed() < ttl, "{:?}", start.elapsed());
    Ok(())
}
