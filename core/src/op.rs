//! A user's call that has not ended.

use alloc::sync::Arc;
use core::time::Duration;

use crate::context::ResourceId;
use crate::event::LeaseId;
use crate::name::Name;
use crate::time::Instant;
use crate::timers::Slot;

pub(crate) struct Op {
    pub(crate) since: Instant,
    /// When it ends at the latest.
    pub(crate) ends: Slot,
    /// When its command goes out again.
    pub(crate) again: Slot,
    pub(crate) failures: u32,
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
    Verify {
        lease: LeaseId,
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
}
