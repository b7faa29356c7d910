//! Two accounts as one lock: a transfer holds both or none, and transfers in opposite directions never deadlock.
//!
//! `cargo run -p leasehold-examples --bin multi`, with `REDIS_URL` or a server on 127.0.0.1:6379. It prints:
//!
//! ```text
//! example:account:1 -> example:account:2: fence of example:account:1: ..
//! example:account:1 -> example:account:2: fence of example:account:2: ..
//! example:account:2 -> example:account:1: fence of example:account:2: ..
//! example:account:2 -> example:account:1: fence of example:account:1: ..
//! ```

use leasehold::{Error, LockManager};

async fn transfer(locks: &LockManager, from: &str, to: &str) -> Result<(), Error> {
    let lease = locks.multi([from, to]).acquire().await?;
    for (account, fence) in lease.fences() {
        // Each account refuses a fence that is smaller than the greatest one it has seen.
        println!("{from} -> {to}: fence of {account}: {fence}");
    }
    lease.release().await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let locks = LockManager::connect(&url).await?;
    let (one, other) = ("example:account:1", "example:account:2");
    tokio::try_join!(transfer(&locks, one, other), transfer(&locks, other, one))?;
    Ok(())
}
