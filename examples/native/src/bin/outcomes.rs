//! What happens to a call that is repeated, late, or made after another client took the lock. None of them can harm
//! another holder.
//!
//! `cargo run -p leasehold-examples --bin outcomes`, with `REDIS_URL` or a server on 127.0.0.1:6379. It prints:
//!
//! ```text
//! try_acquire while I hold the lock: None
//! acquire while I hold the lock: busy
//! two holds, released one by one: StillHeld, then Released
//! released after the lease expired: AlreadyExpired
//! released after another client took the lock: NotOwner
//! ```

use std::time::Duration;

use leasehold::LockManager;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let locks = LockManager::connect(&url).await?;
    let door = locks.mutex("example:front-door");

    // A mutex is not reentrant: the second caller waits, even if it is the holder. (A `reentrant` lock is.)
    let lease = door.acquire().await?;
    println!("try_acquire while I hold the lock: {:?}", door.try_acquire().await?);
    let again = door.clone().wait(Duration::from_millis(100)).acquire().await;
    println!("acquire while I hold the lock: {}", again.map_or_else(|error| error.code(), |_| "a lease"));

    // `release` takes the lease, so the compiler refuses a second release.
    let nested = lease.nested()?;
    println!("two holds, released one by one: {:?}, then {:?}", nested.release().await?, lease.release().await?);

    let short = door.clone().ttl(Duration::from_millis(50)).renew(false);
    let late = short.acquire().await?;
    late.lost().await;
    println!("released after the lease expired: {:?}", late.release().await?);

    // Something else overwrites the key, which leasehold never does. The release leaves that key alone.
    let robbed = door.acquire().await?;
    let mut server = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
    redis::cmd("SET").arg(&["example:front-door", "another's", "PX", "60000"]).exec_async(&mut server).await?;
    println!("released after another client took the lock: {:?}", robbed.release().await?);
    locks.close().await;
    Ok(())
}
