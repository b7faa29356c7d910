//! Distributed locks over Redis and Valkey, as leases: each has a fencing token, ends by itself if its holder dies, and
//! is never lost in silence.
//!
//! ```no_run
//! # struct Db; impl Db { async fn save(&self, _: &str, _: leasehold::Fence) {} }
//! # async fn first(db: Db) -> Result<(), leasehold::Error> {
//! use leasehold::LockManager;
//!
//! let locks = LockManager::connect("redis://127.0.0.1/").await?;
//! let lease = locks.mutex("invoice:42").acquire().await?;
//! db.save("invoice 42 is paid", lease.fence()).await;
//! lease.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What is promised
//!
//! At most one valid exclusive lease per name while the server keeps its data and its clock does not step; a [`Fence`]
//! with every lease that is greater than that of every lease it followed; waiting in the order of arrival; and
//! [`Lease::lost`] tells of a loss before the lease ends on the server. What no lock over an asynchronous server can
//! promise: a failover may lose a lock. So let the resource refuse a fence smaller than the greatest that it has seen.
//!
//! # One server, Sentinel, a cluster
//!
//! [`LockManager::connect`], [`LockManager::sentinel`] and [`LockManager::cluster`] have everything; the feature `tls-rustls` adds TLS. What a
//! failover can lose, and how [`Lock::wait_for_replicas`] makes that rarer, is in the README.
//!
//! # What it runs on
//!
//! A tokio runtime, of either kind, with I/O and time enabled. Each manager has one task on the runtime that it was
//! connected on; when that runtime ends, every call answers [`Error::Closed`], on any other runtime as well. So a program
//! with two runtimes has a manager for each.

mod builder;
mod call;
mod client;
mod clock;
mod cluster;
mod driver;
mod endpoint;
mod error;
mod first;
mod lease;
mod link;
mod lock;
mod login;
mod manager;
mod multi;
mod owner;
mod quorum;
mod replicas;
mod router;
mod sentinel;
mod server;
mod server_link;
mod shared;
mod slots;
mod state;
mod subscription;
#[cfg(feature = "tls-rustls")]
mod tls;
mod version;
mod wire;

pub use builder::Builder;
pub use error::{Error, Source};
pub use lease::{Fence, Lease};
pub use leasehold_core::{Holder, Inspection, LossReason, Mode, ReleaseOutcome, Vote, Votes, Wait, Waiter};
pub use lock::{Lock, ReadWrite, Semaphore};
pub use manager::{Closed, LockManager};
pub use multi::{Multi, MultiLease};
pub use owner::Owner;
pub use redis;

/// The README's programs compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
