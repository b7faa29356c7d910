//! One lock over three independent servers (Redlock). It is held while two of them agree.
//!
//! `cargo run -p leasehold-examples --bin quorum`, with three servers in `REDIS_URLS`, separated by commas. It prints:
//!
//! ```text
//! one server is silent, and the lock is held: true
//! another client gets it: false
//! released: Released
//! the next fence is greater: true
//! with two servers: `servers` ..
//! ```

use std::time::Duration;

use leasehold::LockManager;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let urls = std::env::var("REDIS_URLS")?;
    let urls: Vec<&str> = urls.split(',').collect();
    // How long a server may take to answer. 100 ms suits a LAN. Here, all servers may share a busy machine.
    let builder = LockManager::builder().node_timeout(Duration::from_secs(10));
    let (locks, others) = (builder.clone().quorum(urls.clone()).await?, builder.quorum(urls.clone()).await?);

    // One server does not answer for half a second. The other two are enough.
    let mut one = redis::Client::open(urls[0])?.get_multiplexed_async_connection().await?;
    redis::cmd("CLIENT").arg("PAUSE").arg(500).arg("ALL").exec_async(&mut one).await?;
    let lease = locks.mutex("example:ledger").acquire().await?;
    let fence = lease.fence();
    println!("one server is silent, and the lock is held: {}", lease.verify().await?);
    let another = others.mutex("example:ledger").try_acquire().await?;
    println!("another client gets it: {}", another.is_some());
    println!("released: {:?}", lease.release().await?);

    let next = others.mutex("example:ledger").acquire().await?;
    println!("the next fence is greater: {}", next.fence() > fence);
    next.release().await?;

    if let Err(error) = LockManager::quorum(urls.iter().copied().take(2)).await {
        println!("with two servers: {error}");
    }
    others.close().await;
    locks.close().await;
    Ok(())
}
