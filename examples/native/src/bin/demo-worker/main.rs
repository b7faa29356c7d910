//! One process of `cargo xtask demo`: a writer, a reader, or the judge, which sets up the account and reads the result.
//!
//! `demo-worker writer|reader|judge <prefix> <ttl ms>`, with the server in `REDIS_URL`. It reports what it does as JSON
//! lines on standard output, accepts the command `linger` on standard input, and ends when standard input is closed.

mod account;
mod orders;

use std::env;
use std::error::Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use account::Account;
use leasehold::{Lease, LockManager};
use orders::Orders;
use serde_json::json;
use tokio::time::sleep;

const LOCK: &str = "account";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: REDIS_URL=.. demo-worker writer|reader|judge <prefix> <ttl ms>";
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [role, prefix, ttl] = arguments.as_slice() else { return Err(usage.into()) };
    let ttl = Duration::from_millis(ttl.parse()?);
    let url = env::var("REDIS_URL").map_err(|_| usage)?;

    let orders = Orders::listen();
    let account = Account::connect(&url, prefix).await?;
    if role == "judge" {
        return judge(account, orders).await;
    }
    let locks = LockManager::builder().prefix(prefix).connect(&url).await?;
    tell(json!({ "event": "ready", "server": "" }));
    match role.as_str() {
        "writer" => write(locks, ttl, account, orders).await,
        "reader" => read(locks, ttl, account, orders).await,
        _ => Err(usage.into()),
    }
}

/// Changes the account in a loop: reads, thinks and writes. Only the lock protects it.
async fn write(locks: LockManager, ttl: Duration, account: Account, orders: Orders) -> Result<(), Box<dyn Error>> {
    while !orders.to_stop() {
        let asked = now();
        let lease = locks.mutex(LOCK).ttl(ttl).acquire().await?;
        let granted = now();
        let fence = lease.fence().get();

        let counter = account.counter().await?;
        if orders.to_linger() {
            tell(json!({ "event": "lingering", "fence": fence }));
            lease.lost().await;
        } else {
            think(fence).await;
        }

        // The ledger checks fences, so it refuses a late writer even if the writer doesn't know that it is late.
        let late = !lease.is_held();
        match (account.append(fence).await?, late) {
            (false, _) => tell(json!({ "event": "refused", "fence": fence })),
            (true, true) => tell(json!({ "event": "slipped", "fence": fence })),
            (true, false) => {
                account.set(counter + 1).await?;
                tell_done(fence, asked, granted, now(), true);
            }
        }
        lease.release().await?;
    }
    Ok(())
}

/// Reads the account in a loop, together with other readers. It must never see half of a change.
async fn read(locks: LockManager, ttl: Duration, account: Account, orders: Orders) -> Result<(), Box<dyn Error>> {
    while !orders.to_stop() {
        let asked = now();
        let lease: Lease = locks.read_write(LOCK).read().ttl(ttl).acquire().await?;
        let granted = now();
        let fence = lease.fence().get();
        let counter = account.counter().await?;
        think(fence).await;
        let consistent = account.mirror().await? == counter;
        tell_done(fence, asked, granted, now(), consistent);
        lease.release().await?;
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Sets up the account. At the end, reports what is in it and deletes it.
async fn judge(account: Account, orders: Orders) -> Result<(), Box<dyn Error>> {
    account.open().await?;
    tell(json!({ "event": "ready", "server": account.server().await? }));
    while !orders.to_stop() {
        sleep(Duration::from_millis(10)).await;
    }
    tell(json!({ "event": "final", "counter": account.counter().await?, "mirror": account.mirror().await? }));
    account.close().await
}

/// Waits for one to four milliseconds: work that others must not disturb.
async fn think(fence: u64) {
    sleep(Duration::from_millis(1 + fence % 4)).await;
}

fn tell_done(fence: u64, asked: u64, granted: u64, released: u64, consistent: bool) {
    tell(json!({
        "event": "done", "fence": fence, "asked": asked, "granted": granted, "released": released,
        "consistent": consistent,
    }));
}

fn tell(event: serde_json::Value) {
    println!("{event}");
}

/// The time in microseconds, by the system clock, which all processes of the machine share.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
