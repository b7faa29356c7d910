//! Beside a pool: deadpool and bb8 carry the application's commands, and leasehold has its own connections.
//!
//! A pool lends a connection for a few commands. A lock manager uses one connection as long as it lives: renewals and
//! messages of all its locks travel over it. So give the manager the address of the pool's server, and not one of the
//! pool's connections. It opens one connection, and a second one when a call first waits.
//!
//! `cargo run -p leasehold-examples --bin pools`, with `REDIS_URL` or a server on 127.0.0.1:6379. It prints:
//!
//! ```text
//! deadpool wrote under the lock: saved
//! bb8 wrote under the lock: saved
//! a write with an old fence: refused
//! ```

use std::error::Error;

use bb8_redis::RedisConnectionManager;
use leasehold::{Fence, LockManager};
use redis::Client;
use redis::aio::ConnectionLike;

/// Writes the value unless a greater fence has written it. It is atomic, so it suits any connection.
const SAVE: &str = "
    if tonumber(redis.call('HGET', KEYS[1], 'fence') or '0') > tonumber(ARGV[1]) then return 'refused' end
    redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2])
    return 'saved'";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let client = Client::open(url.as_str())?;
    let deadpool = deadpool_redis::Config::from_url(&url).create_pool(Some(deadpool_redis::Runtime::Tokio1))?;
    let bb8 = bb8::Pool::builder().max_size(4).build(RedisConnectionManager::new(url.as_str())?).await?;
    let locks = LockManager::connect(client).await?;

    let lease = locks.mutex("example:invoice:42").acquire().await?;
    let old = lease.fence();
    let mut connection = deadpool.get().await?;
    println!("deadpool wrote under the lock: {}", save(&mut *connection, "paid", old).await?);
    lease.release().await?;

    let lease = locks.mutex("example:invoice:42").acquire().await?;
    let mut connection = bb8.get().await?;
    println!("bb8 wrote under the lock: {}", save(&mut *connection, "sent", lease.fence()).await?);
    println!("a write with an old fence: {}", save(&mut *connection, "paid", old).await?);
    lease.release().await?;
    locks.close().await;
    Ok(())
}

async fn save(connection: &mut impl ConnectionLike, value: &str, fence: Fence) -> redis::RedisResult<String> {
    let mut save = redis::cmd("EVAL");
    save.arg(SAVE).arg(1).arg("example:invoice:42:state").arg(fence.get()).arg(value);
    save.query_async(connection).await
}
