use std::time::Duration;

use leasehold::{Lock, LockManager, Owner, Wait};

use crate::Done;

/// Which lock, and how it is taken.
#[derive(Clone)]
pub(crate) struct Locks {
    kind: Kind,
    pub(crate) url: String,
    pub(crate) name: String,
    ttl: Duration,
}

#[derive(Clone, Copy)]
enum Kind {
    Mutex,
    MixedMutex,
    Reentrant,
    Semaphore,
    Rate,
    Quorum,
}

/// The same number as in the peer for redis-semaphore.
const PERMITS: u32 = 5;
/// The limit of a rate, in each TTL. The same number as in the peers for other libraries.
const RATE: u32 = 1_000;

/// One client of the server.
pub(crate) struct Connected {
    manager: LockManager,
    kind: Kind,
    ttl: Duration,
}

impl Locks {
    pub(crate) fn new(library: &str, url: &str, name: &str, ttl: Duration) -> Done<Self> {
        let kind = match library {
            "leasehold" => Kind::Mutex,
            "leasehold-mixed" => Kind::MixedMutex,
            "leasehold-reentrant" => Kind::Reentrant,
            "leasehold-semaphore" => Kind::Semaphore,
            "leasehold-rate" => Kind::Rate,
            "leasehold-quorum" => Kind::Quorum,
            other => return Err(format!("no library {other} here").into()),
        };
        Ok(Self { kind, url: url.to_owned(), name: name.to_owned(), ttl })
    }

    /// Whether the workers are owners of one client, like threads with Redisson.
    pub(crate) fn share_client(&self) -> bool {
        matches!(self.kind, Kind::Reentrant)
    }

    /// Another client, as in another process.
    pub(crate) async fn connect(&self) -> Done<Connected> {
        let builder = LockManager::builder().wait(Wait::Forever).response_timeout(Duration::from_secs(60));
        let builder = match self.kind {
            Kind::Mutex | Kind::Semaphore | Kind::Rate | Kind::Quorum => builder,
            Kind::MixedMutex => builder.mixed_fleet(true),
            // A waiter polls every third of it if nothing wakes it. That is too rare to be mistaken for a message.
            Kind::Reentrant => builder.claim_window(Duration::from_secs(60)),
        };
        let manager = match self.kind {
            Kind::Quorum => builder.quorum(self.url.split(',')).await?,
            _ => builder.connect(&self.url).await?,
        };
        Ok(Connected { manager, kind: self.kind, ttl: self.ttl })
    }
}

impl Connected {
    /// A lock for one worker. For a reentrant lock, each worker is a different owner.
    pub(crate) fn lock(&self, name: &str) -> Lock {
        let lock = match self.kind {
            Kind::Mutex | Kind::MixedMutex | Kind::Quorum => self.manager.mutex(name),
            Kind::Reentrant => self.manager.reentrant(name, &Owner::new()),
            Kind::Semaphore => self.manager.semaphore(name, PERMITS).permits(1),
            Kind::Rate => return self.manager.semaphore(name, RATE).per(self.ttl).permits(1),
        };
        lock.ttl(self.ttl)
    }
}
