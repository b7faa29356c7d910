use std::cell::Cell;
use std::io::{self, BufRead, Write};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use leasehold::{Error, Lease, Lock, LockManager, LossReason, Owner, ReleaseOutcome};
use leasehold_harness::Rng;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    CLAIM_WINDOW, LONGEST_TTL, Lie, Moment, NODE_TIMEOUT, Orders, RESPONSE_TIMEOUT, TICK_LATE, Target, Trouble,
};
use crate::drill::Drill;
use crate::history::{Op, Share, What, names, now};
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
    let (ends, mut ending) = watch::channel(false);
    let troubles = read_input(ends.clone());
    let locks = tokio::select! {
        locks = connect(&orders) => locks,
        _ = ending.wait_for(|ends| *ends) => return,
    };
    let owners = [Owner::new(), Owner::new()];
    let (calls, leases) = (Cell::new(0), Cell::new(0));
    let (crash, terminated) = (Cell::new(None), Cell::new(false));
    let worker = Rc::new(Worker { orders, locks, owners, ending: ending.clone(), calls, leases, crash, terminated });
    tokio::task::spawn_local(Rc::clone(&worker).has_trouble(troubles));
    tokio::task::spawn_local(Rc::clone(&worker).ends_on_sigterm(ends));
    let mut callers = JoinSet::new();
    for caller in 0..worker.orders.callers {
        let (worker, rng) = (Rc::clone(&worker), Rng::new(worker.orders.seed.wrapping_add(caller)));
        match worker.orders.drill {
            None => callers.spawn_local(worker.take_turns(caller as usize, rng)),
            Some(Drill::Election) => callers.spawn_local(worker.campaigns()),
            Some(Drill::Once) => callers.spawn_local(worker.calls_once(rng)),
            Some(Drill::Limits) => callers.spawn_local(worker.runs_jobs(caller, rng)),
        };
    }
    if worker.orders.drill == Some(Drill::Election) {
        tokio::task::spawn_local(Rc::clone(&worker).observes());
    }
    if worker.orders.topology == Kind::Quorum {
        callers.spawn_local(Rc::clone(&worker).find_own_id());
    }
    let _ = ending.wait_for(|ends| *ends).await;
    if worker.terminated.get() {
        // A calm end: all callers give back what they have.
        while callers.join_next().await.is_some() {}
    }
    // Callers still wait and hold now: closing ends all of that.
    let call = worker.begins(Op::Close, "", None, None, RESPONSE_TIMEOUT);
    let closed = worker.locks.close().await;
    tell(&What::Ended { call, outcome: format!("{} unreleased", closed.unreleased) });
    while callers.join_next().await.is_some() {}
}

pub(super) struct Worker {
    pub(super) orders: Orders,
    pub(super) locks: LockManager,
    /// Several callers share an owner.
    owners: [Owner; 2],
    pub(super) ending: watch::Receiver<bool>,
    calls: Cell<u64>,
    leases: Cell<u64>,
    /// When to kill itself.
    pub(super) crash: Cell<Option<Moment>>,
    terminated: Cell<bool>,
}

/// What a caller does with a lock.
#[derive(Clone)]
pub(super) struct Terms {
    /// Which of the owners it is.
    pub(super) owner: usize,
    pub(super) ttl: Duration,
    pub(super) renewed: bool,
    pub(super) wait: Duration,
    pub(super) hold: Duration,
    /// How many times the lease is converted. It is held for `hold` before each time.
    pub(super) conversions: u64,
    /// Whether the owner takes the lock again while it holds it.
    pub(super) again: bool,
}

impl Worker {
    /// Does what the harness tells it to.
    async fn has_trouble(self: Rc<Self>, mut troubles: mpsc::UnboundedReceiver<Trouble>) {
        while let Some(trouble) = troubles.recv().await {
            match trouble {
                // Nothing else runs in this thread meanwhile.
                Trouble::Block(millis) => thread::sleep(Duration::from_millis(millis)),
                Trouble::Crash(moment) => self.crash.set(Some(moment)),
            }
        }
    }

    async fn ends_on_sigterm(self: Rc<Self>, ends: watch::Sender<bool>) {
        match signal(SignalKind::terminate()) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(error) => return eprintln!("can't receive SIGTERM: {error}"),
        }
        self.terminated.set(true);
        let _ = ends.send(true);
    }

    async fn take_turns(self: Rc<Self>, caller: usize, mut rng: Rng) {
        while !*self.ending.borrow() {
            let target = rng.pick(&self.orders.locks).clone();
            let terms = self.terms(&target, caller % self.owners.len(), &mut rng);
            let tries = rng.once_in(4) || self.orders.lie == Some(Lie::FreesOthers);
            match self.take_turn(&target, &terms, tries).await {
                Ok(()) => {}
                Err(Error::Closed) => return,
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
            sleep(Duration::from_millis(rng.range((0, 40)))).await;
        }
    }

    async fn take_turn(&self, target: &Target, terms: &Terms, tries: bool) -> Result<(), Error> {
        let lease = if tries { self.tries(target, terms).await } else { self.waits(target, terms).await };
        let Some((number, lease)) = lease? else { return Ok(()) };
        if terms.again {
            let inner = Terms { again: false, hold: terms.hold / 2, ..terms.clone() };
            let again = Box::pin(self.take_turn(target, &inner, tries));
            return tokio::join!(self.hold(target, terms, number, lease), again).1;
        }
        self.hold(target, terms, number, lease).await;
        Ok(())
    }

    fn terms(&self, target: &Target, owner: usize, rng: &mut Rng) -> Terms {
        let mut renewed = !rng.once_in(5) && self.orders.lie != Some(Lie::KeepsWorking);
        let longest = LONGEST_TTL.as_millis() as u64;
        let mut ttl = rng.range(if renewed { (900, longest) } else { (700, 1_200) });
        let long = target.name.ends_with("long");
        // Most turns are short. Some need renewals, and some outlast a fixed lease.
        let hold = if long || rng.once_in(40) { rng.range((500, 2_500)) } else { rng.spread((1, 60)) };
        let wait = rng.range((500, if long { 1_000 } else { 5_000 }));
        let conversions = if target.can_convert() && rng.once_in(2) { rng.range((1, 2)) } else { 0 };
        let again = target.is_reentrant() && rng.once_in(2);
        if target.is_reentrant() {
            // An owner that enters again gets the lease that it has, so all calls of an owner ask for the same one.
            (ttl, renewed) = if owner == 0 { (1_500, true) } else { (1_000, false) };
        }
        let [ttl, wait, hold] = [ttl, wait, hold].map(Duration::from_millis);
        Terms { owner, ttl, renewed, wait, hold, conversions, again }
    }

    fn lock(&self, target: &Target, terms: &Terms) -> Lock {
        let several = names(&target.name).count() > 1;
        let lock = match target.share {
            Share::Exclusive if several => self.locks.multi(names(&target.name)),
            Share::Exclusive if target.is_reentrant() => self.locks.reentrant(&target.name, &self.owners[terms.owner]),
            Share::Exclusive if !target.name.starts_with("page") => self.locks.mutex(&target.name),
            Share::Exclusive => self.locks.read_write(&target.name).write(),
            Share::Shared => self.locks.read_write(&target.name).read(),
            Share::Permits { permits, limit } => self.locks.semaphore(&target.name, limit).permits(permits),
        };
        lock.ttl(terms.ttl).renew(terms.renewed).wait(terms.wait)
    }

    async fn waits(&self, target: &Target, terms: &Terms) -> Result<Option<(u64, Lease)>, Error> {
        let lock = self.lock(target, terms);
        let call = self.asks(Op::Acquire, target, terms, terms.wait);
        match lock.acquire().await {
            Ok(lease) => Ok(Some((self.granted(call, terms, &lease), lease))),
            Err(error) => Err(ended(call, error)),
        }
    }

    async fn tries(&self, target: &Target, terms: &Terms) -> Result<Option<(u64, Lease)>, Error> {
        let lock = self.lock(target, terms);
        let call = self.asks(Op::Try, target, terms, terms.wait.min(self.try_within()));
        match lock.try_acquire().await {
            Ok(Some(lease)) => Ok(Some((self.granted(call, terms, &lease), lease))),
            Ok(None) => {
                tell(&What::Ended { call, outcome: "busy".to_owned() });
                // The next try gets the lock.
                if self.orders.lie == Some(Lie::FreesOthers) {
                    self.free(&target.name).await;
                }
                Ok(None)
            }
            Err(error) => Err(ended(call, error)),
        }
    }

    pub(super) fn granted(&self, call: u64, terms: &Terms, lease: &Lease) -> u64 {
        let at = now();
        let left = lease.remaining();
        let fences =
            if lease.fences().len() > 1 { lease.fences().map(|(_, fence)| fence.get()).collect() } else { vec![] };
        self.begins_lease(at, call, terms, (lease.fence().get(), fences), left)
    }

    /// Records a lease that is valid for `left` from `at`.
    pub(super) fn begins_lease(
        &self,
        at: u64,
        call: u64,
        terms: &Terms,
        (fence, fences): (u64, Vec<u64>),
        left: Duration,
    ) -> u64 {
        let number = next(&self.leases);
        let (ttl, left) = (terms.ttl.as_millis() as u64, left.as_micros() as u64);
        tell_at(at, &What::Granted { call, lease: number, fence, fences, ttl, renewed: terms.renewed, left });
        number
    }

    /// Holds a lease, and perhaps converts it, until the turn is over or the lease is lost. Then gives it back.
    async fn hold(&self, target: &Target, terms: &Terms, mut number: u64, lease: Lease) {
        if self.orders.lie == Some(Lie::KeepsWorking) {
            return self.keep_working(terms, number, lease).await;
        }
        let mut lost = pin!(lease.lost());
        let mut conversions = 0..terms.conversions;
        let mut share = target.share;
        while self.keeps(terms, number, &lease, lost.as_mut()).await && conversions.next().is_some() {
            let to = if share == Share::Exclusive { Share::Shared } else { Share::Exclusive };
            match self.converts(target, terms, number, &lease, to).await {
                Some(converted) => (number, share) = (converted, to),
                // It is not certain which share it has now.
                None if to == Share::Shared => break,
                None => {}
            }
        }
        let call = self.begins(Op::Release, &target.name, None, Some(number), RESPONSE_TIMEOUT);
        released(call, lease.release().await);
    }

    /// Looks at a lease for a while. Returns false if it is lost, or if this process ends.
    pub(super) async fn keeps(
        &self,
        terms: &Terms,
        number: u64,
        lease: &Lease,
        mut lost: Pin<&mut impl Future<Output = LossReason>>,
    ) -> bool {
        let end = Instant::now() + terms.hold;
        loop {
            // The clock first, so that the lease is valid to at least `at + left`.
            let at = now();
            let left = lease.remaining().as_micros() as u64;
            if left > 0 {
                tell_at(at, &What::Held { lease: number, left });
            }
            let time = Instant::now();
            let next_look = time + Duration::from_millis(50);
            let wake = if time < end { next_look.min(end) } else { next_look };
            tokio::select! {
                biased;
                reason = &mut lost => {
                    tell(&What::Lost { lease: number, reason: reason.code().to_owned() });
                    return false;
                }
                () = sleep_until(wake) => {}
            }
            if *self.ending.borrow() {
                return false;
            }
            // After its deadline, a lease is about to be lost. The notification must come.
            if wake >= end && lease.is_held() {
                return true;
            }
        }
    }

    /// Returns the new number of the lease, if it has this share now.
    async fn converts(&self, target: &Target, terms: &Terms, number: u64, lease: &Lease, to: Share) -> Option<u64> {
        let op = if to == Share::Shared { Op::Downgrade } else { Op::Upgrade };
        // It ends with its lease at the latest. A renewal may be under way.
        let within = if terms.renewed { terms.ttl } else { lease.remaining() };
        let call = self.begins(op, &target.name, Some(to), Some(number), within);
        let converted = if op == Op::Downgrade { lease.downgrade().await } else { lease.upgrade().await };
        match converted {
            Ok(()) => Some(self.granted(call, terms, lease)),
            Err(error) => {
                ended(call, error);
                None
            }
        }
    }

    /// Finds out how the tokens of this process begin: a lock that nobody else takes shows it.
    async fn find_own_id(self: Rc<Self>) {
        let name = format!("own-{}", self.orders.seed);
        while !*self.ending.borrow() {
            if let Ok(Some(lease)) = self.locks.mutex(&name).try_acquire().await {
                let seen = self.locks.inspect(&name).await;
                let holder = seen.ok().and_then(|seen| seen.holders.into_iter().next());
                let _ = lease.release().await;
                // The rest of a token differs between the servers of a quorum.
                if let Some(id) = holder.as_ref().and_then(|holder| holder.token.get(..32)) {
                    return tell(&What::Client { id: id.to_owned() });
                }
            }
            sleep(Duration::from_millis(100)).await;
        }
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
        let Ok(client) = leasehold::redis_1::redis::Client::open(url.as_str()) else { return };
        if let Ok(mut connection) = client.get_multiplexed_async_connection().await {
            let _: Result<u32, _> = leasehold::redis_1::redis::cmd("DEL").arg(name).query_async(&mut connection).await;
        }
    }

    /// The documented time of a try: see "Bounded delays" in `docs/guarantees.md`.
    fn try_within(&self) -> Duration {
        if self.orders.topology == Kind::Quorum { NODE_TIMEOUT * 8 } else { RESPONSE_TIMEOUT }
    }

    /// A caller asks for a lease.
    fn asks(&self, op: Op, target: &Target, terms: &Terms, within: Duration) -> u64 {
        let (call, name, within) = (next(&self.calls), target.name.clone(), within.as_millis() as u64);
        let owner = target.is_reentrant().then_some(terms.owner as u64);
        tell(&What::Began { call, op, name, share: Some(target.share), owner, lease: None, within });
        call
    }

    pub(super) fn begins(&self, op: Op, name: &str, share: Option<Share>, lease: Option<u64>, within: Duration) -> u64 {
        let (call, name, within) = (next(&self.calls), name.to_owned(), within.as_millis() as u64);
        tell(&What::Began { call, op, name, share, owner: None, lease, within });
        call
    }
}

pub(super) fn released(call: u64, outcome: Result<ReleaseOutcome, Error>) {
    let outcome = match outcome {
        Ok(ReleaseOutcome::Released) => "released",
        Ok(ReleaseOutcome::StillHeld) => "still-held",
        Ok(ReleaseOutcome::AlreadyExpired) => "already-expired",
        Ok(ReleaseOutcome::NotOwner) => "not-owner",
        Ok(_) => "unknown",
        Err(error) => error.code(),
    };
    tell(&What::Ended { call, outcome: outcome.to_owned() });
}

pub(super) fn ended(call: u64, error: Error) -> Error {
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
        let mut builder = LockManager::builder()
            .response_timeout(RESPONSE_TIMEOUT)
            .claim_window(CLAIM_WINDOW)
            .node_timeout(NODE_TIMEOUT);
        if orders.drill == Some(Drill::Limits) {
            builder = builder.label(&orders.label);
        }
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

/// Reads what the harness tells this process to do. `ends` becomes true when the standard input ends.
fn read_input(ends: watch::Sender<bool>) -> mpsc::UnboundedReceiver<Trouble> {
    let (sender, troubles) = mpsc::unbounded_channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            match serde_json::from_str(&line) {
                Ok(trouble) => drop(sender.send(trouble)),
                Err(error) => eprintln!("bad line `{line}`: {error}"),
            }
        }
        let _ = ends.send(true);
    });
    troubles
}

pub(super) fn tell(what: &What) {
    tell_at(now(), what);
}

#[derive(serde::Serialize)]
struct Line<'a> {
    at: u64,
    #[serde(flatten)]
    what: &'a What,
}

pub(super) fn tell_at(at: u64, what: &What) {
    if let Ok(line) = serde_json::to_string(&Line { at, what }) {
        // The reader is gone only when the run is over.
        let _ = writeln!(io::stdout().lock(), "{line}");
    }
}
