//! A user's call that has not ended.

#[cfg(feature = "quorum")]
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use crate::context::ResourceId;
use crate::event::LeaseId;
use crate::name::Name;
#[cfg(feature = "quorum")]
use crate::quorum::Tally;
use crate::time::Instant;
use crate::timers::Slot;

pub(crate) struct Op {
    pub(crate) since: Instant,
    /// When it ends at the latest.
    pub(crate) ends: Slot,
    /// When its command goes out again.
    pub(crate) again: Slot,
    pub(crate) failures: u32,
    /// When its first command left. Until then it may be in our own queue, which is no silence of the server's.
    pub(crate) sent: Option<Instant>,
    /// Whether the caller has said itself when it ends.
    pub(crate) bounded: bool,
    pub(crate) kind: OpKind,
}

pub(crate) enum OpKind {
    /// `tries`: it does not wait.
    Acquire {
        resource: ResourceId,
        tries: bool,
    },
    /// It waits for a semaphore, and no lane asks for it yet.
    Pooled {
        key: Arc<str>,
    },
    /// Of several names, all or nothing.
    AcquireAll {
        group: LeaseId,
    },
    Extend {
        lease: LeaseId,
        ttl: Duration,
    },
    /// `raise` is the fence that a quorum wants there, 0 if the server is only asked.
    Verify {
        lease: LeaseId,
        raise: u64,
    },
    Convert {
        lease: LeaseId,
    },
    Release,
    Inspect {
        name: Name,
    },
    /// It tries one family of kinds after the other.
    Force {
        name: Name,
    },
    Close,
    /// A quorum's call, made of one call to each server.
    #[cfg(feature = "quorum")]
    Tally(Box<Tally>),
}
