use std::cell::RefCell;
use std::collections::BTreeMap;

use leasehold_wasmtime_host::{
    AcquireOptions, Error, ErrorKind, Lease, Locks, Manager, ManagerOptions, Mode, Multi, Part, Reentrant,
    ReleaseOutcome, Semaphore, Target, Topology,
};
use serde_json::{Value, json};

use crate::{Act, Kind, Step, Surface};

/// The component, in its own instance.
pub struct Component<'a> {
    urls: Vec<String>,
    locks: Locks<'a>,
    managers: RefCell<BTreeMap<String, Manager<'a>>>,
    leases: RefCell<BTreeMap<String, Lease<'a>>>,
}

impl<'a> Component<'a> {
    /// Connects to the server at this URL, or to a quorum if there are several.
    pub fn new(urls: &[String], locks: Locks<'a>) -> Self {
        Self { urls: urls.to_vec(), locks, managers: RefCell::default(), leases: RefCell::default() }
    }

    fn manager(&self, step: &Step<'_>) -> Manager<'a> {
        self.managers.borrow()[step.text("client")]
    }

    async fn granted(&self, step: &Step<'_>, lease: Lease<'a>) -> wasmtime::Result<Value> {
        let (held, fence) = (lease.is_held().await?, lease.fence().await?);
        let mut told = json!({ "mode": mode(lease.mode().await?), "held": held, "fence": fence });
        let fences = lease.fences().await?;
        assert_eq!(fences.iter().map(|(_, fence)| *fence).max(), Some(fence), "the greatest stands for all");
        if fences.len() > 1 {
            told["names"] = fences.into_iter().map(|(name, _)| name).collect();
        }
        self.leases.borrow_mut().insert(step.text("as").to_owned(), lease);
        Ok(told)
    }

    /// The outer error is a trap.
    async fn try_perform(&self, step: &Step<'_>) -> wasmtime::Result<Result<Value, Error>> {
        match step.act() {
            Act::Open => {
                let topology = match self.urls.as_slice() {
                    [url] => Topology::Single(url.clone()),
                    urls => Topology::Quorum(urls.to_vec()),
                };
                let opened = self.locks.open_at(topology, Some(options(step))).await?;
                Ok(opened.map(|manager| {
                    self.managers.borrow_mut().insert(step.text("client").to_owned(), manager);
                    json!("open")
                }))
            }
            Act::Acquire => match self.manager(step).acquire(target(step), acquire_options(step)).await? {
                Ok(lease) => self.granted(step, lease).await.map(Ok),
                Err(error) => Ok(Err(error)),
            },
            Act::Try => match self.manager(step).try_acquire(target(step), acquire_options(step)).await? {
                Ok(Some(lease)) => self.granted(step, lease).await.map(Ok),
                Ok(None) => Ok(Ok(Value::Null)),
                Err(error) => Ok(Err(error)),
            },
            Act::Adopt => {
                let adopted = self.manager(step).adopt(target(step), step.text("token"), acquire_options(step)).await?;
                match adopted {
                    Ok(lease) => self.granted(step, lease).await.map(Ok),
                    Err(error) => Ok(Err(error)),
                }
            }
            Act::Inspect => {
                let seen = self.manager(step).inspect(step.text("lock")).await?;
                Ok(seen.map(|seen| {
                    let holders: Vec<_> = seen.holders.iter().map(|holder| mode(holder.mode)).collect();
                    let waiters: Vec<_> = seen.waiters.iter().map(|waiter| mode(waiter.mode)).collect();
                    let mut told = json!({ "holders": holders, "waiters": waiters });
                    if let Some(limit) = seen.limit {
                        told["limit"] = limit.into();
                        told["per"] = seen.per_ms.into();
                    }
                    told
                }))
            }
            Act::ForceRelease => Ok(self.manager(step).force_release(step.text("lock")).await?.map(Value::from)),
            act => {
                let lease = self.leases.borrow()[step.text("lease")];
                self.with_lease(act, step, lease).await
            }
        }
    }

    async fn with_lease(&self, act: Act, step: &Step<'_>, lease: Lease<'a>) -> wasmtime::Result<Result<Value, Error>> {
        let done = |()| json!("done");
        Ok(match act {
            Act::Verify => lease.verify().await?.map(Value::from),
            Act::Token => lease.token().await?.map(Value::from),
            Act::Held => Ok(json!(lease.is_held().await?)),
            Act::Nested => match lease.nested().await? {
                Ok(nested) => Ok(self.granted(step, nested).await?),
                Err(error) => Err(error),
            },
            Act::Extend => lease.extend(ms(step, "ttl").unwrap_or_default()).await?.map(done),
            Act::Downgrade => lease.downgrade().await?.map(done),
            Act::Upgrade => lease.upgrade().await?.map(done),
            _ => lease.release().await?.map(|outcome| json!(released(outcome))),
        })
    }
}

impl Surface for Component<'_> {
    const NAME: &'static str = "component";

    async fn perform(&self, step: &Step<'_>) -> Value {
        match self.try_perform(step).await {
            Ok(Ok(told)) => told,
            Ok(Err(error)) => {
                json!({ "error": code(&error.kind), "retryable": error.retryable, "message": error.message })
            }
            Err(trap) => panic!("it trapped: {trap:?}"),
        }
    }
}

fn options(step: &Step<'_>) -> ManagerOptions {
    ManagerOptions {
        prefix: None,
        local_handoffs: step.handoffs(),
        claim_window_ms: Some(step.claim_window().as_millis().try_into().unwrap_or(u64::MAX)),
        // On a busy machine, a server may answer late by tens of seconds.
        response_timeout_ms: Some(60_000),
        node_timeout_ms: Some(60_000),
        mixed_fleet: None,
        cluster_slots: None,
        label: None,
    }
}

fn target(step: &Step<'_>) -> Target {
    let name = || step.text("lock").to_owned();
    match step.kind() {
        Kind::Mutex => Target::Mutex(name()),
        Kind::Read => Target::Read(name()),
        Kind::Reentrant { owner } => Target::Reentrant(Reentrant { name: name(), owner }),
        Kind::Semaphore { limit, permits, .. } => {
            Target::Semaphore(Semaphore { name: name(), limit, permits, per_ms: ms(step, "per") })
        }
        Kind::Multi { names, one_script } => {
            Target::Multi(Multi { parts: names.into_iter().map(Part::Mutex).collect(), one_script })
        }
    }
}

fn acquire_options(step: &Step<'_>) -> Option<AcquireOptions> {
    Some(AcquireOptions { ttl_ms: ms(step, "ttl"), wait_ms: ms(step, "wait"), max_hold_ms: None, max_waiters: None })
}

fn ms(step: &Step<'_>, key: &str) -> Option<u64> {
    step.0[key].as_u64()
}

fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared => "shared",
    }
}

fn released(outcome: ReleaseOutcome) -> &'static str {
    match outcome {
        ReleaseOutcome::Released => "released",
        ReleaseOutcome::StillHeld => "still-held",
        ReleaseOutcome::AlreadyExpired => "already-expired",
        ReleaseOutcome::NotOwner => "not-owner",
        ReleaseOutcome::Detached => "detached",
    }
}

fn code(kind: &ErrorKind) -> &str {
    match kind {
        ErrorKind::InvalidOption(_) => "invalid-option",
        ErrorKind::NotHeld => "not-held",
        ErrorKind::CrossSlot => "cross-slot",
        ErrorKind::WrongKind => "wrong-kind",
        ErrorKind::Conflict => "conflict",
        ErrorKind::Unsupported => "unsupported",
        ErrorKind::Closed => "closed",
        ErrorKind::Busy => "busy",
        ErrorKind::Cancelled => "cancelled",
        ErrorKind::Lost(_) => "lost",
        ErrorKind::Unreachable => "unreachable",
        ErrorKind::NotReplicated => "not-replicated",
        ErrorKind::Auth => "auth",
        ErrorKind::Server => "server",
        ErrorKind::Protocol => "protocol",
        ErrorKind::Other(code) => code,
    }
}
