//! Readers share, a writer is alone, and a writer can become a reader without letting another writer in.
//!
//! `cargo run -p leasehold-examples --bin read_write`, with `REDIS_URL` or a server on 127.0.0.1:6379. It prints:
//!
//! ```text
//! writing alone; a reader now: None
//! reading beside each other: Shared and Shared
//! no upgrade beside another reader: ..
//! the sole reader writes again: Exclusive
//! ```

use leasehold::{Error, LockManager};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let locks = LockManager::connect(&url).await?;
    let page = locks.read_write("example:page");

    let writer = page.write().acquire().await?;
    println!("writing alone; a reader now: {:?}", page.read().try_acquire().await?);

    writer.downgrade().await?;
    let reader = page.read().acquire().await?;
    println!("reading beside each other: {:?} and {:?}", writer.mode(), reader.mode());

    // An upgrade never waits: two readers that waited to upgrade would wait for each other.
    if let Err(error) = writer.upgrade().await {
        println!("no upgrade beside another reader: {error}");
    }
    reader.release().await?;
    writer.upgrade().await?;
    println!("the sole reader writes again: {:?}", writer.mode());
    writer.release().await?;
    Ok(())
}
