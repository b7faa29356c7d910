//! Three ways to stop waiting: a limited wait, `try_acquire`, and dropping the future.
//!
//! `cargo run -p leasehold-examples --bin give_up`, with `REDIS_URL` or a server on 127.0.0.1:6379. It prints:
//!
//! ```text
//! lock `example:door`: busy after ..; held by ..; its lease expires in ..
//! try_acquire: None
//! stopped waiting after 300 ms
//! after the release: Some(..)
//! ```

use std::time::Duration;

use leasehold::{Error, LockManager};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let locks = LockManager::connect(&url).await?;
    let door = locks.mutex("example:door");
    let held = door.acquire().await?;

    match door.clone().wait(Duration::from_millis(300)).acquire().await {
        Err(error @ Error::Busy { .. }) => println!("{error}"),
        other => println!("{other:?}"),
    }

    println!("try_acquire: {:?}", door.try_acquire().await?);

    // Dropping the future takes the waiter out of the queue, here and on the server.
    tokio::select! {
        lease = door.acquire() => println!("{lease:?}"),
        () = tokio::time::sleep(Duration::from_millis(300)) => println!("stopped waiting after 300 ms"),
    }

    held.release().await?;
    println!("after the release: {:?}", door.try_acquire().await?);
    Ok(())
}
