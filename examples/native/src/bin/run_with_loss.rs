//! `run` ends the work when its lease is lost, here because an operator deletes the key.
//!
//! `cargo run -p leasehold-examples --bin run_with_loss`, with `REDIS_URL` or a server on 127.0.0.1:6379. It prints:
//!
//! ```text
//! page 1, fence ..
//! ..
//! stopped: its key vanished from the server
//! ```

use std::error::Error;
use std::time::Duration;

use leasehold::LockManager;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let locks = LockManager::connect(&url).await?;
    let name = "example:report";
    let operator = tokio::spawn(delete_after(Duration::from_secs(2), url, name));

    // A lease with a short TTL is renewed more often, so the loss is found sooner.
    let report = locks.mutex(name).ttl(Duration::from_secs(6));
    let result: Result<(), leasehold::Error> = report
        .run(async |lease| {
            for page in 1.. {
                println!("page {page}, fence {}", lease.fence());
                tokio::time::sleep(Duration::from_millis(400)).await;
            }
            Ok(())
        })
        .await;

    operator.await??;
    match result {
        Err(leasehold::Error::Lost { reason, .. }) => println!("stopped: {reason}"),
        other => println!("{other:?}"),
    }
    Ok(())
}

async fn delete_after(delay: Duration, url: String, key: &str) -> redis::RedisResult<()> {
    tokio::time::sleep(delay).await;
    let mut server = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
    redis::cmd("DEL").arg(key).query_async(&mut server).await
}
