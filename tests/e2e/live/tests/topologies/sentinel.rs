//! A primary with a replica, and a sentinel that watches them.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leasehold::redis::Client;
use leasehold::{Builder, LockManager, LossReason};
use leasehold_live::{SOON, Tested, begin, is_there, number, quick, soon, subscribed, until};
use leasehold_servers::{Connection, PRIMARY, Sentinel, Server, follow};
use tokio::task::JoinHandle;

struct Watched {
    primary: Server,
    replica: Server,
    sentinel: Sentinel,
}

fn start() -> Result<Watched, leasehold_servers::Error> {
    let (primary, replica) = (Server::start()?, Server::start()?);
    follow(&replica, &primary)?;
    let sentinel = Sentinel::start(Server::builder(), &primary, 1, "")?;
    Ok(Watched { primary, replica, sentinel })
}

impl Watched {
    async fn client(&self, builder: Builder) -> Result<LockManager, leasehold::Error> {
        // The first sentinel is down, which must not matter.
        builder.sentinel(PRIMARY, ["redis://127.0.0.1:1/".to_owned(), self.sentinel.server().url()]).await
    }
}

/// A client for which no heartbeat can find a grant in time.
fn by_message() -> Builder {
    quick().claim_window(Duration::from_secs(30))
}

async fn waits(locks: &LockManager, name: &str) {
    until("it waits", async || locks.inspect(name).await.is_ok_and(|seen| seen.waiters.len() == 1)).await;
}

#[tokio::test]
async fn the_primary_is_found_and_waiters_are_granted_by_message() -> Tested {
    let watched = start()?;
    let (first, second) = (watched.client(by_message()).await?, watched.client(by_message()).await?);
    let lease = first.mutex("door").acquire().await?;
    let waiting = begin(second.mutex("door"));
    waits(&first, "door").await;
    lease.release().await?;
    soon("the lock", waiting).await??.release().await?;
    assert_eq!(number(&watched.primary, &["EXISTS", "leasehold:fence"])?, 1);
    Ok(())
}

#[tokio::test]
async fn after_a_failover_the_old_primary_is_left_at_once_though_it_still_takes_writes() -> Tested {
    let watched = start()?;
    let (first, second) = (watched.client(quick()).await?, watched.client(quick()).await?);
    let lease = first.mutex("door").wait_for_replicas(1, Duration::from_secs(2)).acquire().await?;
    let waiting = begin(second.mutex("door"));
    waits(&first, "door").await;
    watched.sentinel.fail_over()?;
    // The old primary finds out seconds later that it is a replica.
    assert_eq!(watched.primary.cli(&["SET", "still", "writable"])?.text(), Some("OK"));
    until("both are on the new primary", async || {
        for locks in [&first, &second] {
            let seen = locks.mutex("elsewhere").acquire().await;
            let there = is_there(&watched.replica, "elsewhere").is_ok_and(|there| there);
            let Ok(lease) = seen else { return false };
            let _ = lease.release().await;
            if !there {
                return false;
            }
        }
        true
    })
    .await;
    assert!(watched.primary.cli(&["SET", "still", "writable"]).is_ok(), "and it was not by READONLY");
    assert!(lease.is_held() && soon("an answer", lease.verify()).await?);
    lease.release().await?;
    soon("the lock", waiting).await??.release().await?;
    Ok(())
}

#[tokio::test]
#[ignore = "a failover takes seconds"]
async fn messages_come_from_the_new_primary_after_a_failover() -> Tested {
    let watched = start()?;
    let (first, second) = (watched.client(quick()).await?, watched.client(quick()).await?);
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
    let mut watched = start()?;
    let (first, second) = (watched.client(quick()).await?, watched.client(quick()).await?);
    let lease = first.mutex("door").ttl(Duration::from_millis(900)).renew(false).acquire().await?;
    let waiting = begin(second.mutex("door"));
    waits(&first, "door").await;
    watched.primary.stop();
    assert_eq!(soon("the loss", lease.lost()).await, LossReason::Expired);
    let next = tokio::time::timeout(SOON * 2, waiting).await???;
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
    let watched = start()?;
    let url = watched.sentinel.server().url();
    let error = quick().sentinel("other", [url.as_str()]).await.unwrap_err();
    assert!(matches!(&error, leasehold::Error::InvalidOption { field: "service", .. }), "{error:?}");
    assert!(error.to_string().contains("other"), "{error}");
    let error = quick().sentinel(PRIMARY, [watched.primary.url()]).await.unwrap_err();
    assert!(error.to_string().contains("SENTINEL"), "{error}");
    assert!(!error.is_retryable(), "{error:?}");
    let error = quick().connect(&url).await.unwrap_err();
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
        quick().connect(&replica.url()).await,
        quick().from_client(client).await,
        quick().from_connection(connection).await,
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a failover takes seconds"]
async fn one_second_after_an_orderly_failover_the_old_primary_grants_nothing() -> Tested {
    let watched = Arc::new(start()?);
    let fleet = Fleet::start(&watched).await?;
    let mut switch = Switch::listen(&watched)?;
    watched.sentinel.fail_over()?;
    switch.happened()?;
    // It takes writes until it finds out, seconds later, that it is a replica.
    assert_eq!(watched.primary.cli(&["SET", "still", "writable"])?.text(), Some("OK"));
    fleet.leaves_the_old_primary().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a failover takes seconds"]
async fn one_second_after_a_forced_failover_the_old_primary_that_wakes_up_grants_nothing() -> Tested {
    let watched = Arc::new(start()?);
    let fleet = Fleet::start(&watched).await?;
    let mut switch = Switch::listen(&watched)?;
    watched.primary.pause()?;
    switch.happened()?;
    watched.primary.resume()?;
    fleet.leaves_the_old_primary().await
}

/// The moment in which a sentinel announces another primary.
struct Switch(Connection);

impl Switch {
    fn listen(watched: &Watched) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let mut connection = watched.sentinel.server().connect()?;
        connection.call(&["SUBSCRIBE", "+switch-master"])?;
        Ok(Self(connection))
    }

    fn happened(&mut self) -> Tested {
        self.0.receive()?;
        Ok(())
    }
}

/// When a lock was granted, and whether the new primary has it.
type Granted = (Instant, bool);

/// Clients that take one lock after the other.
struct Fleet {
    end: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Vec<Granted>>>,
}

impl Fleet {
    async fn start(watched: &Arc<Watched>) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let (end, mut clients) = (Arc::new(AtomicBool::new(false)), Vec::new());
        for client in 0..4 {
            let locks = watched.client(quick()).await?;
            let (watched, end) = (Arc::clone(watched), Arc::clone(&end));
            clients.push(tokio::spawn(async move {
                let mut grants = Vec::new();
                while !end.load(Ordering::Relaxed) {
                    let name = format!("door-{client}-{}", grants.len());
                    let Ok(lease) = locks.mutex(&name).acquire().await else { continue };
                    let at = Instant::now();
                    grants.push((at, is_there(&watched.replica, &name).is_ok_and(|there| there)));
                    let _ = lease.release().await;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                grants
            }));
        }
        Ok(Self { end, clients })
    }

    /// From one second after the switch, for as long as a sentinel lets an old primary go on.
    async fn leaves_the_old_primary(self) -> Tested {
        let switched = Instant::now();
        tokio::time::sleep(Duration::from_secs(6)).await;
        self.end.store(true, Ordering::Relaxed);
        for client in self.clients {
            let grants = soon("the client's end", client).await?;
            let late: Vec<_> = grants.iter().filter(|(at, _)| *at > switched + Duration::from_secs(1)).collect();
            assert!(late.len() > 20, "only {} grants since the failover", late.len());
            let old = late.iter().filter(|(_, there)| !there).count();
            assert_eq!(old, 0, "of {} grants since the failover the old primary gave {old}", late.len());
        }
        Ok(())
    }
}
