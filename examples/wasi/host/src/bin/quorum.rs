//! One lock over three independent servers (Redlock), as a host calls it. It is held while two of them agree.
//!
//! `REDIS_URLS=redis://..,redis://..,redis://.. quorum <lock.wasm>`. It prints:
//!
//! ```text
//! one server is silent, and the lock is held: true
//! another client gets it: false
//! released: ReleaseOutcome::Released
//! the next fence is greater: true
//! with two servers: `servers` lists 2 servers: list an odd number, 3 or more, so that there is a majority; 3 or 5 are usual
//! ```

use std::env;
use std::error::Error;

use leasehold_wasmtime_host::{Locks, ManagerOptions, RedisProvider, Target, Topology, engine, with_provider};
use wasmtime::component::Component;

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result {
    let usage = "usage: REDIS_URLS=redis://..,redis://..,redis://.. quorum <lock.wasm>";
    let path = env::args().nth(1).ok_or(usage)?;
    let urls = env::var("REDIS_URLS").map_err(|_| usage)?;
    let urls: Vec<String> = urls.split(',').map(str::to_owned).collect();
    let lock = Component::from_file(&engine()?, path)?;
    with_provider(&lock, RedisProvider, async |locks| ledger(locks, &urls).await).await?
}

/// The provider opens one endpoint for each server.
async fn ledger(locks: Locks<'_>, urls: &[String]) -> Result {
    let servers = || Topology::Quorum(urls.to_vec());
    let name = || Target::Mutex("example:ledger".to_owned());
    // How long a server may take to answer. 100 ms suits a LAN. Here, all servers may share a busy machine.
    let options = || {
        Some(ManagerOptions {
            prefix: None,
            local_handoffs: None,
            claim_window_ms: None,
            response_timeout_ms: None,
            node_timeout_ms: Some(10_000),
            mixed_fleet: None,
            cluster_slots: None,
            label: None,
        })
    };
    let (one, other) = (locks.open_at(servers(), options()).await??, locks.open_at(servers(), options()).await??);

    // One server does not answer for half a second. The other two are enough.
    let mut silent = redis::Client::open(urls[0].as_str())?.get_multiplexed_async_connection().await?;
    redis::cmd("CLIENT").arg("PAUSE").arg(500).arg("ALL").exec_async(&mut silent).await?;
    let lease = one.acquire(name(), None).await??;
    println!("one server is silent, and the lock is held: {}", lease.verify().await??);
    let another = other.try_acquire(name(), None).await??.is_some();
    println!("another client gets it: {another}");
    println!("released: {:?}", lease.release().await??);

    let next = other.acquire(name(), None).await??;
    println!("the next fence is greater: {}", next.fence().await? > lease.fence().await?);
    next.release().await??;

    if let Err(error) = locks.open_at(Topology::Quorum(urls[..2].to_vec()), None).await? {
        println!("with two servers: {}", error.message);
    }
    Ok(())
}
