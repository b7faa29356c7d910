//! A user's call that has not ended.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::timers::Slot;
use crate::error::{Error, LossReason};
use crate::event::Outcome;
use crate::ids::{LeaseId, LockId, Token};
use crate::time::{Duration, Instant};
use crate::wire::Name;

#[derive(Clone, Hash)]
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
    /// How often it has got more time because this process was paused.
    pub(crate) pauses: u8,
    pub(crate) kind: OpKind,
}

#[derive(Clone, Hash)]
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
    Release {
        token: Token,
    },
    /// The call goes on until it is cancelled.
    Observe {
        lock: LockId,
    },
    Inspect {
        name: Arc<Name>,
    },
    /// The call tries the script of one family after the other.
    Force {
        name: Arc<Name>,
        foreign: bool,
    },
    /// The call deletes the result of a once.
    Forget {
        name: Arc<Name>,
    },
    Drain,
    Close,
    /// The call consists of one call to each part.
    Gather(Gather),
}

/// The results of a user's call, one for each part. None for a part that has not answered.
#[derive(Clone, Hash, Default)]
pub(crate) struct Gather(pub(crate) Vec<Option<Result<Outcome, Error>>>);

/// What happened to a part.
#[derive(Clone, Hash)]
pub(crate) enum PartEvent {
    /// The call to it has ended.
    Ended(Result<Outcome, Error>),
    /// Its lease was lost.
    Lost(LossReason),
}

impl Gather {
    /// The results so far.
    #[cfg(feature = "quorum")]
    pub(crate) fn answers(&self) -> impl Iterator<Item = &Result<Outcome, Error>> {
        self.0.iter().flatten()
    }

    /// How many parts have not answered.
    pub(crate) fn open(&self) -> usize {
        self.0.iter().filter(|part| part.is_none()).count()
    }
}
