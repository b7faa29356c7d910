//! What the client asks a server. It stays a request until it leaves: `commands.rs` makes a command of it.
//!
//! A request's [`Body`] says what the server is to do, and its [`Purpose`] who gets the reply. They are two types, because
//! one body serves several purposes: an acquire takes a lock or gets a hold more fences, and a convert changes the mode of a
//! lease or adopts one.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::ids::{Caller, LeaseId, LeaseToken, LockId, Token};
use crate::options::{Kind, Mode};
use crate::time::{Duration, Instant};
use crate::wire::Name;

/// What is asked about a name.
#[derive(Clone, Hash)]
pub(crate) struct Request {
    pub(crate) name: Arc<Name>,
    pub(crate) body: Body,
}

impl Request {
    // Not inlined, because a request is made in many places.
    #[inline(never)]
    pub(crate) fn new(name: &Arc<Name>, body: Body) -> Self {
        Self { name: name.clone(), body }
    }
}

/// Why a request was made, and so who gets its reply.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) enum Purpose {
    /// First try, resend, heartbeat or poll: `token` wants the lock.
    Acquire { lock: LockId, token: Token },
    /// More fences for a hold.
    Refill { lock: LockId, token: Token },
    /// A renewal. `op` is set if it is for a user's extend or verify.
    Renew { lock: LockId, token: Token, op: Option<Caller> },
    /// Converts the lease to the token `new` in the other mode.
    Convert { lock: LockId, new: Token },
    /// Gives a token up.
    Release { token: Token },
    /// One script for several names. The details are stored under this number.
    Multi { script: LeaseId },
    /// The observers of an election ask who leads.
    Observe { lock: LockId },
    /// A user inspects a lock.
    Inspect { op: Caller },
    /// An operator takes a lock by force, or a user deletes the result of a once.
    Force { op: Caller },
    /// The requests of a batch.
    Batch,
}

/// A request that waits for room.
#[derive(Clone)]
pub(crate) struct Queued {
    /// When it is needed.
    pub(super) due: Instant,
    /// Breaks ties: the older command goes first.
    pub(super) number: u64,
    pub(crate) purpose: Purpose,
    pub(crate) request: Request,
    /// The slot of its keys, if it may share a batch.
    pub(super) slot: u16,
}

impl Queued {
    pub(super) fn new(purpose: Purpose, request: Request) -> Self {
        Self { due: Instant::default(), number: 0, purpose, request, slot: 0 }
    }
}

/// Whether a command has its script's digest, or the source after the server answered NOSCRIPT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    Digest,
    Source,
}

/// What the server is to do.
#[derive(Clone, Hash)]
pub(crate) enum Body {
    Acquire(Acquire),
    Release(Release),
    Renew(Renew),
    Convert(Convert),
    /// Makes the server remember a quorum's fence, if the token still holds the lock.
    #[cfg(feature = "quorum")]
    Raise {
        token: Token,
        mode: Mode,
        fence: u64,
    },
    /// Requests that share one script call, on their fast path.
    Batch(Vec<Queued>),
    Inspect,
    /// Deletes the result of a once.
    Forget,
    /// Who leads.
    Leader,
    /// `ahead`: no waiter is granted the lock.
    Force {
        foreign: bool,
        ahead: bool,
    },
    /// All parts at once, each with its own token.
    Multi {
        parts: Vec<(Arc<Name>, Token, Kind, Mode)>,
        ttl: Duration,
    },
}

impl Body {
    /// Whether it goes ahead of the waiters. Such a request is sent with its script's text: a server that doesn't know the
    /// script would refuse its digest, and the next request would overtake it.
    pub(super) const fn is_ahead(&self) -> bool {
        matches!(self, Self::Acquire(Acquire { how: AcquireMode::TryAhead, .. }) | Self::Force { ahead: true, .. })
    }
}

/// What an acquire may do apart from taking a free lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AcquireMode {
    /// Nothing else.
    Try,
    /// Nothing else, but enter ahead of the waiters.
    TryAhead,
    /// Join the queue, for so many callers, unless so many wait with other tokens.
    Wait { callers: u32, most: Option<u32> },
    /// Only extend and refill a lock that is already held.
    Refill,
}

#[derive(Clone, Copy, Hash)]
pub(crate) struct Acquire {
    pub(crate) token: Token,
    pub(crate) kind: Kind,
    pub(crate) mode: Mode,
    /// For a rate: how long its permits count, in place of the TTL.
    pub(crate) per: Option<Duration>,
    pub(crate) ttl: Duration,
    pub(crate) how: AcquireMode,
    pub(crate) block: u64,
}

#[derive(Clone, Copy, Hash)]
pub(crate) struct Release {
    pub(crate) token: Token,
    pub(crate) tombstone: bool,
    /// The greatest fence that was used.
    pub(crate) used_fence: u64,
    /// For the fast path: the mode, and the fence in the key of an exclusive lock.
    pub(crate) mode: Mode,
    pub(crate) stamp: u64,
}

#[derive(Clone, Copy, Hash)]
pub(crate) struct Renew {
    pub(crate) token: Token,
    pub(crate) mode: Mode,
    /// None: by one millisecond, whatever is left. So it always writes.
    pub(crate) ttl: Option<Duration>,
}

/// The token whose lease a convert moves: one of this client, or one that this client adopts.
#[derive(Clone, Copy, Hash)]
pub(crate) enum Old {
    Own(Token),
    Adopted(LeaseToken),
}

#[derive(Clone, Copy, Hash)]
pub(crate) struct Convert {
    pub(crate) old: Old,
    pub(crate) new: Token,
    pub(crate) kind: Kind,
    pub(crate) mode: Mode,
    pub(crate) ttl: Duration,
    pub(crate) block: u64,
    pub(crate) tombstone: bool,
    /// The greatest fence that was used.
    pub(crate) used_fence: u64,
}
