//! Every instance starts a report at night. One of them makes it, and all of them get it.
//!
//! `cargo run -p leasehold-examples --bin once`, with `REDIS_URL` or a server on 127.0.0.1:6379. It prints:
//!
//! ```text
//! this instance makes the report
//! three instances have 42 rows
//! the next night has another name
//! this instance makes the report
//! ```

use std::error::Error;
use std::time::Duration;

use leasehold::LockManager;
use tokio::time::sleep;

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let locks = LockManager::connect(url).await?;
    for night in ["example:report:2026-11-28", "example:report:2026-11-29"] {
        locks.forget(night).await?;
    }
    // The schedulers of three instances call this. Their clocks may differ.
    let night = "example:report:2026-11-28";
    let (first, second, third) = tokio::try_join!(report(&locks, night), report(&locks, night), report(&locks, night))?;
    assert!(first == second && second == third);
    println!("three instances have {first} rows");
    println!("the next night has another name");
    report(&locks, "example:report:2026-11-29").await?;
    locks.close().await;
    Ok(())
}

async fn report(locks: &LockManager, night: &str) -> Result<u32, Failure> {
    // Longer than the clocks of the instances can differ.
    let once = locks.once(night).keep(Duration::from_secs(36 * 3_600));
    once.run(async |_| {
        println!("this instance makes the report");
        sleep(Duration::from_millis(50)).await;
        Ok::<_, Failure>(42)
    })
    .await
}
