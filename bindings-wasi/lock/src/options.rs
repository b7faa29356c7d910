//! Converts the contract's options to the engine's. An option that is left out has the engine's default.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use core::time::Duration;

use leasehold_core::{AcquireOptions, Config, Wait};

use crate::bindings::exports::leasehold::lock::locks::{self, Error, Target, Topology};
use crate::bindings::leasehold::lock::connection::{Sentinel, Servers};
use crate::error;
use crate::limits;
use crate::target::{self, Names};

/// The longest wait and the longest hold. A call that its host has dropped goes on for at most this time.
pub(crate) const LONGEST: Duration = Duration::from_secs(600);

pub(crate) fn config(options: Option<locks::ManagerOptions>) -> Config {
    let default = Config::default();
    let Some(options) = options else { return default };
    let time = |ms: Option<u64>, default: Duration| ms.map_or(default, Duration::from_millis);
    Config {
        prefix: options.prefix.unwrap_or(default.prefix),
        local_handoffs: options.local_handoffs.unwrap_or(default.local_handoffs),
        claim_window: time(options.claim_window_ms, default.claim_window),
        response_timeout: time(options.response_timeout_ms, default.response_timeout),
        node_timeout: time(options.node_timeout_ms, default.node_timeout),
        mixed_fleet: options.mixed_fleet.unwrap_or(default.mixed_fleet),
        fence_retention: time(options.fence_retention_ms, default.fence_retention),
        max_in_flight: default.max_in_flight,
    }
}

/// The servers behind one endpoint. For a quorum, the addresses of its servers, which have one endpoint each.
pub(crate) fn servers(topology: Topology) -> Result<Servers, Vec<String>> {
    match topology {
        Topology::Single(address) => Ok(Servers::Single(address)),
        Topology::Cluster(addresses) => Ok(Servers::Cluster(addresses)),
        Topology::Sentinel(locks::Sentinel { addresses, primary }) => {
            Ok(Servers::Sentinel(Sentinel { addresses, primary }))
        }
        Topology::Quorum(addresses) => Err(addresses),
    }
}

/// The names, and how to acquire them.
pub(crate) fn acquire(
    target: Target,
    options: Option<locks::AcquireOptions>,
) -> Result<(Names, AcquireOptions), Error> {
    let (names, mode, kind) = target::read(target);
    limits::may_acquire(names.label().len())?;
    let mut wanted = AcquireOptions { kind, mode, ..AcquireOptions::default() };
    let Some(options) = options else { return Ok((names, wanted)) };
    if let Some(ttl) = options.ttl_ms {
        wanted.ttl = Duration::from_millis(ttl);
    }
    if let Some(wait) = options.wait_ms {
        wanted.wait = Wait::For(bounded("wait", wait)?);
    }
    wanted.max_hold = options.max_hold_ms.map(Duration::from_millis);
    Ok((names, wanted))
}

/// How long to hold.
pub(crate) fn hold(for_ms: u64) -> Result<Duration, Error> {
    limits::may_call()?;
    bounded("for", for_ms)
}

/// A time for which a call may go on although nobody waits for it any more.
fn bounded(field: &'static str, ms: u64) -> Result<Duration, Error> {
    let time = Duration::from_millis(ms);
    if time.is_zero() || time > LONGEST {
        return Err(error::invalid(field, format!("is {ms} ms: choose 1 ms to 10 minutes")));
    }
    Ok(time)
}
