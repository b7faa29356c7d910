//! One process of `cargo xtask demo`: a writer, a reader, or the judge, which sets up the account and reads the result.
//!
//! `demo-worker writer|reader|judge <prefix> <ttl ms>`, with the server in `REDIS_URL`. It reports what it does as JSON
//! lines on standard output, accepts the command `linger` on standard input, and ends when standard input is closed.

mod account;
mod orders;

use std::env;
use std::error::Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use account::{Account, PATIENCE};
use leasehold::{Lease, LockManager};
use orders::Orders;
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
    let locks = LockManager::builder().prefix(prefix).response_timeout(PATIENCE).connect(&url).await?;
    tell_ready("");
    match role.as_str() {
        "writer" => write(locks, ttl, account, orders).await,
        "reader" => read(locks, ttl, account, orders).await,
        _ => Err(usage.into()),
    }
}

/// Changes the account in a loop: reads, thinks and writes.
async fn write(locks: LockManager, ttl: Duration, account: Account, orders: Orders) -> Result<(), Box<dyn Error>> {
    while !orders.to_stop() {
        let asked = now();
        let lease = locks.mutex(LOCK).ttl(ttl).acquire().await?;
        let granted = now();
        let fence = lease.fence().get();

        let counter = account.begin(fence).await?;
        let lingers = orders.to_linger();
        if lingers {
            tell("lingering", fence);
            lease.lost().await;
        } else {
            think(fence).await;
        }

        let accepted = match counter {
            Some(counter) => account.commit(fence, counter + 1).await?,
            None => false,
        };
        match (accepted, lingers) {
            (true, false) => tell_done(fence, asked, granted, now(), true),
            (true, true) => tell("slipped", fence),
            (false, _) if lease.is_held() => return Err("there was another writer during a valid lease".into()),
            (false, _) => tell("refused", fence),
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
        // Only what was read during the lease counts.
        if lease.is_held() {
            tell_done(fence, asked, granted, now(), consistent);
        }
        lease.release().await?;
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Sets up the account. At the end, reports what is in it and deletes it.
async fn judge(account: Account, orders: Orders) -> Result<(), Box<dyn Error>> {
    account.open().await?;
    tell_ready(&account.server().await?);
    while !orders.to_stop() {
        sleep(Duration::from_millis(10)).await;
    }
    let (counter, mirror) = (account.counter().await?, account.mirror().await?);
    println!(r#"{{"event":"final","counter":{counter},"mirror":{mirror}}}"#);
    account.close().await
}

/// Waits for one to four milliseconds, like work that others must not disturb.
async fn think(fence: u64) {
    sleep(Duration::from_millis(1 + fence % 4)).await;
}

// The lines are JSON. None of the texts in them needs escapes, so no crate is needed to write them.

fn tell_ready(server: &str) {
    println!(r#"{{"event":"ready","server":"{server}"}}"#);
}

fn tell(event: &str, fence: u64) {
    println!(r#"{{"event":"{event}","fence":{fence}}}"#);
}

fn tell_done(fence: u64, asked: u64, granted: u64, released: u64, consistent: bool) {
    let times = format!(r#""asked":{asked},"granted":{granted},"released":{released}"#);
    println!(r#"{{"event":"done","fence":{fence},{times},"consistent":{consistent}}}"#);
}

/// The time in microseconds, by the system clock, which all processes of the machine share.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
