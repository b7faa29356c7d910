//! An application as a component: a job for one worker at a time, on the server in `REDIS_URL`.
//!
//! It imports `locks` and is composed with `leasehold-tcp.wasm`, or with `lock.wasm` in a host that provides the connection.

mod bindings;

use std::pin::pin;

use futures_util::future::{Either, select};

use bindings::exports::wasi::cli::run::Guest;
use bindings::leasehold::lock::locks::{Error, HoldEnd, Lease, LockManager, LossReason, Target, Topology};
use bindings::wasi::cli::environment::get_environment;
use bindings::wasi::cli::stdout::write_via_stream;
use bindings::wit_stream;

struct Component;

impl Guest for Component {
    async fn run() -> Result<(), ()> {
        let done = job().await;
        let line = match &done {
            Ok(fence) => format!("done with fence {fence}\n"),
            Err(problem) => format!("{problem}\n"),
        };
        print(line).await;
        done.map(drop).map_err(drop)
    }
}

/// Does the job under the lock, and returns its fence.
async fn job() -> Result<u64, String> {
    let url = get_environment().into_iter().find(|(name, _)| name == "REDIS_URL").ok_or("REDIS_URL is not set")?.1;
    let locks = LockManager::open(Topology::Single(url), None).await.map_err(shown)?;
    let lease = locks.acquire(Target::Mutex("nightly-job".to_owned()), None).await.map_err(shown)?;
    let fence = lease.fence();
    // `lost` calls `hold`, which renews the lease. If the work ends first, the call of `hold` is cancelled.
    match select(pin!(work(fence)), pin!(lost(&lease))).await {
        Either::Left(((), _)) => {}
        Either::Right((reason, _)) => return Err(format!("the lock is lost: {:?}", reason.map_err(shown)?)),
    }
    lease.release().await.map_err(shown)?;
    Ok(fence)
}

/// Keeps the lease renewed, and returns when it is lost.
async fn lost(lease: &Lease) -> Result<LossReason, Error> {
    loop {
        if let HoldEnd::Lost(reason) = lease.hold(10_000).await? {
            return Ok(reason);
        }
    }
}

/// The work that only one worker may do. Send the fence along with every write, so that the resource can refuse late ones.
async fn work(fence: u64) {
    print(format!("working with fence {fence}\n")).await;
}

async fn print(line: String) {
    let (mut output, lines) = wit_stream::new();
    let printed = write_via_stream(lines);
    output.write_all(line.into_bytes()).await;
    drop(output);
    let _ = printed.await;
}

fn shown(error: Error) -> String {
    error.message
}
