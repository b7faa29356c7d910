//! Three permits for a service that bears three requests at once. A big job takes two of them as one lease.
//!
//! `cargo run -p leasehold-examples --bin semaphore`, with `REDIS_URL` or a server on 127.0.0.1:6379. It prints:
//!
//! ```text
//! two and one are taken; another one now: false
//! the big job is done: Released
//! two are free: true
//! ```

use leasehold::{Error, LockManager};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let locks = LockManager::connect(&url).await?;
    let service = locks.semaphore("example:service", 3); // everybody says the same limit

    let big = service.permits(2).acquire().await?;
    let small = service.acquire().await?;
    println!("two and one are taken; another one now: {}", service.try_acquire().await?.is_some());

    // A release gives back what its own lease took, never more; a crash gives it back when the TTL is over.
    println!("the big job is done: {:?}", big.release().await?);
    let pair = service.permits(2).try_acquire().await?;
    println!("two are free: {}", pair.is_some());

    drop((small, pair));
    locks.close().await;
    Ok(())
}
