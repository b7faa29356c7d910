//! A watchdog: the lease is renewed while the work lasts, but not forever.
//!
//! Some articles renew a lock a fixed number of times. Here, a `max_hold` of three TTLs does that: then the renewals
//! stop, and the holder is notified. If the lease is lost earlier, because the server is down, the holder is notified
//! before the lease expires.
//!
//! `cargo run -p leasehold-examples --bin renewal`, with `REDIS_URL` or a server on 127.0.0.1:6379. It prints:
//!
//! ```text
//! after two TTLs: held by the local clock true, on the server true
//! after three TTLs: it reached its max_hold
//! another client gets the lock: true
//! ```

use std::time::Duration;

use leasehold::{Error, LockManager};
use tokio::time::{Instant, sleep_until};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let locks = LockManager::connect(&url).await?;
    let ttl = Duration::from_secs(3); // the default is 30 s; it is renewed at a third of it

    let start = Instant::now();
    let report = locks.mutex("example:slow-report").ttl(ttl).max_hold(3 * ttl);
    let lease = report.acquire().await?;
    sleep_until(start + 2 * ttl).await;
    println!("after two TTLs: held by the local clock {}, on the server {}", lease.is_held(), lease.verify().await?);

    println!("after three TTLs: {}", lease.lost().await);
    let next = LockManager::connect(&url).await?;
    println!("another client gets the lock: {}", next.mutex("example:slow-report").acquire().await.is_ok());
    next.close().await;
    locks.close().await;
    Ok(())
}
