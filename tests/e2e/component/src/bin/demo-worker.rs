//! One process of `cargo xtask demo`, like `demo/worker`: a writer that gets its locks from the
//! component, in wasmtime.
//!
//! `demo-worker writer <prefix> <ttl ms>`, with the server in `REDIS_URL` and the component in `LEASEHOLD_LOCK_WASM`.

#[allow(dead_code, reason = "the judge is in Rust")]
#[path = "../../../../../demo/worker/src/account.rs"]
mod account;
#[path = "../../../../../demo/worker/src/orders.rs"]
mod orders;

use std::env;
use std::error::Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use account::Account;
use leasehold_component_tests::with_component;
use leasehold_wasmtime_host::{AcquireOptions, HoldEnd, Lease, Locks, ManagerOptions, RedisProvider, Target};
use orders::Orders;
use serde_json::json;

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// The arguments of the process.
struct Job {
    url: String,
    prefix: String,
    ttl_ms: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result {
    let usage = "usage: REDIS_URL=.. LEASEHOLD_LOCK_WASM=.. demo-worker writer <prefix> <ttl ms>";
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [_writer, prefix, ttl] = arguments.as_slice() else { return Err(usage.into()) };
    let job = Job { url: env::var("REDIS_URL").map_err(|_| usage)?, prefix: prefix.clone(), ttl_ms: ttl.parse()? };
    let orders = Orders::listen();
    let account = Account::connect(&job.url, prefix).await?;
    with_component(RedisProvider, async |locks| write(locks, &job, account, orders).await).await?
}

/// Changes the account repeatedly: it reads, waits and writes.
async fn write(locks: Locks<'_>, job: &Job, account: Account, orders: Orders) -> Result {
    let options = ManagerOptions {
        prefix: Some(job.prefix.clone()),
        local_handoffs: None,
        claim_window_ms: None,
        // The machine may be building something, so the server may take long to answer.
        response_timeout_ms: Some(30_000),
        node_timeout_ms: None,
        mixed_fleet: None,
        cluster_slots: None,
        label: None,
    };
    let manager = locks.open(&job.url, Some(options)).await??;
    tell(json!({ "event": "ready", "server": "" }));
    while !orders.to_stop() {
        let asked = now();
        let options = AcquireOptions { ttl_ms: Some(job.ttl_ms), wait_ms: None, max_hold_ms: None, max_waiters: None };
        let lease = manager.acquire(Target::Mutex("account".to_owned()), Some(options)).await??;
        let granted = now();
        let fence = lease.fence().await?;

        let counter = account.begin(fence).await?;
        let lingers = orders.to_linger();
        if lingers {
            tell(json!({ "event": "lingering", "fence": fence }));
            lost(lease).await?;
        } else {
            // Much shorter than the TTL, so the lease needs no renewal in between.
            tokio::time::sleep(Duration::from_millis(1 + fence % 4)).await;
        }

        let accepted = match counter {
            Some(counter) => account.commit(fence, counter + 1).await?,
            None => false,
        };
        match (accepted, lingers) {
            (true, false) => tell(json!({
                "event": "done", "fence": fence, "asked": asked, "granted": granted, "released": now(),
                "consistent": true,
            })),
            (true, true) => tell(json!({ "event": "slipped", "fence": fence })),
            (false, _) if lease.is_held().await? => return Err("there was another writer during a valid lease".into()),
            (false, _) => tell(json!({ "event": "refused", "fence": fence })),
        }
        lease.release().await??;
        lease.drop()?;
    }
    Ok(())
}

/// Holds the lease until it is lost.
async fn lost(lease: Lease<'_>) -> Result {
    while lease.hold(10_000).await?? == HoldEnd::Held {}
    Ok(())
}

fn tell(event: serde_json::Value) {
    println!("{event}");
}

/// Microseconds of the system clock, which all processes of a machine share.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
