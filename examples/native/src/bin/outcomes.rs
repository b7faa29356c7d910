//! What becomes of calls that come too often, too late, or from the wrong one. None of them can harm another holder.
//!
//! `cargo run -p leasehold-examples --bin outcomes`, with `REDIS_URL` or a server on 127.0.0.1:6379. It prints:
//!
//! ```text
//! I hold it already: a try gets false
//! I hold it already: `wait` ends with busy
//! I want to hold it twice: StillHeld, then Released
//! my time was over: AlreadyExpired
//! somebody else has it by now: NotOwner
//! ```

use std::time::Duration;

use leasehold::LockManager;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let locks = LockManager::connect(&url).await?;
    let door = locks.mutex("example:front-door");

    // A mutex is not reentrant: it does not know that the second caller is the first one. (`reentrant` does.)
    let lease = door.acquire().await?;
    println!("I hold it already: a try gets {}", door.try_acquire().await?.is_some());
    let again = door.clone().wait(Duration::from_millis(100)).acquire().await;
    println!("I hold it already: `wait` ends with {}", again.map_or_else(|error| error.code(), |_| "a lease"));

    let nested = lease.nested()?;
    println!("I want to hold it twice: {:?}, then {:?}", nested.release().await?, lease.release().await?);
    // Released twice does not compile here: `release` takes the lease. In JavaScript the second call answers what the first one did.

    let short = door.clone().ttl(Duration::from_millis(50)).renew(false);
    let late = short.acquire().await?;
    late.lost().await;
    println!("my time was over: {:?}", late.release().await?);

    // Another client overwrites the key, which no client of ours does. It is left to it.
    let robbed = door.acquire().await?;
    let mut server = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
    redis::cmd("SET").arg(&["example:front-door", "another's", "PX", "500"]).exec_async(&mut server).await?;
    println!("somebody else has it by now: {:?}", robbed.release().await?);
    locks.close().await;
    Ok(())
}
