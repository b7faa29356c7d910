//! What a holder can do with a lease, and how it ends.

use std::time::Duration;

use leasehold::{Error, LossReason, Mode, Owner, ReleaseOutcome, Wait};
use leasehold_live::{
    LONG, RENEWED, Tested, begin, client, connections, is_there, number, queued, renewed, shared_server, soon, unique,
    until, waiters,
};
use leasehold_servers::Server;

/// The TTL of a lease whose end a test awaits.
const TTL: Duration = Duration::from_millis(900);

#[tokio::test]
async fn leases_of_every_kind_are_renewed_here_and_on_the_server() -> Tested {
    let (server, owner) = (shared_server(), Owner::new());
    let locks = client(server).await?;
    let kinds = [
        locks.mutex(unique("mutex")),
        locks.read_write(unique("page")).read(),
        locks.semaphore(unique("seats"), 3).permits(2),
        locks.reentrant(unique("entered"), &owner),
        locks.multi([unique("a"), unique("b")]),
    ];
    let mut leases = Vec::new();
    for lock in kinds {
        leases.push(lock.ttl(RENEWED).acquire().await?);
    }
    renewed(&leases).await;
    for lease in &leases {
        assert!(lease.is_held() && lease.verify().await?, "{lease:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_fixed_lease_with_a_fraction_of_a_millisecond_is_granted() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let ttl = LONG + Duration::from_micros(500);
    let lease = client(server).await?.mutex(&name).ttl(ttl).renew(false).acquire().await?;
    assert!(lease.is_held() && lease.remaining() < ttl);
    Ok(())
}

#[tokio::test]
async fn extend_makes_it_longer_here_and_on_the_server_and_never_shorter() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let locks = client(server).await?;
    let lease = locks.mutex(&name).ttl(LONG).renew(false).acquire().await?;
    let more_than = |least: Duration| -> Result<bool, leasehold_servers::Error> {
        Ok(lease.remaining() > least
            && number(server, &["PTTL", &name])? > i64::try_from(least.as_millis()).unwrap_or(0))
    };
    assert!(!more_than(LONG)?);
    lease.extend(LONG * 2).await?;
    assert!(more_than(LONG)?);
    lease.extend(LONG / 2).await?;
    assert!(more_than(LONG)?);
    let error = lease.extend(Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, Error::InvalidOption { field: "ttl", .. }), "{error:?}");
    lease.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_lease_that_is_made_shorter_ends_on_the_server_too() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let lease = client(server).await?.mutex(&name).acquire().await?;
    let (fence, less) = (lease.fence(), LONG / 2);
    lease.shorten(less).await?;
    assert!(lease.remaining() <= less && number(server, &["PTTL", &name])? < 310_000);
    assert!(lease.is_held() && lease.fence() == fence);
    lease.extend(LONG).await?;
    assert!(number(server, &["PTTL", &name])? > 310_000, "it can be made longer again");
    // On a slow machine, the lease may end before the server answers.
    let shortened = lease.shorten(TTL).await;
    assert!(matches!(shortened, Ok(()) | Err(Error::Lost { .. } | Error::NotHeld { .. })), "{shortened:?}");
    assert_eq!(soon("the end", lease.lost()).await, LossReason::Expired);
    until("the server has let go", async || is_there(server, &name).is_ok_and(|there| !there)).await;
    assert!(matches!(lease.shorten(TTL).await, Err(Error::Lost { .. } | Error::NotHeld { .. })));
    Ok(())
}

#[tokio::test]
async fn only_a_lease_of_one_caller_of_one_mutex_or_read_write_lock_is_made_shorter() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let locks = client(server).await?;
    let lock = locks.read_write(&name);
    let (one, other) = (lock.read().acquire().await?, lock.read().acquire().await?);
    let less = LONG / 2;
    let error = one.shorten(less).await.unwrap_err();
    assert!(matches!(&error, Error::Conflict { name: of, .. } if *of == name), "{error:?}");
    other.release().await?;
    one.shorten(less).await?;
    assert!(one.remaining() <= less);
    let permit = locks.semaphore(unique("pool"), 2).acquire().await?;
    for lease in [permit, locks.multi([unique("a"), unique("b")]).acquire().await?] {
        assert!(matches!(lease.shorten(less).await, Err(Error::Unsupported { .. })));
        assert!(lease.verify().await?);
    }
    Ok(())
}

#[tokio::test]
async fn a_nested_hold_keeps_the_lock_until_the_last_is_given_back() -> Tested {
    let (server, name) = (shared_server(), unique("page"));
    let (locks, others) = (client(server).await?, client(server).await?);
    let outer = locks.read_write(&name).read().acquire().await?;
    let waiting = queued(server, others.read_write(&name).write()).await;
    let inner = outer.nested()?;
    assert_eq!((inner.mode(), inner.hold_count(), inner.fence()), (Mode::Shared, 2, outer.fence()));
    assert_eq!(outer.release().await?, ReleaseOutcome::StillHeld);
    assert!(inner.verify().await? && !waiting.is_finished());
    assert_eq!(inner.release().await?, ReleaseOutcome::Released);
    soon("the writer's lease", waiting).await??.release().await?;
    Ok(())
}

#[tokio::test]
async fn close_ends_waits_frees_leases_and_leaves_no_connection() -> Tested {
    let server = Server::start()?;
    let (others, locks) = (client(&server).await?, client(&server).await?);
    let theirs = others.mutex("theirs").acquire().await?;
    let (lease, waiting) = (locks.mutex("ours").acquire().await?, begin(locks.mutex("theirs").wait(Wait::Forever)));
    until("it waits", async || waiters(&server, "theirs").is_ok_and(|count| count == 1)).await;
    soon("the end", locks.close()).await;
    assert!(matches!(soon("the end of the wait", waiting).await?, Err(Error::Closed)));
    assert!(!lease.is_held() && !is_there(&server, "ours")? && waiters(&server, "theirs")? == 0);
    assert!(matches!(locks.mutex("ours").try_acquire().await, Err(Error::Closed)));
    assert!(matches!(locks.inspect("ours").await, Err(Error::Closed)));
    assert_eq!(lease.lost().await, LossReason::Closed);
    assert_eq!(lease.release().await?, ReleaseOutcome::AlreadyExpired);
    soon("a second close", locks.close()).await;
    theirs.release().await?;
    drop(others);
    until("no connection is left", async || connections(&server).is_ok_and(|count| count == 0)).await;
    Ok(())
}

#[tokio::test]
async fn a_lease_of_a_client_that_is_dropped_goes_on_until_it_is_dropped_too() -> Tested {
    let server = Server::start()?;
    let lease = client(&server).await?.mutex("door").acquire().await?;
    lease.extend(LONG * 2).await?;
    assert!(lease.verify().await?);
    drop(lease);
    until("all is gone", async || {
        is_there(&server, "door").is_ok_and(|there| !there) && connections(&server).is_ok_and(|count| count == 0)
    })
    .await;
    Ok(())
}
