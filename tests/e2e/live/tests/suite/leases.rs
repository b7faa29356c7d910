//! What a holder can do with a lease, and how it ends.

use std::time::{Duration, Instant};

use leasehold::{Error, Lease, LossReason, Mode, ReleaseOutcome, Wait};
use leasehold_live::{
    SOON, Tested, begin, client, connections, is_there, number, quick, shared_server, soon, unique, until, waiters,
};
use leasehold_servers::Server;

const TTL: Duration = Duration::from_millis(900);

#[tokio::test]
async fn a_renewed_lease_outlives_its_ttl_and_a_fixed_one_does_not() -> Tested {
    let (server, first, second) = (shared_server(), unique("renewed"), unique("fixed"));
    let locks = client(server).await?;
    let renewed = locks.mutex(&first).ttl(TTL).acquire().await?;
    let fixed = locks.mutex(&second).ttl(TTL).renew(false).acquire().await?;
    let start = Instant::now();
    assert_eq!(soon("the end", fixed.lost()).await, LossReason::Expired);
    assert!(start.elapsed() < TTL * 2, "{:?}", start.elapsed());
    until("three TTLs", async || start.elapsed() > TTL * 3).await;
    assert!(renewed.is_held() && renewed.verify().await?);
    assert!(!fixed.is_held() && fixed.remaining().is_zero() && !is_there(server, &second)?);
    Ok(())
}

#[tokio::test]
async fn a_fixed_lease_with_a_fraction_of_a_millisecond_is_granted() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let lock = client(server).await?.mutex(&name).ttl(Duration::from_micros(900_500)).renew(false);
    let lease = lock.wait(Duration::from_secs(2)).acquire().await?;
    assert!(lease.is_held() && lease.remaining() < Duration::from_micros(900_500));
    Ok(())
}

#[tokio::test]
async fn max_hold_ends_a_renewed_lease_on_both_sides() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let (locks, most) = (client(server).await?, TTL * 2);
    let lease = locks.mutex(&name).ttl(TTL).max_hold(most).acquire().await?;
    let start = Instant::now();
    assert_eq!(soon("the end", lease.lost()).await, LossReason::MaxHold);
    assert!(start.elapsed() > most - TTL && start.elapsed() < most + TTL, "{:?}", start.elapsed());
    until("the server has let go", async || is_there(server, &name).is_ok_and(|there| !there)).await;
    assert!(start.elapsed() < most + TTL, "{:?}", start.elapsed());
    Ok(())
}

#[tokio::test]
async fn extend_makes_it_longer_here_and_on_the_server_and_never_shorter() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let locks = client(server).await?;
    let lease = locks.mutex(&name).ttl(TTL).renew(false).acquire().await?;
    lease.extend(Duration::from_secs(20)).await?;
    assert!(lease.remaining() > Duration::from_secs(19) && number(server, &["PTTL", &name])? > 19_000);
    lease.extend(TTL).await?;
    assert!(lease.remaining() > Duration::from_secs(19) && number(server, &["PTTL", &name])? > 19_000);
    let error = lease.extend(Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, Error::InvalidOption { field: "ttl", .. }), "{error:?}");
    lease.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_lease_that_is_made_shorter_ends_on_the_server_too_and_is_renewed_no_more() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let locks = client(server).await?;
    let lease = locks.mutex(&name).ttl(Duration::from_secs(20)).acquire().await?;
    let fence = lease.fence();
    lease.shorten(TTL).await?;
    assert!(lease.remaining() <= TTL && number(server, &["PTTL", &name])? <= 1_000);
    assert!(lease.is_held() && lease.fence() == fence);
    lease.extend(Duration::from_secs(10)).await?;
    assert!(number(server, &["PTTL", &name])? > 9_000, "it can be made longer again");
    lease.shorten(TTL).await?;
    let start = Instant::now();
    assert_eq!(soon("the end", lease.lost()).await, LossReason::Expired);
    assert!(start.elapsed() < TTL * 2, "{:?}", start.elapsed());
    assert!(matches!(lease.shorten(TTL).await, Err(Error::Lost { .. } | Error::NotHeld { .. })));
    Ok(())
}

#[tokio::test]
async fn a_lease_that_is_no_longer_renewed_does_not_pass_its_max_hold() -> Tested {
    let (server, long) = (shared_server(), Duration::from_secs(60));
    let lock = client(server).await?.mutex(unique("door")).ttl(TTL).max_hold(TTL * 2);
    for shortens in [false, true] {
        let lease = lock.acquire().await?;
        let start = Instant::now();
        if shortens {
            lease.shorten(long).await?;
        } else {
            lease.stop_renewing();
        }
        lease.extend(long).await?;
        assert_eq!(soon("the end", lease.lost()).await, LossReason::MaxHold);
        assert!(start.elapsed() < TTL * 3, "{:?}", start.elapsed());
    }
    Ok(())
}

#[tokio::test]
async fn only_a_lease_of_one_caller_of_one_mutex_or_read_write_lock_is_made_shorter() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let locks = client(server).await?;
    let lock = locks.read_write(&name);
    let (one, other) = (lock.read().acquire().await?, lock.read().acquire().await?);
    let error = one.shorten(TTL).await.unwrap_err();
    assert!(matches!(&error, Error::Conflict { name: of, .. } if *of == name), "{error:?}");
    other.release().await?;
    one.shorten(TTL).await?;
    assert!(one.remaining() <= TTL);
    let permit = locks.semaphore(unique("pool"), 2).acquire().await?;
    for lease in [permit, locks.multi([unique("a"), unique("b")]).acquire().await?] {
        assert!(matches!(lease.shorten(TTL).await, Err(Error::Unsupported { .. })));
        assert!(lease.verify().await?);
    }
    Ok(())
}

#[tokio::test]
async fn a_dropped_lease_is_released() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let locks = client(server).await?;
    drop(locks.mutex(&name).ttl(Duration::from_secs(60)).acquire().await?);
    until("it is free", async || is_there(server, &name).is_ok_and(|there| !there)).await;
    Ok(())
}

#[tokio::test]
async fn a_lease_that_is_over_answers_every_call_at_once() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let locks = client(server).await?;
    let lease = locks.mutex(&name).ttl(Duration::from_millis(50)).renew(false).acquire().await?;
    let nested = lease.nested()?;
    soon("the end", lease.lost()).await;
    let not_held = |error: Error| assert_eq!((error.code(), error.name()), ("not-held", Some(name.as_str())));
    not_held(lease.extend(TTL).await.unwrap_err());
    not_held(lease.downgrade().await.unwrap_err());
    not_held(lease.upgrade().await.unwrap_err());
    not_held(lease.nested().unwrap_err());
    assert!(!lease.verify().await? && !lease.is_held() && !nested.is_held());
    assert_eq!(nested.lost().await, LossReason::Expired);
    assert_eq!(lease.release().await?, ReleaseOutcome::AlreadyExpired);
    assert_eq!(nested.release().await?, ReleaseOutcome::AlreadyExpired);
    Ok(())
}

#[tokio::test]
async fn a_nested_hold_keeps_the_lock_until_the_last_is_given_back() -> Tested {
    let (server, name) = (shared_server(), unique("page"));
    let (locks, others) = (client(server).await?, client(server).await?);
    let outer = locks.read_write(&name).read().acquire().await?;
    let waiting = begin(others.read_write(&name).write());
    until("a writer waits", async || waiters(server, &name).is_ok_and(|count| count == 1)).await;
    let inner = outer.nested()?;
    assert_eq!((inner.mode(), inner.hold_count(), inner.fence()), (Mode::Shared, 2, outer.fence()));
    assert_eq!(outer.release().await?, ReleaseOutcome::StillHeld);
    assert!(inner.verify().await? && !waiting.is_finished());
    assert_eq!(inner.release().await?, ReleaseOutcome::Released);
    soon("the writer's lease", waiting).await??.release().await?;
    Ok(())
}

#[tokio::test]
async fn run_gives_its_answer_frees_the_lock_and_stops_when_it_is_lost() -> Tested {
    let (server, name) = (shared_server(), unique("door"));
    let locks = client(server).await?;
    let lock = locks.mutex(&name).ttl(TTL);
    let fence = lock.run(async |lease: &Lease| Ok::<_, Error>(lease.fence())).await?;
    assert!(fence.get() > 0 && !is_there(server, &name)?);

    let mut went_on = false;
    let result: Result<(), Error> = lock
        .run(async |lease| {
            server.cli(&["DEL", &name]).unwrap();
            assert!(lease.is_held());
            tokio::time::sleep(SOON).await;
            went_on = true;
            Ok(())
        })
        .await;
    assert!(matches!(result, Err(Error::Lost { reason: LossReason::Gone, .. })), "{result:?}");
    assert!(!went_on);
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
    assert_eq!(lease.release().await?, ReleaseOutcome::AlreadyExpired);
    theirs.release().await?;
    drop(others);
    until("no connection is left", async || connections(&server).is_ok_and(|count| count == 0)).await;
    Ok(())
}

#[tokio::test]
async fn a_lease_of_a_client_that_is_dropped_goes_on_until_it_is_dropped_too() -> Tested {
    let server = Server::start()?;
    let lease = quick().connect(&server.url()).await?.mutex("door").ttl(TTL).acquire().await?;
    let start = Instant::now();
    until("two TTLs", async || start.elapsed() > TTL * 2).await;
    assert!(lease.verify().await?);
    drop(lease);
    until("all is gone", async || {
        is_there(&server, "door").is_ok_and(|there| !there) && connections(&server).is_ok_and(|count| count == 0)
    })
    .await;
    Ok(())
}
