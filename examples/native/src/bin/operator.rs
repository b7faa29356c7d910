//! Is it still mine, who has it, and an operator who takes it away.
//!
//! `cargo run -p leasehold-examples --bin operator`, with `REDIS_URL` or a server on 127.0.0.1:6379. It prints:
//!
//! ```text
//! by my clock true, by the server's word true
//! on the server: 1 holder, 30 s left at most, 0 waiters
//! taken from 1 holder
//! by the server's word false, and from now on by my clock false
//! the next holder's fence is greater: true
//! my late release: AlreadyExpired
//! ```

use leasehold::{Error, LockManager};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let (worker, operator) = (LockManager::connect(&url).await?, LockManager::connect(&url).await?);
    let name = "example:import";

    let lease = worker.mutex(name).acquire().await?;
    // The first asks nobody. The second costs a round trip, and is as true as the moment it was answered in.
    println!("by my clock {}, by the server's word {}", lease.is_held(), lease.verify().await?);

    let seen = operator.inspect(name).await?;
    let left = seen.holders.first().and_then(|holder| holder.remaining).unwrap_or_default();
    let (holders, waiters) = (seen.holders.len(), seen.waiters.len());
    println!("on the server: {holders} holder, {} s left at most, {waiters} waiters", left.as_secs_f64().ceil());

    // The holder is told by message if it listens, at its next renewal, or when it asks; its late writes only the fence stops.
    println!("taken from {} holder", operator.force_release(name).await?);
    println!("by the server's word {}, and from now on by my clock {}", lease.verify().await?, lease.is_held());

    let next = operator.mutex(name).acquire().await?;
    println!("the next holder's fence is greater: {}", next.fence() > lease.fence());
    println!("my late release: {:?}", lease.release().await?);
    next.release().await?;
    worker.close().await;
    operator.close().await;
    Ok(())
}
