//! A token that is being given back.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::timers::Slot;
use super::unanswered::InFlight;
use crate::ids::{Caller, LeaseId, Token};
use crate::options::Mode;
use crate::time::{Duration, Instant};
use crate::wire::Name;

/// A token that is being given back. It belongs to no name in use any more.
#[derive(Clone, Hash)]
pub(crate) struct Release {
    pub(super) name: Arc<Name>,
    pub(super) tombstone: bool,
    /// The call that waits for the outcome.
    pub(crate) op: Option<Caller>,
    pub(super) heirs: Vec<LeaseId>,
    /// Until when the lease was valid. None for a token that only waited.
    pub(super) valid_until: Option<Instant>,
    /// Whether the lease was valid when it was given back.
    pub(super) held: bool,
    /// Whether an unanswered convert may have moved the lease to another token.
    pub(super) moved: bool,
    pub(super) given_up: Instant,
    /// When the server will have forgotten the token by itself.
    pub(super) give_up: Instant,
    /// Commands that may have been applied, or may still be.
    pub(crate) in_flight: InFlight,
    /// How often the release was sent and how often it failed.
    pub(super) sends: u32,
    pub(super) failures: u32,
    /// Whether it failed in a way that no retry can repair. The lease stays on the server until its end.
    pub(super) refused: bool,
    /// Whether the server refused it because the slot of its keys moves.
    pub(super) moving: bool,
    /// Whether other clients are known to wait for the lock.
    pub(super) wanted: bool,
    /// The greatest fence that was used, unless the server's clock is above it. With a result, always.
    pub(super) used_fence: u64,
    /// The result that it stores.
    pub(super) result: Option<ToStore>,
    pub(super) timer: Slot,
}

/// The result of a once, which its release stores.
#[derive(Clone, Hash)]
pub(crate) struct ToStore {
    /// How long the server keeps it.
    pub(crate) keep: Duration,
    pub(crate) value: Box<[u8]>,
}

/// What is known about a token that is given back.
pub(crate) struct ReleaseParams {
    pub(crate) token: Token,
    pub(crate) tombstone: bool,
    pub(crate) valid_until: Option<Instant>,
    pub(crate) op: Option<Caller>,
    /// If this token was held, the readers that go on under another token.
    pub(crate) heirs: Vec<LeaseId>,
    /// Whether an unanswered convert may have moved the lease to another token. That token is given back too.
    pub(crate) moved: bool,
    /// Whether other clients are known to wait for the lock.
    pub(crate) wanted: bool,
    /// The greatest fence that was used, unless the server's clock is above it. With a result, always.
    pub(crate) used_fence: u64,
    /// For the fast path, if nobody is known to wait: the mode, and the fence in the key of an exclusive lock.
    pub(crate) fast: Option<(Mode, u64)>,
    /// The result that the release stores.
    pub(crate) result: Option<ToStore>,
}

impl ReleaseParams {
    pub(crate) const fn of(token: Token, tombstone: bool) -> Self {
        Self {
            token,
            tombstone,
            valid_until: None,
            op: None,
            heirs: Vec::new(),
            moved: false,
            wanted: false,
            used_fence: 0,
            fast: None,
            result: None,
        }
    }
}

impl Release {
    /// Whether it stands for a lease that was held until it was given back. If two tokens may have the lease, only one counts.
    pub(super) const fn is_a_lease(&self) -> bool {
        self.held && !self.moved
    }
}
