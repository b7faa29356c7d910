//! How our clients and polling clients of other libraries share one lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use leasehold_live::{Foreign, LONG, Tested, options};
use leasehold_servers::Server;
use tokio::task::JoinSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_mixed_fleet_both_sides_get_a_fair_part() -> Tested {
    const LASTS: Duration = Duration::from_secs(4);
    // The default claim window.
    const WINDOW: Duration = Duration::from_secs(3);
    const WORK: Duration = Duration::from_millis(5);
    let (server, inside) = (Server::start()?, Arc::new(AtomicU32::new(0)));
    let (ours, theirs) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (start, mut tasks) = (Instant::now(), JoinSet::new());
    for _ in 0..3 {
        let locks = options().mixed_fleet(true).claim_window(WINDOW).connect(&server.url()).await?;
        for _ in 0..2 {
            let (lock, count, inside) = (locks.mutex("door"), Arc::clone(&ours), Arc::clone(&inside));
            tasks.spawn(async move {
                while start.elapsed() < LASTS {
                    let lease = lock.acquire().await?;
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                    tokio::time::sleep(WORK).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    count.fetch_add(1, Ordering::Relaxed);
                    lease.release().await?;
                }
                Tested::Ok(())
            });
        }
    }
    for place in 0..3_u64 {
        let mut foreign = Foreign::connect(&server, &format!("redsync {place}"))?;
        let (count, inside) = (Arc::clone(&theirs), Arc::clone(&inside));
        tasks.spawn(async move {
            // About as often as such clients poll, but not in step with each other.
            let pause = Duration::from_millis(90 + 20 * place);
            while start.elapsed() < LASTS {
                if foreign.lock("door", LONG)? {
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                    tokio::time::sleep(WORK).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    count.fetch_add(1, Ordering::Relaxed);
                    foreign.unlock("door")?;
                }
                tokio::time::sleep(pause).await;
            }
            Tested::Ok(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    let (ours, theirs) = (ours.load(Ordering::Relaxed), theirs.load(Ordering::Relaxed));
    let least = (ours + theirs) / 5;
    assert!(ours > least && theirs > least, "ours {ours}, theirs {theirs}");
    Ok(())
}
