//! A lease that another process takes over.

use std::time::Duration;

use leasehold::{Error, LossReason, Owner, ReleaseOutcome};
use leasehold_live::{LONG, Tested, begin, client, hasty, queued, shared_server, soon, unique, until, write_guarded};
use leasehold_servers::Server;

#[tokio::test]
async fn the_adopter_goes_on_with_a_greater_fence_and_the_former_holder_is_told() -> Tested {
    let server = Server::start()?;
    let (first, second, third) = (client(&server).await?, client(&server).await?, client(&server).await?);
    let before = second.mutex("invoice").acquire().await?;
    let waiting = queued(&server, first.mutex("invoice")).await;
    before.release().await?;
    // A message told it of the grant, so it will hear of the adoption too.
    let lease = soon("the lock", waiting).await??;
    let token = lease.token()?;
    let waiting = queued(&server, third.mutex("invoice")).await;

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
    let lease = first.mutex(&name).acquire().await?;
    let token = lease.token()?;
    lease.stop_renewing();
    // As in a process that is killed: nothing is released.
    std::mem::forget(lease);
    let adopted = second.mutex(&name).adopt(&token).await?;
    assert!(adopted.verify().await?);
    adopted.extend(LONG * 2).await?;
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
    let refused =
        [locks.reentrant(&name, &Owner::new()).adopt(token).await, locks.multi([&name, "other"]).adopt(token).await];
    for refused in refused {
        assert!(matches!(&refused, Err(Error::Unsupported { .. })), "{refused:?}");
    }
    let owned = locks.reentrant(&name, &Owner::new()).acquire().await?;
    assert!(matches!(owned.token(), Err(Error::Unsupported { .. })));
    Ok(())
}

#[tokio::test]
async fn of_several_adopters_and_a_release_one_wins() -> Tested {
    let (server, name) = (shared_server(), unique("job"));
    let (first, second, third) = (client(server).await?, client(server).await?, client(server).await?);
    for round in 0..100 {
        let lease = first.mutex(&name).acquire().await?;
        let token = lease.token()?;
        let (one, same, other) = (second.mutex(&name), second.mutex(&name), third.mutex(&name));
        let mut lease = Some(lease);
        // In some rounds, the release is sent first. In the others the lease must outlive the adoptions: dropping it
        // releases it as well.
        let releasing = lease.take_if(|_| round % 3 == 0);
        let release = async {
            match releasing {
                Some(lease) => lease.release().await,
                None => Ok(ReleaseOutcome::NotOwner),
            }
        };
        let (released, one, same, other) =
            tokio::join!(release, one.adopt(&token), same.adopt(&token), other.adopt(&token));
        let mut winners = usize::from(released? == ReleaseOutcome::Released);
        for adopted in [one, same, other] {
            match adopted {
                Ok(lease) => {
                    winners += 1;
                    assert!(lease.verify().await?);
                    lease.release().await?;
                }
                Err(Error::NotHeld { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        assert_eq!(winners, 1, "round {round}");
    }
    Ok(())
}

#[tokio::test]
async fn a_holder_without_renewals_learns_of_an_adoption_that_came_before_its_subscription() -> Tested {
    let (server, name) = (shared_server(), unique("job"));
    let second = client(server).await?;
    for _ in 0..10 {
        let first = client(server).await?;
        let lease = first.mutex(&name).acquire().await?;
        lease.stop_renewing();
        // The holder connects in order to subscribe. The adopter has its connection already.
        let adopted = second.mutex(&name).adopt(&lease.token()?).await?;
        let reason = soon("the loss", lease.lost()).await;
        assert!(matches!(reason, LossReason::Revoked | LossReason::Taken), "{reason}");
        adopted.release().await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_adopter_that_gives_up_gives_back_what_it_may_have_taken() -> Tested {
    let (server, name) = (Server::start()?, unique("job"));
    let (first, second) = (client(&server).await?, hasty(&server, Duration::from_millis(500)).await);
    // From now on, the server has the scripts.
    let lease = first.mutex(&name).acquire().await?;
    first.mutex(&name).adopt(&lease.token()?).await?.release().await?;

    let (dropped, late) = (first.mutex("dropped").acquire().await?, first.mutex("late").acquire().await?);
    let (dropped_token, late_token) = (dropped.token()?, late.token()?);
    server.pause()?;
    let lock = second.mutex("dropped");
    let cut = tokio::time::timeout(Duration::from_millis(50), lock.adopt(&dropped_token)).await;
    assert!(cut.is_err());
    let refused = second.mutex("late").adopt(&late_token).await;
    assert!(matches!(refused, Err(Error::Unreachable { .. })), "{refused:?}");
    server.resume()?;
    for name in ["dropped", "late"] {
        until("the lock is free", async || second.mutex(name).try_acquire().await.is_ok_and(|lease| lease.is_some()))
            .await;
    }
    assert!(!dropped.verify().await? && !late.verify().await?);
    Ok(())
}

#[tokio::test]
async fn a_token_is_for_one_name_one_kind_and_one_lease() -> Tested {
    let server = Server::start()?;
    let (first, second) = (client(&server).await?, client(&server).await?);
    let lease = first.mutex("job").acquire().await?;
    let token = lease.token()?;
    let refused = second.mutex("another").adopt(&token).await;
    assert!(matches!(refused, Err(Error::NotHeld { .. })), "{refused:?}");
    let owner = Owner::new();
    let others = [second.reentrant("entered", &owner).acquire().await?, second.semaphore("seats", 2).acquire().await?];
    for other in &others {
        let refused = second.mutex(other.name()).adopt(&token).await;
        assert!(matches!(refused, Err(Error::WrongKind { .. })), "{refused:?}");
        assert!(other.verify().await?);
    }
    let reader = first.read_write("read").read().acquire().await?;
    let shown = second.inspect("read").await?.holders[0].token.clone();
    let refused = second.mutex("read").adopt(&shown).await;
    assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    assert!(lease.verify().await? && reader.verify().await?);

    server.cli(&["FLUSHALL"])?;
    let refused = second.mutex("job").adopt(&token).await;
    assert!(matches!(refused, Err(Error::NotHeld { .. })), "{refused:?}");
    Ok(())
}

#[tokio::test]
async fn a_manager_that_is_closed_gives_back_the_lease_whose_token_it_told() -> Tested {
    let (server, name) = (shared_server(), unique("job"));
    let (first, second) = (client(server).await?, client(server).await?);
    let lease = first.mutex(&name).acquire().await?;
    let token = lease.token()?;
    first.close().await;
    let late = second.mutex(&name).adopt(&token).await;
    assert!(matches!(late, Err(Error::NotHeld { .. })), "{late:?}");
    assert!(matches!(lease.token(), Err(Error::Closed)), "{:?}", lease.token());
    assert!(second.mutex(&name).try_acquire().await?.is_some());
    Ok(())
}

#[tokio::test]
async fn a_detached_lease_is_adopted_after_its_client_has_closed() -> Tested {
    let server = shared_server();
    let (first, second) = (client(server).await?, client(server).await?);
    let (door, page, pool) = (unique("door"), unique("page"), unique("pool"));
    let kinds = [(&first, &second)].map(|(from, to)| {
        let of = |locks: &leasehold::LockManager| {
            [locks.mutex(&door), locks.read_write(&page).read(), locks.semaphore(&pool, 2).permits(2)]
        };
        of(from).into_iter().zip(of(to))
    });
    let mut tokens = Vec::new();
    for (from, to) in kinds.into_iter().flatten() {
        let lease = from.acquire().await?;
        tokens.push((to, lease.fence(), lease.detach_for(LONG).await?));
    }
    assert_eq!(first.close().await.unreleased, 0);
    for (lock, fence, token) in tokens {
        let adopted = lock.adopt(&token).await?;
        assert!(adopted.fence() > fence && adopted.verify().await?, "{lock:?}");
        assert_eq!(adopted.release().await?, ReleaseOutcome::Released);
        assert!(lock.try_acquire().await?.is_some(), "{lock:?}");
    }
    Ok(())
}
