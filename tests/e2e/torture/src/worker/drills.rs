//! The jobs of the drills: to campaign, to observe, and to do work once.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use leasehold::{Election, Error, Lease, Term, Wait};
use leasehold_harness::Rng;
use rustix::process::{Signal, getpid, kill_process};
use tokio::time::sleep;

use super::program::{Terms, Worker, ended, released, tell, tell_at};
use super::{Moment, RESPONSE_TIMEOUT};
use crate::history::{Op, Share, What, now};

/// The election of the drill.
const ELECTION: &str = "election";
/// The TTL of its terms.
const TERM: Duration = Duration::from_millis(1_000);
/// A new name for `once` begins each time this many microseconds of the shared clock have passed.
const SERIES: u64 = 200_000;
/// How long a campaign may take: as long as it takes.
const CAMPAIGN: Duration = Duration::from_secs(24 * 3_600);
/// How long a result is kept: longer than a run.
const KEEP: Duration = Duration::from_secs(3_600);

impl Worker {
    /// Campaigns until this process ends.
    pub(super) async fn campaigns(self: Rc<Self>) {
        let election = self.locks.election(ELECTION).value(self.orders.seed.to_string()).ttl(TERM);
        let mut ending = self.ending.clone();
        while !*ending.borrow() {
            let call = self.begins(Op::Acquire, ELECTION, Some(Share::Exclusive), None, CAMPAIGN);
            let term = tokio::select! {
                term = election.campaign() => term,
                _ = ending.wait_for(|ends| *ends) => return tell(&What::Ended { call, outcome: "given-up".to_owned() }),
            };
            match term {
                Ok(term) => self.leads(&election, call, term).await,
                Err(error) => {
                    ended(call, error);
                    sleep(Duration::from_millis(20)).await;
                }
            }
        }
    }

    /// Leads until the term is lost, or until this process ends. Then it resigns.
    async fn leads(&self, election: &Election, call: u64, term: Term) {
        let at = now();
        let number = self.begins_lease(at, call, &terms(TERM), (term.fence().get(), Vec::new()), term.remaining());
        let mut ending = self.ending.clone();
        let mut lost = pin!(term.lost());
        loop {
            // The clock first. A process that stops after that, and believes then that it leads, has led at this time,
            // because a term that is over stays over. So a stop can hide that two processes lead, but can't fake it.
            let at = now();
            if election.is_leader() {
                tell_at(at, &What::Held { lease: number, left: term.remaining().as_micros() as u64 });
            }
            tokio::select! {
                biased;
                reason = &mut lost => return tell(&What::Lost { lease: number, reason: reason.code().to_owned() }),
                _ = ending.wait_for(|ends| *ends) => break,
                () = sleep(Duration::from_millis(50)) => {}
            }
        }
        let call = self.begins(Op::Release, ELECTION, None, Some(number), RESPONSE_TIMEOUT);
        released(call, term.resign().await);
    }

    /// Records who leads until this process ends.
    pub(super) async fn observes(self: Rc<Self>) {
        let election = self.locks.election(ELECTION);
        let mut observer = election.observe();
        loop {
            match observer.next().await {
                Ok(leader) => {
                    let fence = leader.as_ref().map(|leader| leader.fence.get());
                    let value = leader.map(|leader| leader.value).unwrap_or_default();
                    tell(&What::Observed { name: ELECTION.to_owned(), fence, value });
                }
                Err(Error::Closed) => return,
                Err(error) => {
                    eprintln!("observer: {error}");
                    sleep(Duration::from_millis(50)).await;
                    observer = election.observe();
                }
            }
        }
    }

    /// Calls `once` for one name after the other. All processes begin with a name at the same time.
    pub(super) async fn calls_once(self: Rc<Self>, mut rng: Rng) {
        let mut last = 0;
        while !*self.ending.borrow() {
            let time = now();
            let number = time / SERIES;
            if number == last {
                sleep(Duration::from_micros(SERIES - time % SERIES)).await;
                continue;
            }
            last = number;
            let name = format!("once-{number}");
            while !*self.ending.borrow() {
                match self.call_once(&name, &mut rng).await {
                    Ok(()) => break,
                    Err(_) => sleep(Duration::from_millis(20)).await,
                }
            }
        }
    }

    /// Fails if there is no result yet.
    async fn call_once(&self, name: &str, rng: &mut Rng) -> Result<(), Failure> {
        let millis = |rng: &mut Rng, range| Duration::from_millis(rng.range(range));
        let tries = rng.once_in(5);
        let wait = millis(rng, (500, 5_000));
        let mut terms = terms(millis(rng, (700, 1_500)));
        terms.hold =
            if rng.once_in(20) { millis(rng, (500, 2_000)) } else { Duration::from_millis(rng.spread((1, 40))) };
        let fails = rng.once_in(15);
        let storing = Duration::from_micros(rng.range((0, 2_000)));

        let (op, within) = if tries { (Op::Try, RESPONSE_TIMEOUT) } else { (Op::Acquire, wait) };
        let call = self.begins(op, name, Some(Share::Exclusive), None, within);
        let phase = Cell::new(Phase::Waits);
        let once = self.locks.once(name).keep(KEEP).ttl(terms.ttl).wait(if tries { Wait::No } else { wait.into() });
        let result = once
            .run(async |lease: &Lease| {
                let number = self.granted(call, &terms, lease);
                phase.set(Phase::Works(number));
                if fails || !self.keeps(&terms, number, lease, pin!(lease.lost())).await {
                    phase.set(Phase::Failed);
                    // Whatever failed, the lease is given back now.
                    let call = self.begins(Op::Release, name, None, Some(number), RESPONSE_TIMEOUT);
                    tell(&What::Ended { call, outcome: "work-failed".to_owned() });
                    return Err(Failure::Work);
                }
                self.crashes(Moment::BeforeWrite);
                let store = self.begins(Op::Store, name, None, Some(number), RESPONSE_TIMEOUT);
                let value = format!("{}-{store}", self.orders.seed);
                tell(&What::Wrote { call: store, value: value.clone() });
                self.crashes(Moment::AfterWrite);
                if self.crash.get() == Some(Moment::Storing) {
                    tokio::task::spawn_local(async move {
                        sleep(storing).await;
                        kill_itself();
                    });
                }
                phase.set(Phase::Stores(store));
                Ok(value)
            })
            .await;
        match (result, phase.get()) {
            (Ok(value), Phase::Waits) => tell(&What::Answered { call, value }),
            (Ok(value), Phase::Stores(call)) => tell(&What::Answered { call, value }),
            (Err(Failure::Lock(error)), Phase::Waits) => return Err(Failure::Lock(ended(call, error))),
            (Err(Failure::Lock(error)), Phase::Stores(call)) => return Err(Failure::Lock(ended(call, error))),
            (Err(Failure::Lock(error)), Phase::Works(lease)) => {
                tell(&What::Lost { lease, reason: error.code().to_owned() });
                return Err(Failure::Lock(error));
            }
            (Err(failure), _) => return Err(failure),
            (Ok(_), _) => {}
        }
        Ok(())
    }

    /// Kills this process, if the harness said so for this moment.
    fn crashes(&self, moment: Moment) {
        if self.crash.get() == Some(moment) {
            kill_itself();
        }
    }
}

fn kill_itself() {
    let _ = kill_process(getpid(), Signal::KILL);
}

/// A renewed lease with this TTL.
fn terms(ttl: Duration) -> Terms {
    let (wait, hold) = (Duration::ZERO, Duration::ZERO);
    Terms { owner: 0, ttl, renewed: true, wait, hold, conversions: 0, again: false }
}

/// Where a call of `once` is.
#[derive(Clone, Copy)]
enum Phase {
    Waits,
    /// With this lease.
    Works(u64),
    Failed,
    /// By this call.
    Stores(u64),
}

/// Why a call of `once` has no result.
enum Failure {
    Lock(Error),
    Work,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Lock(error)
    }
}
