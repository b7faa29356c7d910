//! A job that is handed over: the process that accepts it leaves the lock to the server, and a worker takes the lease later.
//!
//! The first client detaches the lease and closes. The lock stays taken for ten minutes, and no process renews it. The token
//! goes with the job. With `at_least`, a lock stays taken for a minimum time, whatever the work does.
//!
//! `cargo run -p leasehold-examples --bin detach`, with `REDIS_URL` or a server on 127.0.0.1:6379. It prints:
//!
//! ```text
//! the first client has closed; the lock is free: false
//! the worker has a greater fence: true
//! after work that took no time, the lock is free: false
//! ```

use std::time::Duration;

use leasehold::{Error, LockManager};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let (web, worker) = (LockManager::connect(&url).await?, LockManager::connect(&url).await?);

    let accepted = web.mutex("example:job").acquire().await?;
    let fence = accepted.fence();
    let token = accepted.detach_for(Duration::from_secs(600)).await?;
    web.close().await;
    let job = worker.mutex("example:job");
    println!("the first client has closed; the lock is free: {}", job.try_acquire().await?.is_some());

    let lease = job.adopt(&token).await?;
    println!("the worker has a greater fence: {}", lease.fence() > fence);
    lease.release().await?;

    job.clone().at_least(Duration::from_secs(600)).run(async |_| Ok::<_, Error>(())).await?;
    println!("after work that took no time, the lock is free: {}", job.try_acquire().await?.is_some());
    worker.force_release("example:job").await?; // so that you can run this program again at once
    worker.close().await;
    Ok(())
}
