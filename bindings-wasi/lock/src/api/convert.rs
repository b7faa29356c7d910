//! Converts between the contract's types and the engine's: options, targets, modes and inspections. An option that is
//! left out has the engine's default.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use core::time::Duration;

use leasehold_core as engine;
use leasehold_core::{AcquireOptions, Config, DEFAULT_KEEP, Kind, Owner, Wait};

use crate::bindings::exports::leasehold::lock::locks::{
    self, Error, Holder, Inspection, Mode, ReleaseOutcome, Target, Topology, Waiter,
};
use crate::bindings::leasehold::lock::connection::{Sentinel, Servers};
use crate::time::millis;
use crate::{error, limits};

/// The longest `wait-ms` and `for-ms`. A host may drop a call without telling the component, and the call then goes on
/// for this time at most.
const MAX_CALL_TIME: Duration = Duration::from_secs(600);

pub(super) fn config(options: Option<locks::ManagerOptions>) -> Config {
    let default = Config::default();
    let Some(options) = options else { return default };
    // `label` and `cluster_slots` are not the engine's: see `manager.rs`.
    let locks::ManagerOptions {
        prefix,
        local_handoffs,
        claim_window_ms,
        response_timeout_ms,
        node_timeout_ms,
        mixed_fleet,
        cluster_slots: _,
        label: _,
    } = options;
    let time = |ms: Option<u64>, default: Duration| ms.map_or(default, Duration::from_millis);
    Config {
        prefix: prefix.unwrap_or(default.prefix),
        local_handoffs,
        claim_window: time(claim_window_ms, default.claim_window),
        response_timeout: time(response_timeout_ms, default.response_timeout),
        node_timeout: time(node_timeout_ms, default.node_timeout),
        mixed_fleet: mixed_fleet.unwrap_or(default.mixed_fleet),
        ..default
    }
}

/// The servers behind one endpoint. For a quorum, the addresses of its servers, which have one endpoint each.
pub(super) fn servers(topology: Topology) -> Result<Servers, Vec<String>> {
    match topology {
        Topology::Single(address) => Ok(Servers::Single(address)),
        Topology::Cluster(addresses) => Ok(Servers::Cluster(addresses)),
        Topology::Sentinel(locks::Sentinel { addresses, primary }) => {
            Ok(Servers::Sentinel(Sentinel { addresses, primary }))
        }
        Topology::Quorum(addresses) => Err(addresses),
    }
}

/// What to lock: one name, or several that are acquired together.
pub(super) enum Names {
    One(Rc<str>),
    All {
        names: Vec<String>,
        /// For each name.
        kinds: Vec<(Kind, engine::Mode)>,
        /// All names, joined, for errors and for the lease.
        label: Rc<str>,
        one_script: bool,
    },
}

impl Names {
    pub(super) fn label(&self) -> &Rc<str> {
        match self {
            Self::One(name) => name,
            Self::All { label, .. } => label,
        }
    }
}

/// Reads the arguments of an acquire. Fails if the instance has no room for one more.
pub(super) fn acquire(
    target: Target,
    options: Option<locks::AcquireOptions>,
) -> Result<(Names, AcquireOptions), Error> {
    let (names, mode, kind, per) = read_target(target);
    limits::check_acquire(names.label().len())?;
    let mut acquire = AcquireOptions { kind, mode, per, ..AcquireOptions::default() };
    let Some(options) = options else { return Ok((names, acquire)) };
    let locks::AcquireOptions { ttl_ms, wait_ms, max_hold_ms, max_waiters } = options;
    acquire.max_waiters = max_waiters;
    if let Some(ttl) = ttl_ms {
        acquire.ttl = Duration::from_millis(ttl);
    }
    if let Some(wait) = wait_ms {
        acquire.wait = Wait::For(call_time("wait", wait)?);
    }
    acquire.max_hold = max_hold_ms.map(Duration::from_millis);
    Ok((names, acquire))
}

/// Reads the arguments of `begin-once`.
pub(super) fn once(name: String, options: Option<locks::OnceOptions>) -> Result<(Names, AcquireOptions), Error> {
    let none = locks::OnceOptions { keep_ms: None, ttl_ms: None, wait_ms: None, max_hold_ms: None, max_waiters: None };
    let locks::OnceOptions { keep_ms, ttl_ms, wait_ms, max_hold_ms, max_waiters } = options.unwrap_or(none);
    let waits = wait_ms != Some(0);
    let given = locks::AcquireOptions { ttl_ms, wait_ms: wait_ms.filter(|_| waits), max_hold_ms, max_waiters };
    let (names, mut options) = acquire(Target::Mutex(name), Some(given))?;
    options.kind = Kind::Once { keep: keep_ms.map_or(DEFAULT_KEEP, Duration::from_millis) };
    if !waits {
        options.wait = Wait::No;
    }
    Ok((names, options))
}

/// What to lock, and the window of a rate.
fn read_target(target: Target) -> (Names, engine::Mode, Kind, Option<Duration>) {
    let mut per = None;
    let (name, mode, kind) = match target {
        Target::Mutex(name) | Target::Write(name) => (name, engine::Mode::Exclusive, Kind::Lock),
        Target::Read(name) => (name, engine::Mode::Shared, Kind::Lock),
        Target::Reentrant(lock) => (lock.name, engine::Mode::Exclusive, Kind::Reentrant(Owner(lock.owner))),
        Target::Semaphore(semaphore) => read_semaphore(semaphore, &mut per),
        Target::Multi(locks::Multi { parts, one_script }) => {
            let read = |part| match part {
                locks::Part::Mutex(name) => (name, (Kind::Lock, engine::Mode::Exclusive)),
                locks::Part::Read(name) => (name, (Kind::Lock, engine::Mode::Shared)),
                locks::Part::Semaphore(semaphore) => {
                    let (name, mode, kind) = read_semaphore(semaphore, &mut per);
                    (name, (kind, mode))
                }
            };
            let (names, kinds): (Vec<_>, Vec<_>) = parts.into_iter().map(read).unzip();
            let label = names.join(", ").into();
            // The engine refuses a rate among several names.
            return (Names::All { names, kinds, label, one_script }, engine::Mode::Exclusive, Kind::Lock, per);
        }
    };
    (Names::One(name.into()), mode, kind, per)
}

fn read_semaphore(semaphore: locks::Semaphore, per: &mut Option<Duration>) -> (String, engine::Mode, Kind) {
    let locks::Semaphore { name, limit, permits, per_ms } = semaphore;
    *per = per_ms.map(Duration::from_millis).or(*per);
    (name, engine::Mode::Exclusive, Kind::Semaphore { permits, limit })
}

/// Reads the argument of `hold`. Fails if the instance has no room for one more call.
pub(super) fn hold(for_ms: u64) -> Result<Duration, Error> {
    limits::check_call()?;
    call_time("for", for_ms)
}

fn call_time(field: &'static str, ms: u64) -> Result<Duration, Error> {
    let time = Duration::from_millis(ms);
    if time.is_zero() || time > MAX_CALL_TIME {
        return Err(error::invalid(field, format!("is {ms} ms: choose 1 ms to 10 minutes")));
    }
    Ok(time)
}

pub(super) fn inspection(inspection: engine::Inspection) -> Inspection {
    let holder = |holder: engine::Holder| Holder {
        token: holder.token,
        mode: mode(holder.mode),
        remaining_ms: holder.remaining.map(millis),
        foreign: holder.foreign,
        label: holder.label,
        held_ms: holder.held.map(millis),
    };
    let waiter = |waiter: engine::Waiter| Waiter {
        token: waiter.token,
        mode: mode(waiter.mode),
        label: waiter.label,
        waited_ms: waiter.waited.map(millis),
        callers: waiter.callers,
    };
    Inspection {
        holders: inspection.holders.into_iter().map(holder).collect(),
        waiters: inspection.waiters.into_iter().map(waiter).collect(),
        waiting: inspection.waiting,
        last_fence: inspection.last_fence.map(engine::Fence::get),
        limit: inspection.limit,
        per_ms: inspection.per.map(millis),
    }
}

pub(super) fn mode(mode: engine::Mode) -> Mode {
    match mode {
        engine::Mode::Shared => Mode::Shared,
        // `Exclusive`. The engine's enum is non-exhaustive.
        _ => Mode::Exclusive,
    }
}

pub(super) fn release_outcome(outcome: engine::ReleaseOutcome) -> ReleaseOutcome {
    match outcome {
        engine::ReleaseOutcome::Released => ReleaseOutcome::Released,
        engine::ReleaseOutcome::StillHeld => ReleaseOutcome::StillHeld,
        engine::ReleaseOutcome::NotOwner => ReleaseOutcome::NotOwner,
        // `AlreadyExpired`. The engine's enum is non-exhaustive.
        _ => ReleaseOutcome::AlreadyExpired,
    }
}
