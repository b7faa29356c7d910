//! Every instance starts a job at night, and only one runs it.
//!
//! The lock alone is not enough: an instance whose clock is slow finds the lock free and would run the job again. So the job
//! has a mark in Redis. The mark checks the fencing token: an instance that lost its lease can't mark the job as done.
//!
//! `cargo run -p leasehold-examples --bin nightly`, with `REDIS_URL` or a server on 127.0.0.1:6379. It prints:
//!
//! ```text
//! sent page 1
//! sent page 2
//! sent page 3
//! one instance: ran
//! the other instance: done before
//! ```

use std::error::Error;
use std::time::Duration;

use leasehold::{Fence, LockManager};
use redis::Client;
use redis::aio::MultiplexedConnection;
use tokio::time::sleep;

type Failure = Box<dyn Error + Send + Sync>;

/// One atomic step. It changes nothing after "done", and refuses a fence smaller than the greatest one so far.
const MARK: &str = "
    local done, fence = unpack(redis.call('HMGET', KEYS[1], 'done', 'fence'))
    if done then return 'done' end
    if tonumber(ARGV[1]) < tonumber(fence or 0) then return 'late' end
    redis.call('HSET', KEYS[1], 'fence', ARGV[1])
    if ARGV[2] == 'done' then redis.call('HSET', KEYS[1], 'done', '1') end
    redis.call('EXPIRE', KEYS[1], 172800)
    return 'marked'";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let connection = Client::open(url.as_str())?.get_multiplexed_async_connection().await?;
    let locks = LockManager::connect(url).await?;
    // Two instances of the program would each do this, called by their schedulers.
    let (one, other) = tokio::join!(instance(&locks, &connection), instance(&locks, &connection));
    println!("one instance: {}", one?);
    println!("the other instance: {}", other?);
    locks.close().await;
    Ok(())
}

async fn instance(locks: &LockManager, connection: &MultiplexedConnection) -> Result<&'static str, Failure> {
    once(locks, connection, "example:invoices:2026-11-29", async || {
        for page in 1..=3 {
            sleep(Duration::from_millis(50)).await;
            println!("sent page {page}");
        }
        Ok(())
    })
    .await
}

/// Runs `work` once for this id in the whole fleet. If the lease is lost, the work is dropped at its next `await`.
async fn once(
    locks: &LockManager,
    connection: &MultiplexedConnection,
    id: &str,
    work: impl AsyncFn() -> Result<(), Failure>,
) -> Result<&'static str, Failure> {
    let job = locks.mutex(id).wait(Duration::from_secs(3_600));
    job.run(async |lease| {
        let overtaken = || format!("job {id}: another instance has taken over");
        match mark(connection, id, lease.fence(), "begun").await?.as_str() {
            "done" => return Ok("done before"),
            "late" => return Err(overtaken().into()),
            _ => work().await?,
        }
        match mark(connection, id, lease.fence(), "done").await?.as_str() {
            "marked" => Ok("ran"),
            _ => Err(overtaken().into()),
        }
    })
    .await
}

async fn mark(connection: &MultiplexedConnection, id: &str, fence: Fence, state: &str) -> redis::RedisResult<String> {
    let mut mark = redis::cmd("EVAL");
    mark.arg(MARK).arg(1).arg(format!("{id}:mark")).arg(fence.get()).arg(state);
    mark.query_async(&mut connection.clone()).await
}
