use std::cell::Cell;
use std::io::{self, Read, Write};
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use leasehold::{Error, Lease, Lock, LockManager, ReleaseOutcome};
use leasehold_harness::Rng;
use tokio::sync::watch;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::sleep;

use super::{CLAIM_WINDOW, LONGEST_TTL, Lie, NODE_TIMEOUT, Orders, RESPONSE_TIMEOUT, TICK_LATE, Target};
use crate::history::{Op, Share, What, now};
use crate::topologies::Kind;

/// Works until the standard input ends. Then it closes its manager and returns.
pub fn run(orders: Orders) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime {
        Ok(runtime) => LocalSet::new().block_on(&runtime, work(orders)),
        Err(error) => eprintln!("no runtime: {error}"),
    }
}

async fn work(orders: Orders) {
    tokio::task::spawn_local(notice_stalls());
    let mut ending = end_of_input();
    let locks = tokio::select! {
        locks = connect(&orders) => locks,
        _ = ending.wait_for(|ends| *ends) => return,
    };
    let worker = Rc::new(Worker { orders, locks, ending: ending.clone(), calls: Cell::new(0), leases: Cell::new(0) });
    let mut callers = JoinSet::new();
    for caller in 0..worker.orders.callers {
        let (worker, rng) = (Rc::clone(&worker), Rng::new(worker.orders.seed.wrapping_add(caller)));
        callers.spawn_local(worker.take_turns(rng));
    }
    let _ = ending.wait_for(|ends| *ends).await;
    // Callers still wait and hold now: closing ends all of that.
    let call = worker.begins(Op::Close, "", None, None, RESPONSE_TIMEOUT);
    let closed = worker.locks.close().await;
    tell(&What::Ended { call, outcome: format!("{} unreleased", closed.unreleased) });
    while callers.join_next().await.is_some() {}
}

struct Worker {
    orders: Orders,
    locks: LockManager,
    ending: watch::Receiver<bool>,
    calls: Cell<u64>,
    leases: Cell<u64>,
}

/// How long a lease is to last.
struct Terms {
    ttl: Duration,
    renewed: bool,
    wait: Duration,
    hold: Duration,
}

impl Worker {
    async fn take_turns(self: Rc<Self>, mut rng: Rng) {
        while !*self.ending.borrow() {
            let target = rng.pick(&self.orders.locks).clone();
            let terms = self.terms(&target, &mut rng);
            let lease =
                if rng.once_in(4) { self.tries(&target, &terms).await } else { self.waits(&target, &terms).await };
            match lease {
                Ok(Some((number, lease))) => self.hold(&target, &terms, number, lease).await,
                Ok(None) => {}
                Err(Error::Closed) => return,
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
            if self.orders.lie == Some(Lie::FreesOthers) {
                self.free(&target.name).await;
            }
            sleep(Duration::from_millis(rng.range((0, 40)))).await;
        }
    }

    fn terms(&self, target: &Target, rng: &mut Rng) -> Terms {
        let renewed = !rng.once_in(5) && self.orders.lie != Some(Lie::KeepsWorking);
        let longest = LONGEST_TTL.as_millis() as u64;
        let ttl = rng.range(if renewed { (900, longest) } else { (700, 1_200) });
        let long = target.name.ends_with("long");
        // Most turns are short. Some need renewals, and some outlast a fixed lease.
        let hold = if long || rng.once_in(40) { rng.range((500, 2_500)) } else { rng.spread((1, 60)) };
        let wait = rng.range((500, if long { 1_000 } else { 5_000 }));
        let [ttl, wait, hold] = [ttl, wait, hold].map(Duration::from_millis);
        Terms { ttl, renewed, wait, hold }
    }

    fn lock(&self, target: &Target, terms: &Terms) -> Lock {
        let lock = match target.share {
            Share::Exclusive if target.name.starts_with("mutex") => self.locks.mutex(&target.name),
            Share::Exclusive => self.locks.read_write(&target.name).write(),
            Share::Shared => self.locks.read_write(&target.name).read(),
            Share::Permits { permits, limit } => self.locks.semaphore(&target.name, limit).permits(permits),
        };
        lock.ttl(terms.ttl).renew(terms.renewed).wait(terms.wait)
    }

    async fn waits(&self, target: &Target, terms: &Terms) -> Result<Option<(u64, Lease)>, Error> {
        let lock = self.lock(target, terms);
        let call = self.begins(Op::Acquire, &target.name, Some(target.share), None, terms.wait);
        match lock.acquire().await {
            Ok(lease) => Ok(Some((self.granted(call, terms, &lease), lease))),
            Err(error) => Err(ended(call, error)),
        }
    }

    async fn tries(&self, target: &Target, terms: &Terms) -> Result<Option<(u64, Lease)>, Error> {
        let lock = self.lock(target, terms);
        let within = self.try_within().min(terms.wait);
        let call = self.begins(Op::Try, &target.name, Some(target.share), None, within);
        match lock.try_acquire().await {
            Ok(Some(lease)) => Ok(Some((self.granted(call, terms, &lease), lease))),
            Ok(None) => {
                tell(&What::Ended { call, outcome: "busy".to_owned() });
                Ok(None)
            }
            Err(error) => Err(ended(call, error)),
        }
    }

    fn granted(&self, call: u64, terms: &Terms, lease: &Lease) -> u64 {
        let at = now();
        let left = lease.remaining().as_micros() as u64;
        let number = next(&self.leases);
        let (fence, ttl) = (lease.fence().get(), terms.ttl.as_millis() as u64);
        tell_at(at, &What::Granted { call, lease: number, fence, ttl, renewed: terms.renewed, left });
        number
    }

    /// Holds a lease and looks at it, until the turn is over or the lease is lost. Then gives it back.
    async fn hold(&self, target: &Target, terms: &Terms, number: u64, lease: Lease) {
        if self.orders.lie == Some(Lie::KeepsWorking) {
            return self.keep_working(terms, number, lease).await;
        }
        let end = tokio::time::Instant::now() + terms.hold;
        let mut lost = Box::pin(lease.lost());
        loop {
            // The clock first, so that the lease is valid to at least `at + left`.
            let at = now();
            let left = lease.remaining().as_micros() as u64;
            if left > 0 {
                tell_at(at, &What::Held { lease: number, left });
            }
            let time = tokio::time::Instant::now();
            let next_look = time + Duration::from_millis(50);
            let wake = if time < end { next_look.min(end) } else { next_look };
            tokio::select! {
                biased;
                reason = &mut lost => {
                    tell(&What::Lost { lease: number, reason: reason.code().to_owned() });
                    break;
                }
                () = tokio::time::sleep_until(wake) => {}
            }
            // After its deadline, a lease is about to be lost. The notification must come.
            if wake >= end && lease.is_held() || *self.ending.borrow() {
                break;
            }
        }
        let call = self.begins(Op::Release, &target.name, None, Some(number), RESPONSE_TIMEOUT);
        let outcome = match lease.release().await {
            Ok(ReleaseOutcome::Released) => "released",
            Ok(ReleaseOutcome::StillHeld) => "still-held",
            Ok(ReleaseOutcome::AlreadyExpired) => "already-expired",
            Ok(ReleaseOutcome::NotOwner) => "not-owner",
            Ok(_) => "unknown",
            Err(error) => error.code(),
        };
        tell(&What::Ended { call, outcome: outcome.to_owned() });
    }

    /// The lie: believes in a lease for longer than it is valid.
    async fn keep_working(&self, terms: &Terms, number: u64, lease: Lease) {
        let left = terms.ttl.as_micros() as u64;
        for _ in 0..2 {
            sleep(terms.ttl).await;
            tell(&What::Held { lease: number, left });
        }
        let _ = lease.release().await;
    }

    /// The lie: frees a lock that others hold.
    async fn free(&self, name: &str) {
        let Some(url) = self.orders.urls.first() else { return };
        let Ok(client) = leasehold::redis::Client::open(url.as_str()) else { return };
        if let Ok(mut connection) = client.get_multiplexed_async_connection().await {
            let _: Result<u32, _> = leasehold::redis::cmd("DEL").arg(name).query_async(&mut connection).await;
        }
    }

    /// The documented time of a try: see "Bounded delays" in `docs/guarantees.md`.
    fn try_within(&self) -> Duration {
        if self.orders.topology == Kind::Quorum { NODE_TIMEOUT * 8 } else { RESPONSE_TIMEOUT }
    }

    fn begins(&self, op: Op, name: &str, share: Option<Share>, lease: Option<u64>, within: Duration) -> u64 {
        let call = next(&self.calls);
        tell(&What::Began { call, op, name: name.to_owned(), share, lease, within: within.as_millis() as u64 });
        call
    }
}

fn ended(call: u64, error: Error) -> Error {
    tell(&What::Ended { call, outcome: error.code().to_owned() });
    error
}

fn next(numbers: &Cell<u64>) -> u64 {
    numbers.replace(numbers.get() + 1)
}

/// Connects, however long that takes: the servers may be down.
async fn connect(orders: &Orders) -> LockManager {
    let mut told = String::new();
    loop {
        let builder = LockManager::builder()
            .response_timeout(RESPONSE_TIMEOUT)
            .claim_window(CLAIM_WINDOW)
            .node_timeout(NODE_TIMEOUT);
        let urls = orders.urls.clone();
        let connected = match (orders.topology, urls.first()) {
            (Kind::Single, Some(url)) => builder.connect(url).await,
            (Kind::Sentinel, _) => builder.sentinel(leasehold_servers::PRIMARY, urls).await,
            (Kind::Cluster, _) => builder.cluster(urls).await,
            (Kind::Quorum, _) => builder.quorum(urls).await,
            (Kind::Single, None) => builder.connect("").await,
        };
        match connected {
            Ok(locks) => return locks,
            Err(error) => {
                let problem = error.to_string();
                if problem != told {
                    eprintln!("{problem}");
                    told = problem;
                }
            }
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Records when this process got no time, so that nobody takes it for a fault of the locks.
async fn notice_stalls() {
    let tick = Duration::from_millis(10);
    let mut last = now();
    loop {
        sleep(tick).await;
        let at = now();
        if at - last > TICK_LATE {
            tell_at(at, &What::Stalled { from: last });
        }
        last = at;
    }
}

/// Becomes true when the standard input ends.
fn end_of_input() -> watch::Receiver<bool> {
    let (sender, receiver) = watch::channel(false);
    thread::spawn(move || {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        let _ = sender.send(true);
    });
    receiver
}

fn tell(what: &What) {
    tell_at(now(), what);
}

#[derive(serde::Serialize)]
struct Line<'a> {
    at: u64,
    #[serde(flatten)]
    what: &'a What,
}

fn tell_at(at: u64, what: &What) {
    if let Ok(line) = serde_json::to_string(&Line { at, what }) {
        // The reader is gone only when the run is over.
        let _ = writeln!(io::stdout().lock(), "{line}");
    }
}
