//! Nothing grows.

use std::time::Duration;

use leasehold_live::{FENCE, Tested, client, connections, keys, number, until};
use leasehold_servers::{Error, Server};
use tokio::task::JoinSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_twenty_thousand_cycles_there_are_no_more_keys_and_connections_than_after_a_few() -> Tested {
    const NAMES: usize = 8;
    let server = Server::start()?;
    let clients = [client(&server).await?, client(&server).await?];
    for cycles in [20, 20_000 / (NAMES * clients.len())] {
        let mut tasks = JoinSet::new();
        for locks in &clients {
            for place in 0..NAMES {
                let lock = locks.mutex(format!("door {place}"));
                tasks.spawn(async move {
                    for _ in 0..cycles {
                        lock.acquire().await?.release().await?;
                    }
                    Tested::Ok(())
                });
            }
        }
        while let Some(task) = tasks.join_next().await {
            task??;
        }
        assert_eq!(lasting_keys(&server)?, [FENCE]);
        until("two connections a client", async || connections(&server).is_ok_and(|count| count == 4)).await;
    }
    Ok(())
}

#[tokio::test]
async fn abandoned_waits_leave_nothing_behind() -> Tested {
    let server = Server::start()?;
    let (first, second) = (client(&server).await?, client(&server).await?);
    // The first client doesn't renew it here, however slow the machine is. With a renewal it would subscribe, too.
    let lease = first.mutex("door").ttl(Duration::from_secs(120)).acquire().await?;
    for round in 0..300 {
        let lock = second.mutex("door");
        let _ = tokio::time::timeout(Duration::from_micros(round * 20), lock.acquire()).await;
    }
    lease.release().await?;
    second.mutex("door").acquire().await?.release().await?;
    assert_eq!(lasting_keys(&server)?, [FENCE]);
    until("one for commands each, and one of the waiter's", async || {
        connections(&server).is_ok_and(|count| count == 3)
    })
    .await;
    Ok(())
}

/// Without the tombstones. A token that was given up while one of its commands was unanswered leaves one for a minute. And
/// without the label that each client that waits leaves until it closes.
fn lasting_keys(server: &Server) -> Result<Vec<String>, Error> {
    let mut lasting = Vec::new();
    for key in keys(server)?.into_iter().filter(|key| !key.starts_with("leasehold:client:")) {
        if !key.ends_with(":queue") || number(server, &["ZCOUNT", &key, "0", "+inf"])? > 0 {
            lasting.push(key);
        }
    }
    Ok(lasting)
}
