//! A user's call that has not ended.

use alloc::sync::Arc;
#[cfg(feature = "quorum")]
use alloc::{boxed::Box, vec::Vec};
use core::time::Duration;

use super::timers::Slot;
use crate::ids::{LeaseId, LockId};
use crate::time::Instant;
use crate::wire::Name;
#[cfg(feature = "quorum")]
use crate::{error::Error, event::Outcome};

pub(crate) struct Op {
    pub(crate) since: Instant,
    /// When the call ends at the latest.
    pub(crate) ends: Slot,
    /// When to send its command again.
    pub(crate) again: Slot,
    pub(crate) failures: u32,
    /// When the command that is not answered yet was first sent. Until then it may be in the client's own queue, which
    /// says nothing about the server.
    pub(crate) sent: Option<Instant>,
    /// Whether the caller set the time limit itself.
    pub(crate) bounded: bool,
    pub(crate) kind: OpKind,
}

pub(crate) enum OpKind {
    /// `tries`: the call does not wait.
    Acquire {
        lock: LockId,
        tries: bool,
    },
    /// The call waits for a semaphore, and no lane asks for it yet.
    Semaphore {
        key: Arc<str>,
    },
    /// The call wants several names, all or none.
    AcquireAll {
        group: LeaseId,
    },
    Extend {
        lease: LeaseId,
        ttl: Duration,
    },
    /// `raise` is the fence that a quorum wants the server to remember. With 0, the call only asks the server.
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
    /// The call tries the script of one family after the other.
    Force {
        name: Name,
    },
    Close,
    /// A quorum's call. It consists of one call to each server.
    #[cfg(feature = "quorum")]
    Tally(Box<Tally>),
}

/// A user's call with a part for each server of a quorum.
#[cfg(feature = "quorum")]
pub(crate) struct Tally {
    pub(crate) kind: TallyKind,
    /// The result of each server. None while it has not answered.
    pub(crate) parts: Vec<Option<Result<Outcome, Error>>>,
}

/// What the servers are asked.
#[cfg(feature = "quorum")]
#[derive(Clone, Copy)]
pub(crate) enum TallyKind {
    Release,
    Extend(LeaseId),
    Verify(LeaseId),
    Inspect,
    Force,
    Close,
}

#[cfg(feature = "quorum")]
impl Tally {
    /// A call that no server has been asked for yet.
    pub(crate) fn new(kind: TallyKind, servers: usize) -> Self {
        Self { kind, parts: (0..servers).map(|_| Some(Err(Error::NotHeld))).collect() }
    }

    /// Marks a server as asked.
    pub(crate) fn asks(&mut self, at: usize) {
        if let Some(part) = self.parts.get_mut(at) {
            *part = None;
        }
    }

    pub(crate) fn count(&self, which: impl Fn(&Option<Result<Outcome, Error>>) -> bool) -> usize {
        self.parts.iter().filter(|part| which(part)).count()
    }
}
