use std::time::Duration;

use leasehold::{Lock, LockManager, Wait};

use crate::Done;

/// Which lock, and how it is taken.
#[derive(Clone)]
pub(crate) struct Locks {
    library: String,
    pub(crate) url: String,
    pub(crate) name: String,
    ttl: Duration,
}

/// One client of the server.
pub(crate) struct Connected {
    manager: LockManager,
    ttl: Duration,
}

impl Locks {
    pub(crate) fn new(library: &str, url: &str, name: &str, ttl: Duration) -> Self {
        Self { library: library.to_owned(), url: url.to_owned(), name: name.to_owned(), ttl }
    }

    /// Another client, as another process would have.
    pub(crate) async fn connect(&self) -> Done<Connected> {
        let mixed = match self.library.as_str() {
            "leasehold" => false,
            "leasehold-mixed" => true,
            other => return Err(format!("no library {other} here").into()),
        };
        let manager = LockManager::builder().mixed_fleet(mixed).wait(Wait::Forever).connect(&self.url).await?;
        Ok(Connected { manager, ttl: self.ttl })
    }
}

impl Connected {
    pub(crate) fn lock(&self, name: &str) -> Lock {
        self.manager.mutex(name).ttl(self.ttl)
    }
}
