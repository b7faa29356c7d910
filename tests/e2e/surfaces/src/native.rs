use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::{Error, Lease, Lock, LockManager, Mode, Owner, ReleaseOutcome, Wait};
use serde_json::{Value, json};

use crate::{Act, Kind, Step, Surface};

/// How late an answer may be. On a busy machine, that can be tens of seconds.
const LATE: Duration = Duration::from_secs(60);

/// The Rust crate.
#[derive(Default)]
pub struct Native {
    urls: Vec<String>,
    managers: RefCell<BTreeMap<String, LockManager>>,
    leases: RefCell<BTreeMap<String, Lease>>,
    owners: RefCell<BTreeMap<u64, Owner>>,
}

impl Native {
    /// Connects to the server at this URL, or to a quorum if there are several.
    pub fn new(urls: &[String]) -> Self {
        Self { urls: urls.to_vec(), ..Self::default() }
    }

    fn manager(&self, step: &Step<'_>) -> LockManager {
        self.managers.borrow()[step.text("client")].clone()
    }

    fn lock(&self, step: &Step<'_>) -> Lock {
        let manager = self.manager(step);
        let name = || step.text("lock");
        let mut lock = match step.kind() {
            Kind::Mutex => manager.mutex(name()),
            Kind::Read => manager.read_write(name()).read(),
            Kind::Reentrant { owner } => manager.reentrant(name(), self.owners.borrow_mut().entry(owner).or_default()),
            Kind::Semaphore { limit, permits, per: None } => manager.semaphore(name(), limit).permits(permits),
            Kind::Semaphore { limit, permits, per: Some(per) } => {
                manager.semaphore(name(), limit).per(per).permits(permits)
            }
            Kind::Multi { names, one_script } => {
                let lock = manager.multi(names);
                if one_script { lock.one_script() } else { lock }
            }
        };
        if let Some(ttl) = step.time("ttl") {
            lock = lock.ttl(ttl);
        }
        match step.time("wait") {
            Some(time) => lock.wait(Wait::For(time)),
            None => lock,
        }
    }

    fn granted(&self, step: &Step<'_>, lease: Lease) -> Value {
        let mut told = json!({ "mode": mode(lease.mode()), "held": lease.is_held(), "fence": lease.fence().get() });
        if lease.fences().len() > 1 {
            told["names"] = lease.fences().map(|(name, _)| name).collect();
        }
        self.leases.borrow_mut().insert(step.text("as").to_owned(), lease);
        told
    }

    async fn try_perform(&self, step: &Step<'_>) -> Result<Value, Error> {
        match step.act() {
            Act::Open => {
                let mut builder = LockManager::builder().claim_window(step.claim_window());
                builder = builder.response_timeout(LATE).node_timeout(LATE);
                if let Some(number) = step.handoffs() {
                    builder = builder.local_handoffs(number);
                }
                let manager = match self.urls.as_slice() {
                    [url] => builder.connect(url).await?,
                    urls => builder.quorum(urls.iter().cloned()).await?,
                };
                self.managers.borrow_mut().insert(step.text("client").to_owned(), manager);
                Ok(json!("open"))
            }
            Act::Acquire => {
                let lease = self.lock(step).acquire().await?;
                Ok(self.granted(step, lease))
            }
            Act::Try => {
                let lease = self.lock(step).try_acquire().await?;
                Ok(lease.map_or(Value::Null, |lease| self.granted(step, lease)))
            }
            Act::Adopt => {
                let lease = self.lock(step).adopt(step.text("token")).await?;
                Ok(self.granted(step, lease))
            }
            Act::Inspect => {
                let seen = self.manager(step).inspect(step.text("lock")).await?;
                let holders: Vec<_> = seen.holders.iter().map(|holder| mode(holder.mode)).collect();
                let waiters: Vec<_> = seen.waiters.iter().map(|waiter| mode(waiter.mode)).collect();
                let mut told = json!({ "holders": holders, "waiters": waiters });
                if let Some(limit) = seen.limit {
                    told["limit"] = limit.into();
                    told["per"] = seen.per.map(|per| per.as_millis() as u64).into();
                }
                Ok(told)
            }
            Act::ForceRelease => Ok(json!(self.manager(step).force_release(step.text("lock")).await?)),
            act => {
                let name = step.text("lease");
                let lease = self.leases.borrow_mut().remove(name).unwrap_or_else(|| panic!("there is no lease {name}"));
                if act == Act::Release {
                    return Ok(json!(released(lease.release().await?)));
                }
                let done = self.with_lease(act, step, &lease).await;
                self.leases.borrow_mut().insert(name.to_owned(), lease);
                done
            }
        }
    }

    async fn with_lease(&self, act: Act, step: &Step<'_>, lease: &Lease) -> Result<Value, Error> {
        match act {
            Act::Verify => Ok(json!(lease.verify().await?)),
            Act::Token => Ok(json!(lease.token()?.to_string())),
            Act::Held => Ok(json!(lease.is_held())),
            Act::Nested => Ok(self.granted(step, lease.nested()?)),
            Act::Extend => lease.extend(step.time("ttl").unwrap_or_default()).await.map(done),
            Act::Downgrade => lease.downgrade().await.map(done),
            _ => lease.upgrade().await.map(done),
        }
    }
}

impl Surface for Native {
    const NAME: &'static str = "crate";

    async fn perform(&self, step: &Step<'_>) -> Value {
        let failed = |error: Error| json!({ "error": error.code(), "retryable": error.is_retryable(), "message": error.to_string() });
        self.try_perform(step).await.unwrap_or_else(failed)
    }
}

fn done((): ()) -> Value {
    json!("done")
}

fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared => "shared",
        other => unreachable!("no word for {other:?}"),
    }
}

fn released(outcome: ReleaseOutcome) -> &'static str {
    match outcome {
        ReleaseOutcome::Released => "released",
        ReleaseOutcome::StillHeld => "still-held",
        ReleaseOutcome::AlreadyExpired => "already-expired",
        ReleaseOutcome::NotOwner => "not-owner",
        ReleaseOutcome::Detached => "detached",
        other => unreachable!("no word for {other:?}"),
    }
}
