//! The drill with limits: jobs of many tenants.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use leasehold::{Error, Lease, Lock, Wait};
use leasehold_harness::Rng;
use tokio::time::sleep;

use super::program::{Terms, Worker, ended, released, tell};
use super::{LONGEST_TTL, Lie, RESPONSE_TIMEOUT};
use crate::history::{Op, Share, What};
use crate::limits::{Limits, STARTS, TOTAL};

/// How many tenants have half of all jobs.
const BUSY: u64 = 5;

impl Worker {
    /// Runs one job after the other until this process ends.
    pub(super) async fn runs_jobs(self: Rc<Self>, caller: u64, mut rng: Rng) {
        // All tenants have callers, however few jobs there are.
        let mut next = self.orders.seed.wrapping_mul(self.orders.callers) + caller;
        while !*self.ending.borrow() {
            next += 1;
            let tenant = if rng.once_in(2) { rng.below(BUSY) } else { next } % self.orders.limits.tenants;
            match self.run_job(&Limits::tenant(tenant), &mut rng).await {
                Ok(()) => sleep(Duration::from_millis(rng.range((0, 40)))).await,
                Err(Error::Closed) => return,
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
    }

    /// Takes the permits of the tenant and of all jobs as one lease, then the permit of a start. Then it works for a while.
    async fn run_job(&self, tenant: &str, rng: &mut Rng) -> Result<(), Error> {
        let limits = self.asked();
        let permits = if rng.once_in(8) { 2 } else { 1 };
        let total = self.locks.semaphore(TOTAL, limits.total).permits(permits);
        let both = self.locks.multi([self.locks.semaphore(tenant, limits.of_tenant).permits(1), total]);
        let waits = Duration::from_millis(rng.range((1_000, 10_000)));
        // With the limits of each name, which the history has.
        let share = Share::Permits { permits, limit: limits.total };
        let mut terms = terms(Duration::from_secs(24 * 3_600));
        let name = format!("{tenant}, {TOTAL}");
        let Some((number, lease)) =
            self.takes(both.ttl(terms.ttl), &name, share, &terms, waits, rng.once_in(4)).await?
        else {
            return Ok(());
        };
        let mut lost = pin!(lease.lost());
        let started = tokio::select! {
            biased;
            _ = self.keeps(&terms, number, &lease, lost.as_mut()) => false,
            started = self.starts(limits, rng) => started.is_ok_and(|started| started),
        };
        if started {
            terms.hold = Duration::from_millis(rng.spread((100, 3_000)));
            self.keeps(&terms, number, &lease, lost.as_mut()).await;
        }
        let call = self.begins(Op::Release, &name, None, Some(number), RESPONSE_TIMEOUT);
        released(call, lease.release().await);
        Ok(())
    }

    /// Whether the job may start now, or soon.
    async fn starts(&self, limits: Limits, rng: &mut Rng) -> Result<bool, Error> {
        let per = Duration::from_millis(limits.per);
        let start = self.locks.semaphore(STARTS, limits.starts).per(per).permits(1);
        let share = Share::Permits { permits: 1, limit: limits.starts };
        let waits = Duration::from_millis(rng.range((100, 4_000)));
        let terms = terms(Duration::ZERO);
        Ok(self.takes(start, STARTS, share, &terms, waits, rng.once_in(2)).await?.is_some())
    }

    async fn takes(
        &self,
        lock: Lock,
        name: &str,
        share: Share,
        terms: &Terms,
        waits: Duration,
        tries: bool,
    ) -> Result<Option<(u64, Lease)>, Error> {
        let (op, within) = if tries { (Op::Try, RESPONSE_TIMEOUT) } else { (Op::Acquire, waits) };
        let call = Call(Some(self.begins(op, name, Some(share), None, within)));
        let lock = lock.wait(if tries { Wait::No } else { waits.into() });
        let lease = if tries { lock.try_acquire().await } else { lock.acquire().await.map(Some) };
        let call = call.ended();
        match lease {
            Ok(Some(lease)) => Ok(Some((self.granted(call, terms, &lease), lease))),
            Ok(None) => {
                tell(&What::Ended { call, outcome: "busy".to_owned() });
                Ok(None)
            }
            Err(error) => Err(ended(call, error)),
        }
    }

    /// The limits that this process believes in.
    fn asked(&self) -> Limits {
        let limits = self.orders.limits;
        let times = if self.orders.lie == Some(Lie::DoubleLimits) { 2 } else { 1 };
        let (of_tenant, total) = (limits.of_tenant * times, limits.total * times);
        Limits { of_tenant, total, starts: limits.starts * times, ..limits }
    }
}

/// A call that may be given up: its future is dropped.
struct Call(Option<u64>);

impl Call {
    fn ended(mut self) -> u64 {
        self.0.take().unwrap_or_default()
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(call) = self.0 {
            tell(&What::Ended { call, outcome: "given-up".to_owned() });
        }
    }
}

/// A renewed lease that is held for this long.
fn terms(hold: Duration) -> Terms {
    let (ttl, wait) = (LONGEST_TTL, Duration::ZERO);
    Terms { owner: 0, ttl, renewed: true, wait, hold, conversions: 0, again: false }
}
