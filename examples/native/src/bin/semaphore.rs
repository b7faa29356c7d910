//! Three permits for a service that handles three requests at a time. A big job takes two of them as one lease.
//!
//! `cargo run -p leasehold-examples --bin semaphore`, with `REDIS_URL` or a server on 127.0.0.1:6379. It prints:
//!
//! ```text
//! another permit while three are taken: false
//! the big job is done: Released
//! two permits after they were released: true
//! ```

use leasehold::{Error, LockManager};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let locks = LockManager::connect(&url).await?;
    let service = locks.semaphore("example:service", 3); // all callers use the same limit

    let big = service.permits(2).acquire().await?;
    let small = service.acquire().await?;
    println!("another permit while three are taken: {}", service.try_acquire().await?.is_some());

    // A release gives back what its own lease took, never more. After a crash, the lease expires and gives it back.
    println!("the big job is done: {:?}", big.release().await?);
    let pair = service.permits(2).try_acquire().await?;
    println!("two permits after they were released: {}", pair.is_some());

    drop((small, pair));
    locks.close().await;
    Ok(())
}
