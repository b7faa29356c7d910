//! Managers of a server in memory.

use super::manager::LockManager;
use crate::errors::Error;
use crate::net::testing::Server;

impl Server {
    /// A new manager of this server. [`Builder::in_memory`](crate::Builder::in_memory) makes one with options.
    ///
    /// # Errors
    /// `unsupported` outside a tokio runtime.
    pub fn manager(&self) -> Result<LockManager, Error> {
        LockManager::builder().in_memory(self)
    }
}
