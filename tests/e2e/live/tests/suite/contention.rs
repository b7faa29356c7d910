//! Many clients on one name.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::redis_1::redis::{self, aio::MultiplexedConnection};
use leasehold::{Fence, LockManager};
use leasehold_live::{Tested, client, shared_server, unique};
use tokio::task::JoinSet;

const CLIENTS: usize = 6;
const TASKS: usize = 4;
const ROUNDS: usize = 10;

/// Reads the counter, and writes it plus one. If somebody else writes in between, an update is lost.
async fn count_up(connection: &mut MultiplexedConnection, key: &str) -> redis::RedisResult<()> {
    let count: Option<u64> = redis::cmd("GET").arg(key).query_async(connection).await?;
    redis::cmd("SET").arg(key).arg(count.unwrap_or(0) + 1).query_async(connection).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_lose_no_update_and_their_fences_rise() -> Tested {
    let (server, name, counter) = (shared_server(), unique("door"), unique("counter"));
    let fences = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for _ in 0..CLIENTS {
        let locks = client(server).await?;
        let connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
        for _ in 0..TASKS {
            let (lock, counter, fences) = (locks.mutex(&name), counter.clone(), Arc::clone(&fences));
            let mut connection = connection.clone();
            tasks.spawn(async move {
                for _ in 0..ROUNDS {
                    let lease = lock.acquire().await?;
                    count_up(&mut connection, &counter).await?;
                    fences.lock().unwrap().push(lease.fence());
                    lease.release().await?;
                }
                Tested::Ok(())
            });
        }
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    let counted = server.cli(&["GETDEL", &counter])?;
    assert_eq!(counted.text(), Some((CLIENTS * TASKS * ROUNDS).to_string().as_str()));
    let fences = fences.lock().unwrap();
    assert!(fences.is_sorted_by(|one: &Fence, next| one < next), "a later holder had no greater fence");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_work_together_and_never_beside_a_writer() -> Tested {
    let (server, name) = (shared_server(), unique("page"));
    // A reader counts as one, a writer as a thousand.
    let (present, most_readers) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = JoinSet::new();
    for task in 0..CLIENTS * TASKS {
        let locks: LockManager = client(server).await?;
        let lock = locks.read_write(&name);
        let (lock, weight) = if task % 4 == 0 { (lock.write(), 1000) } else { (lock.read(), 1) };
        let (present, most_readers) = (Arc::clone(&present), Arc::clone(&most_readers));
        tasks.spawn(async move {
            for _ in 0..ROUNDS {
                let lease = lock.acquire().await?;
                let others = present.fetch_add(weight, Ordering::SeqCst);
                if weight == 1 {
                    assert!(others < 1000, "a reader beside a writer");
                    most_readers.fetch_max(others + 1, Ordering::SeqCst);
                } else {
                    assert_eq!(others, 0, "a writer beside somebody");
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
                present.fetch_sub(weight, Ordering::SeqCst);
                lease.release().await?;
            }
            Tested::Ok(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    assert!(most_readers.load(Ordering::SeqCst) > 1, "readers went one by one");
    Ok(())
}
