//! How soon clients leave an old primary after a failover.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leasehold::{LockManager, Wait};
use leasehold_live::{Tested, ToyServer, Watched, is_there, soon};
use leasehold_servers::{Connection, PRIMARY, Server, stay_primary};
use tokio::task::JoinHandle;

fn start() -> Result<Watched, leasehold_servers::Error> {
    let watched = Watched::start_with(Server::builder, 1)?;
    stay_primary(&watched.primary)?;
    Ok(watched)
}

/// A client with a stale sentinel in the first or second place of its list.
async fn client(watched: &Watched, stale: &ToyServer, place: usize) -> Result<LockManager, leasehold::Error> {
    let mut sentinels = watched.urls();
    sentinels.insert(place, stale.url());
    let builder = LockManager::builder().response_timeout(Duration::from_secs(1));
    builder.wait(Wait::For(Duration::from_secs(20))).sentinel(PRIMARY, sentinels).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_second_after_an_orderly_failover_the_old_primary_grants_nothing() -> Tested {
    let watched = Arc::new(start()?);
    let fleet = Fleet::start(&watched).await?;
    let mut switch = Switch::listen(&watched)?;
    watched.sentinel.fail_over()?;
    switch.happened()?;
    assert_eq!(watched.primary.cli(&["SET", "still", "writable"])?.text(), Some("OK"));
    fleet.leaves_the_old_primary().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
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

/// When a lock was granted, and whether the new primary has the lock.
type Granted = (Instant, bool);

/// Clients that take one lock after the other.
struct Fleet {
    end: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Vec<Granted>>>,
}

impl Fleet {
    async fn start(watched: &Arc<Watched>) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let (end, mut clients) = (Arc::new(AtomicBool::new(false)), Vec::new());
        let stale = watched.stale_sentinel()?;
        for client in 0..4 {
            let locks = self::client(watched, &stale, client % 2).await?;
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

    /// Asserts that the old primary grants nothing from one second after the switch on. The test watches it for six
    /// seconds.
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
