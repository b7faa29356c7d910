//! What users call: the manager, its locks and their leases.
//!
//! Everything that leaves this folder is public.

mod builder;
mod host;
mod lease;
mod lock;
mod manager;
mod owner;
mod spans;
#[cfg(feature = "testing")]
pub mod testing;

pub use builder::Builder;
pub use lease::{Fence, Lease};
pub use lock::{Lock, ReadWrite, Semaphore};
pub use manager::{Closed, LockManager};
pub use owner::Owner;
