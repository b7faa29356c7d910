//! Checks a lease, shows who holds a lock, and takes it away as an operator.
//!
//! `cargo run -p leasehold-examples --bin operator`, with `REDIS_URL` or a server on 127.0.0.1:6379. It prints:
//!
//! ```text
//! held by the local clock: true, on the server: true
//! the server has 1 holder, whose lease expires within .. s, and 0 waiters
//! taken from 1 holder
//! held on the server: false, by the local clock: false
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
    // `is_held` does no I/O. `verify` costs a round trip, and its answer can be out of date when it arrives.
    println!("held by the local clock: {}, on the server: {}", lease.is_held(), lease.verify().await?);

    let seen = operator.inspect(name).await?;
    let left = seen.holders.first().and_then(|holder| holder.remaining).unwrap_or_default();
    let (holders, waiters) = (seen.holders.len(), seen.waiters.len());
    let seconds = left.as_secs_f64().ceil();
    println!("the server has {holders} holder, whose lease expires within {seconds} s, and {waiters} waiters");

    // The holder finds out by a message if it listens, at its next renewal, or when it calls `verify`. Until then, only
    // a fence stops its writes.
    println!("taken from {} holder", operator.force_release(name).await?);
    println!("held on the server: {}, by the local clock: {}", lease.verify().await?, lease.is_held());

    let next = operator.mutex(name).acquire().await?;
    println!("the next holder's fence is greater: {}", next.fence() > lease.fence());
    println!("my late release: {:?}", lease.release().await?);
    next.release().await?;
    worker.close().await;
    operator.close().await;
    Ok(())
}
