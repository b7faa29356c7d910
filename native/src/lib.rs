//! Distributed locks over Redis and Valkey.
//!
//! Every lock is a lease: it has a fencing token, it ends by itself if its holder dies, and its holder is notified if it is lost.
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
//! # What you can rely on
//!
//! While the server keeps its data and its clock does not step:
//!
//! - A name has at most one valid exclusive lease.
//! - A lease's [`Fence`] is greater than the fence of every lease that excluded it before.
//! - Waiters are served in order. Inside a client, up to 32 hand-overs (or 1 s) may come first. Reentrant locks have no
//!   queue.
//! - [`Lease::lost`] notifies you of a loss before the lease expires on the server.
//!
//! A failover can lose a lock, because replication is asynchronous. So let the resource refuse a fence that is smaller
//! than the greatest it has seen.
//!
//! # One server, Sentinel, a cluster
//!
//! [`LockManager::connect`], [`LockManager::sentinel`] and [`LockManager::cluster`] support everything.
//! The README says what a failover can lose. [`Lock::wait_for_replicas`] makes such a loss rarer.
//!
//! # Features
//!
//! - `redis-1`, on by default, adds the module `redis_1`, for clients and connections of the `redis` crate that you already have.
//!   The rest of the API has no type of that crate.
//! - `tls-rustls` adds TLS.
//! - `once` has [`LockManager::once`]: work that is done once, and whose result all callers get. It depends on `serde_json`.
//! - `serde` reads [`LockOptions`] and [`ManagerOptions`] from config files, and writes fences, tokens and inspections.
//! - `without-scripts` is for servers that refuse `EVAL`.
//! - `testing` adds a server in memory, for tests without Redis.
//! - `cancellation-token` adds `Lease::cancellation_token`, a token of `tokio-util` that is cancelled when the lease ends.
//! - `tower` adds the module `tower`: a layer that runs requests under locks, for axum and other services.
//! - `metrics` and `blocking`: see below.
//!
//! # Metrics and traces
//!
//! The crate writes `tracing` spans and events. With the feature `metrics`, it also counts and times what its locks do,
//! for the recorder of the crate [`metrics`](https://docs.rs/metrics).
//!
//! # Runtimes
//!
//! The crate needs a tokio runtime with I/O and time enabled, either multi-threaded or current-thread. Each manager
//! runs one task on the runtime that it was connected on. When that runtime ends, every call fails with
//! [`Error::Closed`], even from another runtime. So a program with two runtimes needs a manager for each.
//!
//! Code without async uses the module `blocking`, with the feature of that name.

// docs.rs shows which feature an item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod api;
mod client;
mod errors;
mod metrics;
mod net;

#[cfg(feature = "blocking")]
pub use api::blocking;
#[cfg(feature = "redis-1")]
pub use api::redis_1;
#[cfg(feature = "testing")]
pub use api::testing;
#[cfg(feature = "tower")]
pub use api::tower;
pub use api::{
    Address, Builder, Closed, Connection, Election, Leader, Lease, LeaseToken, Lock, LockInfo, LockManager,
    LockOptions, ManagerOptions, Observer, Owner, Part, QuorumMember, ReadWrite, Semaphore, Snapshot, Term,
};
#[cfg(feature = "once")]
pub use api::{Begun, Once, OnceOptions};
pub use errors::{Cause, Error};
pub use leasehold_core::{
    BusyHolder, Error as VoteError, ErrorCode, Failure, FailureKind, Fence, Holder, Inspection, LossReason, Mode,
    ReleaseOutcome, Replicas, Vote, Votes, Wait, Waiter,
};

/// The README's programs compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
