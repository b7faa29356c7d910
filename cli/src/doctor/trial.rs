//! The last check: takes and releases locks, as a service does. The other checks ask the server about itself. A server can
//! pass all of them and still grant no lock.

use std::pin::pin;
use std::time::{Duration, Instant};

use leasehold::redis_1::redis::{self, RedisResult};
use leasehold::{Begun, Lease, Lock, LockManager, Owner, ReleaseOutcome};
use tokio::time::{sleep, timeout};

use super::check::{Check, Verdict};
use super::names::Names;
use super::remedies::{for_every_write, remedy};
use crate::args::Servers;
use crate::keyspace::Spread;
use crate::render::time;
use crate::report::{Failure, Outcome, exit};
use crate::servers::{Node, of_server};

pub(super) const NAME: &str = "locks";
/// Others see the doctor under this name.
const LABEL: &str = "leasehold doctor";
/// A doctor that is killed leaves its locks for at most this time.
const TTL: Duration = Duration::from_secs(60);
/// How often to look whether something has happened on the server.
const LOOK: Duration = Duration::from_millis(10);
/// How often to look whether a server of a quorum has the lock, before the doctor takes the lock again.
const LOOKS: u32 = 50;
/// Deletes the counter of the fences if nobody has drawn a fence since this one.
const DELETE_COUNTER: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// Two clients, so that one can wait for the other.
pub(super) struct Trial {
    holder: LockManager,
    waiter: LockManager,
    spread: Spread,
    /// How long each lock may take.
    limit: Duration,
}

/// What was taken and released so far.
#[derive(Default)]
struct Taken {
    kinds: Vec<&'static str>,
    last_fence: u64,
}

/// What could not be taken or released, and why.
struct Failed {
    what: &'static str,
    failure: Failure,
}

impl Trial {
    pub(super) async fn open(servers: &Servers) -> Outcome<Self> {
        let (holder, waiter) = (servers.locks_as(Some(LABEL)).await?, servers.locks_as(Some(LABEL)).await?);
        Ok(Self { holder, waiter, spread: servers.spread(), limit: servers.timeout })
    }

    /// Takes and releases locks that are on this server.
    pub(super) async fn check(&self, node: &mut Node, names: &Names, user: &str) -> Check {
        let pair = match &node.slots {
            Some(slots) => names.two_in(slots),
            None => Some([names.name(0), names.name(1)]),
        };
        let Some(pair) = pair else {
            return Check::ok(NAME, "not tried: all names with this hash tag are on other servers");
        };
        let name = names.key(&pair[0]);
        let counter = self.unused_counter(node, &name).await;
        let mut taken = Taken::default();
        let failed = self.take_all(node, names, &pair, &mut taken).await.err();
        if let Some(counter) = counter {
            delete_counter(node, &counter, taken.last_fence).await;
        }
        let done = format!("taken and released on `{name}`: {}", taken.kinds.join(", "));
        let Some(Failed { what, failure }) = failed else { return Check::ok(NAME, done) };
        let also = if taken.kinds.is_empty() { String::new() } else { format!("; {done}") };
        let finding = format!("can't take {what} on `{name}`: {}{also}", without_name(&failure.message));
        Check::new(NAME, Verdict::Problem, finding, remedy(failure, node, user).await)
    }

    /// Closes both clients.
    pub(super) async fn close(&self) {
        self.waiter.close().await;
        self.holder.close().await;
    }

    async fn take_all(
        &self,
        node: &mut Node,
        names: &Names,
        pair: &[String; 2],
        taken: &mut Taken,
    ) -> Result<(), Failed> {
        let failed = |failure| Failed { what: "a mutex", failure };
        // An acquire waits while the server refuses all writes. The answer to a plain write says at once why.
        if let Err(failure) = write(node, &names.key(&pair[0])).await
            && for_every_write(&failure.message).is_some()
        {
            return Err(failed(failure));
        }
        for (what, lock) in self.kinds(pair) {
            let done = self.take_and_release(&lock).await;
            taken.add(what, done)?;
        }
        if self.spread != Spread::Quorum {
            let done = self.once(&pair[0]).await;
            taken.add("a once", done)?;
            let done = self.term(&pair[0]).await;
            taken.add("an election", done)?;
        }
        if self.spread == Spread::Quorum {
            self.on_this_server(node, names, pair).await.map_err(failed)?;
        }
        let done = self.queue(&pair[0]).await;
        taken.add("a place in the queue", done)
    }

    /// A lock of each kind that the topology has.
    fn kinds(&self, pair: &[String; 2]) -> Vec<(&'static str, Lock)> {
        let (locks, name) = (&self.holder, &pair[0]);
        let mut kinds = vec![
            ("a mutex", locks.mutex(name)),
            ("a reader", locks.read_write(name).read()),
            ("several names", locks.multi(pair)),
        ];
        if self.spread != Spread::Quorum {
            kinds.push(("a semaphore", locks.semaphore(name, 1).permits(1)));
            kinds.push(("a reentrant lock", locks.reentrant(name, &Owner::new())));
        }
        kinds
    }

    async fn take(&self, lock: &Lock) -> Outcome<Lease> {
        Ok(lock.clone().ttl(TTL).wait(self.limit).acquire().await?)
    }

    /// Returns the fence.
    async fn take_and_release(&self, lock: &Lock) -> Outcome<u64> {
        release(self.take(lock).await?).await
    }

    /// Stores a result, reads it, and deletes it. Returns the fence.
    async fn once(&self, name: &str) -> Outcome<u64> {
        let once = self.holder.once(name).keep(TTL).ttl(TTL).wait(self.limit);
        let Begun::Work(lease) = once.begin::<bool>().await? else { return Err(lost()) };
        let fence = lease.fence().get();
        lease.store(&true).await?;
        let Begun::Stored(true) = once.begin().await? else { return Err(lost()) };
        if self.holder.forget(name).await? { Ok(fence) } else { Err(lost()) }
    }

    /// Leads, and resigns. Returns the fence.
    async fn term(&self, name: &str) -> Outcome<u64> {
        let election = self.holder.election(name).ttl(TTL);
        let Ok(term) = timeout(self.limit, election.campaign()).await else {
            let message = format!("there is no term after {}", time(self.limit));
            return Err(Failure::new(exit::SERVER, "unreachable", message, "read the server's log"));
        };
        let term = term?;
        let fence = term.fence().get();
        match term.resign().await? {
            ReleaseOutcome::Released => Ok(fence),
            _ => Err(lost()),
        }
    }

    /// One client waits until the other one releases. Returns the waiter's fence.
    async fn queue(&self, name: &str) -> Outcome<u64> {
        let held = self.take(&self.holder.mutex(name)).await?;
        let lock = self.waiter.mutex(name);
        let mut waiting = pin!(self.take(&lock));
        tokio::select! {
            ended = &mut waiting => {
                release(ended?).await?;
                return Err(lost());
            }
            queued = self.queued(name) => queued?,
        }
        let (released, granted) = tokio::join!(release(held), waiting);
        released?;
        release(granted?).await
    }

    /// Waits until a client is in the queue.
    async fn queued(&self, name: &str) -> Outcome<()> {
        let since = Instant::now();
        while self.holder.inspect_server(name).await?.waiters.is_empty() {
            // While the first server of a quorum is down, there is no queue: waiters ask again and again.
            if self.spread == Spread::Quorum && since.elapsed() > self.limit / 4 {
                break;
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// Takes a lock until this server of a quorum has it, too. The others alone are enough for the lock.
    async fn on_this_server(&self, node: &mut Node, names: &Names, pair: &[String; 2]) -> Outcome<()> {
        let since = Instant::now();
        let key = names.key(&pair[0]);
        loop {
            let held = self.take(&self.holder.mutex(&pair[0])).await?;
            let has = appears(node, &key).await;
            release(held).await?;
            if has? {
                return Ok(());
            }
            if since.elapsed() > self.limit {
                let (message, remedy) = (
                    format!("the other servers have granted it, and this one has not within {}", time(self.limit)),
                    "raise `node_timeout` in your services, if this server is slow",
                );
                return Err(Failure::new(exit::SERVER, "server", message, remedy));
            }
        }
    }

    /// The counter that this key's fences are drawn from, if it doesn't exist yet. In a quorum it stays, because there it
    /// can be ahead of its server's clock.
    async fn unused_counter(&self, node: &mut Node, key: &str) -> Option<String> {
        let spread = match self.spread {
            Spread::Quorum => return None,
            Spread::Single if node.slots.is_some() => Spread::Cluster,
            spread => spread,
        };
        let counter = spread.fence(key);
        let found: Option<Vec<u8>> = node.query(redis::cmd("GET").arg(&counter)).await.ok()?;
        found.is_none().then_some(counter)
    }
}

impl Taken {
    fn add(&mut self, what: &'static str, fence: Outcome<u64>) -> Result<(), Failed> {
        let fence = fence.map_err(|failure| Failed { what, failure })?;
        self.last_fence = self.last_fence.max(fence);
        self.kinds.push(what);
        Ok(())
    }
}

/// The message of an error without the lock's name, which the doctor has already said.
fn without_name(message: &str) -> &str {
    message.strip_prefix("lock `").and_then(|rest| rest.split_once("`: ")).map_or(message, |(_, rest)| rest)
}

/// Returns the fence that the lease had.
async fn release(lease: Lease) -> Outcome<u64> {
    let fence = lease.fence().get();
    match lease.release().await? {
        ReleaseOutcome::Released => Ok(fence),
        _ => Err(lost()),
    }
}

fn lost() -> Failure {
    let remedy = "look for keys that are evicted, for FLUSHALL, and for programs that write to the keys";
    Failure::new(exit::LOST, "lost", "the server has lost the lock while it was held", remedy)
}

/// Whether this server gets the key within half a second. A quorum grants a lock before all servers have it.
async fn appears(node: &mut Node, key: &str) -> Outcome<bool> {
    for _ in 0..LOOKS {
        let exists: RedisResult<bool> = node.query(redis::cmd("EXISTS").arg(key)).await;
        if exists.map_err(|error| of_server(&error, &node.address, "EXISTS"))? {
            return Ok(true);
        }
        sleep(LOOK).await;
    }
    Ok(false)
}

/// A plain write. Its error says why a server grants nothing.
async fn write(node: &mut Node, key: &str) -> Outcome<()> {
    let written: RedisResult<()> = node.query(redis::cmd("SET").arg(key).arg("doctor").arg("PX").arg(1_000)).await;
    written.map_err(|error| of_server(&error, &node.address, "SET"))?;
    // It ends by itself, too.
    let _: RedisResult<()> = node.query(redis::cmd("DEL").arg(key)).await;
    Ok(())
}

/// Deletes the counter if it still has the doctor's last fence. Then no other client has drawn a fence from it.
async fn delete_counter(node: &mut Node, counter: &str, last_fence: u64) {
    let mut delete = redis::cmd("EVAL");
    delete.arg(DELETE_COUNTER).arg(1).arg(counter).arg(last_fence);
    let _: RedisResult<()> = node.query(&delete).await;
}
