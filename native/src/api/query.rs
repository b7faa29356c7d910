//! The locks that a manager holds and waits for, as it knows them without I/O.

use leasehold_core::Mode;

/// The locks of one manager: see [`LockManager::query`](crate::LockManager::query).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Snapshot {
    /// The leases that it holds, in the order in which it got them.
    pub held: Vec<LockInfo>,
    /// The calls that wait for a lock, in the order in which they began.
    pub pending: Vec<LockInfo>,
    /// The locks that no caller holds, and that the manager keeps for its next caller: see [`Lock::linger`](crate::Lock::linger).
    pub lingering: Vec<LockInfo>,
}

/// A lock of a [`Snapshot`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LockInfo {
    /// The lock's name, without the manager's prefix. Several names are joined by `, `.
    pub name: String,
    /// Whether the lock is exclusive or shared.
    pub mode: Mode,
    /// The manager's id. The tokens that [`inspect`](crate::LockManager::inspect) shows begin with it.
    pub client: String,
}
