//! An owner takes its own lock again, at once. All others wait until it has released the lock as many times.
//!
//! On the server it is Redisson's `RLock`: a Java service that calls `getLock("example:account:7")` uses the same lock.
//!
//! `cargo run -p leasehold-examples --bin reentrant`, with `REDIS_URL` or a server on 127.0.0.1:6379. It prints:
//!
//! ```text
//! paying, 1 hold
//! booking, 2 holds
//! another owner gets it: false
//! booked: StillHeld
//! paid: Released
//! ```

use leasehold::{Error, LockManager, Owner};

const ACCOUNT: &str = "example:account:7";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let locks = LockManager::connect(&url).await?;
    // Make one owner for each piece of work, such as a request, and pass it along. In Java, the thread is the owner.
    pay(&locks, &Owner::new()).await?;
    locks.close().await;
    Ok(())
}

async fn pay(locks: &LockManager, owner: &Owner) -> Result<(), Error> {
    let lease = locks.reentrant(ACCOUNT, owner).acquire().await?;
    println!("paying, {} hold", lease.hold_count());
    book(locks, owner).await?;
    println!("paid: {:?}", lease.release().await?);
    Ok(())
}

/// Takes the lock itself, because it is also called without the lock.
async fn book(locks: &LockManager, owner: &Owner) -> Result<(), Error> {
    let lease = locks.reentrant(ACCOUNT, owner).acquire().await?;
    println!("booking, {} holds", lease.hold_count());
    let another = locks.reentrant(ACCOUNT, &Owner::new()).try_acquire().await?;
    println!("another owner gets it: {}", another.is_some());
    println!("booked: {:?}", lease.release().await?);
    Ok(())
}
