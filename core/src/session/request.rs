//! What the client asks a server. It stays a request until it leaves: `commands.rs` makes a command of it.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::flow::Queued;
use crate::ids::{LeaseToken, Token};
use crate::options::{Kind, Mode};
use crate::wire::Name;

/// What is asked about a name.
#[derive(Clone, Hash)]
pub(crate) struct Request {
    pub(crate) name: Arc<Name>,
    pub(crate) ask: Ask,
}

impl Request {
    // Not inlined, because a request is made in many places.
    #[inline(never)]
    pub(crate) fn new(name: &Arc<Name>, ask: Ask) -> Self {
        Self { name: name.clone(), ask }
    }
}

/// Whether a command has its script's digest, or the source after the server answered NOSCRIPT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    Digest,
    Source,
}

#[derive(Clone, Hash)]
pub(crate) enum Ask {
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
    /// Requests that leave together, on their common path.
    Batch(Vec<Queued>),
    Inspect,
    Force {
        foreign: bool,
    },
    /// All names at once, each with its own token.
    Multi {
        parts: Vec<(Arc<Name>, Token)>,
        ttl: Duration,
    },
}

/// What an acquire may do apart from taking a free lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AcquireMode {
    /// Nothing else.
    Try,
    /// Join the queue.
    Wait,
    /// Only extend and refill a lock that is already held.
    Refill,
}

#[derive(Clone, Copy, Hash)]
pub(crate) struct Acquire {
    pub(crate) token: Token,
    pub(crate) kind: Kind,
    pub(crate) mode: Mode,
    pub(crate) ttl: Duration,
    pub(crate) how: AcquireMode,
    pub(crate) block: u64,
}

#[derive(Clone, Copy, Hash)]
pub(crate) struct Release {
    pub(crate) token: Token,
    pub(crate) bury: bool,
    /// The greatest fence that was used.
    pub(crate) used: u64,
    /// For the common path: the mode, and the fence in the key of an exclusive lock.
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
    pub(crate) mode: Mode,
    pub(crate) ttl: Duration,
    pub(crate) block: u64,
    pub(crate) bury: bool,
    /// The greatest fence that was used.
    pub(crate) used: u64,
}
