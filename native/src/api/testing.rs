//! A server in memory, for your tests: no Redis, no waiting, and faults on demand.
//!
//! It runs the same scripts as a real server does, as Rust functions. Real servers are compared with it. It has no
//! replicas, so [`Lock::wait_for_replicas`](crate::Lock::wait_for_replicas) is refused, and it is no cluster.
//!
//! ```
//! use leasehold::LossReason;
//! use leasehold::testing::Server;
//!
//! // #[tokio::test(start_paused = true)]
//! async fn my_job_stops_when_its_lease_is_lost() -> Result<(), Box<dyn std::error::Error>> {
//!     let server = Server::new();
//!     let lease = server.manager()?.mutex("report").acquire().await?;
//!     server.expire("report")?;
//!     assert_eq!(lease.lost().await, LossReason::Gone);
//!     Ok(())
//! }
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
//! # runtime.unwrap().block_on(my_job_stops_when_its_lease_is_lost()).unwrap();
//! ```
//!
//! Time is tokio's, so a test with a paused clock waits for nothing. [`Clock::advance`] moves the
//! time of locks by hand.

use super::manager::LockManager;
use crate::errors::Error;
pub use crate::net::testing::{Clock, Server, Stopped};

impl Server {
    /// A new manager of this server. [`Builder::in_memory`](crate::Builder::in_memory) makes one with options.
    ///
    /// # Errors
    /// `unsupported` outside a tokio runtime.
    pub fn manager(&self) -> Result<LockManager, Error> {
        LockManager::builder().in_memory(self)
    }
}
