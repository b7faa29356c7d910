//! A process that has to end: the job that runs finishes, the one that waits doesn't begin, and no lock is left.
//!
//! The manual's page about shutting down shows how to wait for SIGTERM, also with axum.
//!
//! `cargo run -p leasehold-examples --bin shutdown`, with `REDIS_URL` or a server on 127.0.0.1:6379. It prints:
//!
//! ```text
//! the first job runs
//! the process has to end
//! the second job is left to another process: closed
//! the first job is done
//! closed: 0 leases lost, 0 locks unreleased
//! ```

use std::time::Duration;

use leasehold::{Error, LockManager};
use tokio::sync::Notify;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let locks = LockManager::connect(&url).await?;

    // The first job runs until the second one has ended.
    let (begun, over) = (Notify::new(), Notify::new());
    let first = job(&locks, "first", async || {
        begun.notify_one();
        over.notified().await;
    });
    let second = async {
        let ended = job(&locks, "second", async || ()).await;
        over.notify_one();
        ended
    };
    let ends = async {
        begun.notified().await; // until SIGTERM
        println!("the process has to end");
        locks.close_draining(Duration::from_secs(25)).await
    };
    let ((), (), closed) = tokio::try_join!(first, second, ends)?;
    println!("closed: {} leases lost, {} locks unreleased", closed.lost, closed.unreleased);
    Ok(())
}

async fn job(locks: &LockManager, name: &str, work: impl AsyncFn()) -> Result<(), Error> {
    let done = locks.mutex("example:customer:7").run(async |_| {
        println!("the {name} job runs");
        work().await;
        println!("the {name} job is done");
        Ok(())
    });
    match done.await {
        Err(error @ Error::Closed) => {
            println!("the {name} job is left to another process: {}", error.code());
            Ok(())
        }
        other => other,
    }
}
