//! Readers share the lock, a writer holds it alone, and a writer can become a reader without letting another writer in.
//!
//! `cargo run -p leasehold-examples --bin read_write`, with `REDIS_URL` or a server on 127.0.0.1:6379. It prints:
//!
//! ```text
//! a reader while the writer holds the lock: None
//! two readers: Shared and Shared
//! an upgrade while another reader holds the lock: conflict
//! an upgrade of the only reader: Exclusive
//! ```

use leasehold::{Error, LockManager};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let locks = LockManager::connect(&url).await?;
    let page = locks.read_write("example:page");

    let writer = page.write().acquire().await?;
    println!("a reader while the writer holds the lock: {:?}", page.read().try_acquire().await?);

    writer.downgrade().await?;
    let reader = page.read().acquire().await?;
    println!("two readers: {:?} and {:?}", writer.mode(), reader.mode());

    // An upgrade never waits, because two upgrades would wait for each other.
    if let Err(error) = writer.upgrade().await {
        println!("an upgrade while another reader holds the lock: {}", error.code());
    }
    reader.release().await?;
    writer.upgrade().await?;
    println!("an upgrade of the only reader: {:?}", writer.mode());
    writer.release().await?;
    Ok(())
}
