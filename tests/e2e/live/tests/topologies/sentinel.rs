//! A primary with a replica, and sentinels that watch them.

use leasehold::redis_1::redis::Client;
use leasehold::{Builder, LockManager, LossReason, redis_1};
use leasehold_live::{
    PATIENCE, RENEWED, Tested, ToyServer, Watched, begin, hands_over_by_message, introduce, number, options, soon,
    subscribed, until,
};
use leasehold_servers::{PRIMARY, Server, follow, stay_primary};

async fn client(watched: &Watched, builder: Builder) -> Result<LockManager, leasehold::Error> {
    // The first sentinel is down, which must not matter.
    builder.sentinel(PRIMARY, ["redis://127.0.0.1:1/".to_owned(), watched.sentinel.server().url()]).await
}

async fn waits(locks: &LockManager, name: &str) {
    until("it waits", async || locks.inspect(name).await.is_ok_and(|seen| seen.waiters.len() == 1)).await;
}

#[tokio::test]
async fn the_primary_is_found_and_waiters_are_granted_by_message() -> Tested {
    let watched = Watched::start()?;
    let (first, second) = (client(&watched, options()).await?, client(&watched, options()).await?);
    let lease = first.mutex("door").acquire().await?;
    let waiting = begin(second.mutex("door"));
    waits(&first, "door").await;
    lease.release().await?;
    soon("the lock", waiting).await??.release().await?;
    assert_eq!(number(&watched.primary, &["EXISTS", "leasehold:fence"])?, 1);
    hands_over_by_message(&first, &second, &[&watched.primary], "gate").await
}

#[tokio::test]
async fn after_a_failover_the_old_primary_is_left_at_once_though_it_still_takes_writes() -> Tested {
    let watched = Watched::start()?;
    let (first, second) = (client(&watched, options()).await?, client(&watched, options()).await?);
    let lease = first.mutex("door").wait_for_replicas(1, PATIENCE).acquire().await?;
    let waiting = begin(second.mutex("door"));
    waits(&first, "door").await;
    stay_primary(&watched.primary)?;
    watched.sentinel.fail_over()?;
    assert_eq!(watched.primary.cli(&["SET", "still", "writable"])?.text(), Some("OK"));
    watched.is_left_by(&[first.clone(), second.clone()]).await;
    assert!(watched.primary.cli(&["SET", "still", "writable"]).is_ok(), "and it was not by READONLY");
    assert!(lease.is_held() && soon("an answer", lease.verify()).await?);
    lease.release().await?;
    soon("the lock", waiting).await??.release().await?;
    Ok(())
}

/// Clients with three real sentinels and a stale one in each place of their lists.
async fn misled(watched: &Watched, stale: &ToyServer) -> Result<Vec<LockManager>, leasehold::Error> {
    let mut clients = Vec::new();
    for place in 0..=3 {
        let mut urls = watched.urls();
        urls.insert(place, stale.url());
        clients.push(options().sentinel(PRIMARY, urls).await?);
    }
    Ok(clients)
}

#[tokio::test]
async fn a_stale_sentinel_in_any_place_of_the_list_keeps_no_client_at_the_old_primary() -> Tested {
    let watched = Watched::start_with(Server::builder, 3)?.patient()?;
    let stale = watched.stale_sentinel()?;
    let mut clients = misled(&watched, &stale).await?;
    stay_primary(&watched.primary)?;
    watched.sentinel.fail_over()?;
    clients.extend(misled(&watched, &stale).await?);
    watched.is_left_by(&clients).await;
    for round in 0..50 {
        for (place, locks) in clients.iter().enumerate() {
            assert!(watched.grants_on_new_primary(locks, &format!("{round}")).await, "client {place}, round {round}");
        }
    }
    assert!(watched.primary.cli(&["SET", "still", "writable"]).is_ok(), "the old primary did not know");
    Ok(())
}

#[tokio::test]
async fn a_frozen_sentinel_in_any_place_of_the_list_keeps_no_client_at_the_old_primary() -> Tested {
    let watched = Watched::start_with(Server::builder, 3)?.patient()?;
    let connect = async || {
        let (mut clients, mut urls) = (Vec::new(), watched.urls());
        for _ in 0..3 {
            clients.push(options().sentinel(PRIMARY, urls.clone()).await?);
            urls.rotate_left(1);
        }
        Ok::<_, leasehold::Error>(clients)
    };
    let mut clients = connect().await?;
    watched.others[0].server().pause()?;
    clients.extend(connect().await?);
    stay_primary(&watched.primary)?;
    watched.sentinel.fail_over()?;
    clients.extend(connect().await?);
    watched.is_left_by(&clients).await;
    assert!(watched.primary.cli(&["SET", "still", "writable"]).is_ok(), "the old primary did not know");
    Ok(())
}

#[tokio::test]
#[ignore = "a failover takes seconds"]
async fn messages_come_from_the_new_primary_after_a_failover() -> Tested {
    let watched = Watched::start()?;
    let (first, second) = (client(&watched, options()).await?, client(&watched, options()).await?);
    introduce(&first, &watched.primary).await?;
    let lease = first.mutex("door").acquire().await?;
    let waiting = begin(second.mutex("door"));
    waits(&first, "door").await;
    until("it listens", async || subscribed(&watched.primary).is_ok_and(|count| count == 2)).await;
    watched.sentinel.fail_over()?;
    until("the client listens there", async || subscribed(&watched.replica).is_ok_and(|count| count == 2)).await;
    lease.release().await?;
    soon("the lock", waiting).await??.release().await?;
    Ok(())
}

#[tokio::test]
#[ignore = "a failover takes seconds"]
async fn a_killed_primary_is_replaced_and_its_holder_is_told() -> Tested {
    let mut watched = Watched::start()?;
    let (first, second) = (client(&watched, options()).await?, client(&watched, options()).await?);
    let lease = first.mutex("door").ttl(RENEWED).renew(false).acquire().await?;
    let waiting = begin(second.mutex("door"));
    waits(&first, "door").await;
    watched.lose_primary().await?;
    assert_eq!(soon("the loss", lease.lost()).await, LossReason::Expired);
    let next = soon("the lock", waiting).await??;
    assert!(next.fence() > lease.fence() && next.verify().await?);
    assert_eq!(watched.sentinel.primary()?, watched.replica.port());
    // The old primary comes back, as a replica.
    watched.primary.restart()?;
    assert!(next.verify().await?);
    next.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_name_that_sentinel_does_not_know_and_a_server_that_is_no_sentinel_are_told() -> Tested {
    let watched = Watched::start()?;
    let url = watched.sentinel.server().url();
    let error = options().sentinel("other", [url.as_str()]).await.unwrap_err();
    assert!(matches!(&error, leasehold::Error::InvalidOption { field: "service", .. }), "{error:?}");
    assert!(error.to_string().contains("other"), "{error}");
    let error = options().sentinel(PRIMARY, [watched.primary.url()]).await.unwrap_err();
    assert!(error.to_string().contains("SENTINEL"), "{error}");
    assert!(!error.is_retryable(), "{error:?}");
    let error = options().connect(&url).await.unwrap_err();
    assert_eq!(error.code(), "unsupported", "{error:?}");
    assert!(error.to_string().contains("LockManager::sentinel"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_replica_is_refused_with_the_way_to_follow_its_primary() -> Tested {
    let (primary, replica) = (Server::start()?, Server::start()?);
    follow(&replica, &primary)?;
    let client = Client::open(replica.url())?;
    let connection = client.get_multiplexed_async_connection().await?;
    for outcome in [
        options().connect(&replica.url()).await,
        options().connect(client).await,
        options().from_connection(redis_1::connection(connection)).await,
    ] {
        let error = outcome.expect_err("it connected to a replica");
        assert_eq!(error.code(), "unsupported", "{error:?}");
        assert!(
            error.to_string().contains("replica") && error.to_string().contains("LockManager::sentinel"),
            "{error}"
        );
    }
    Ok(())
}
