//! Locks for code without async: the same API with methods that block the calling thread.
//!
//! Every type and method has the name of its async counterpart. A manager starts one background thread, which runs a
//! current-thread tokio runtime. It connects, renews leases and receives messages, so your thread may compute or sleep
//! while it holds a lock.
//!
//! ```no_run
//! # struct Db; impl Db { fn save(&self, _: &str, _: leasehold::Fence) {} }
//! # fn first(db: Db) -> Result<(), leasehold::Error> {
//! use leasehold::blocking::LockManager;
//!
//! let locks = LockManager::connect("redis://127.0.0.1/")?;
//! let lease = locks.mutex("invoice:42").acquire()?;
//! db.save("invoice 42 is paid", lease.fence());
//! lease.release()?;
//! locks.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Inside an async runtime
//!
//! A method that blocks would stop all tasks of its thread. So inside a task of a tokio runtime it fails at once with
//! [`Error::Unsupported`], and never panics. Use the [async API](crate::LockManager) there, or call the blocking one in
//! `tokio::task::spawn_blocking` or `block_in_place`. Other async runtimes are not detected, and neither is a task inside
//! `tokio::task::unconstrained`.
//!
//! # After a fork
//!
//! `fork` copies only the calling thread. In the child, the background thread is missing, and calls on a manager of the
//! parent never end. Make a manager in the child.
//!
//! # Differences from the async API
//!
//! - You can't drop a call. A call ends with its `wait`, or with [`Error::Closed`] when another thread closes the manager.
//! - [`Lease::wait_lost`] and [`Lease::on_lost`] replace `lost`. [`Lock::run`] and `Once::run` can't stop their work when the lease
//!   is lost.
//! - [`LockManager::close`] returns a `Result`, because it fails inside a tokio task.
//! - There is no `election`, because a campaign waits for as long as it takes, and a call can't be dropped.
//! - There is no `from_connection`, because such a connection belongs to a runtime of yours.

mod background;
mod builder;
mod connect;
mod lease;
mod lock;
mod manager;
#[cfg(feature = "once")]
mod once;

pub use builder::Builder;
pub use lease::Lease;
pub use lock::{Lock, ReadWrite, Semaphore};
pub use manager::LockManager;
#[cfg(feature = "once")]
pub use once::{Begun, Once};

#[cfg(doc)]
use crate::Error;

/// Methods that set an option of `inner` and have the name, the bounds and the default of their async counterparts.
macro_rules! same_options {
    ($($of:ident: $name:ident($($argument:ident: $type:ty),*);)*) => {$(
        #[doc = concat!("See [`", stringify!($of), "::", stringify!($name), "`](crate::", stringify!($of), "::", stringify!($name), ").")]
        pub fn $name(mut self, $($argument: $type),*) -> Self {
            self.inner = self.inner.$name($($argument),*);
            self
        }
    )*};
}
use same_options;
