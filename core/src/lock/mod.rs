//! The state machine of one name: its local callers, the token that it holds (the hold) and the token with which it
//! waits (the claim).
//!
//! ```text
//!           ask            granted            last holder gone, or lost
//! (nothing) ---> claim ----------------> hold ------------------------> (nothing)
//!                  ^                      |  local hand-overs, renewals
//!                  '----------------------'
//!                   a caller that the hold can't serve
//! ```
//!
//! [`LockState::settle`] in `hand_over` runs after every event. It serves the local callers in order, as far as the hold
//! allows. It gives back what no caller needs any more, and asks the server for what is missing.
//!
//! | file | what it decides |
//! |---|---|
//! | `hand_over` | who of the local callers is granted now, and what is given back or asked for |
//! | `local_queue` | the order of the local callers |
//! | `claim_state` | the token with which the client waits |
//! | `claim` | how the server is asked: the first try, heartbeats, polls and resends |
//! | `grant` | what an answer or a message grants, and what a loss ends |
//! | `change` | what changes about a hold: an upgrade, a convert, or a renewal that its holders don't need |
//! | `hold` | who may hold the lock next without a round trip, and until when |
//! | `max_waiters` | which local callers are refused because enough others wait |
//! | `linger` | how long a lease is kept that nobody holds |
//! | `fences` | the fences that the server reserved |
//! | `renew` | renewals, more fences, and the users' extend and verify |
//! | `observed` | who observes an election, and what they know |
//! | `election` | when the observers of an election ask, and what they hear |
//! | `convert` | upgrade and downgrade, and leases that are shortened or detached |
//! | `reentrant` | the owner and the channel of a reentrant lock |

mod change;
mod claim;
mod claim_state;
mod convert;
mod election;
mod fences;
mod grant;
mod hand_over;
mod hold;
mod linger;
mod local_queue;
mod max_waiters;
mod observed;
mod reentrant;
mod renew;
mod table;

use alloc::boxed::Box;
use alloc::sync::Arc;

use self::hold::Hold;
use crate::error::{Error, Failure};
use crate::ids::{Caller, LeaseToken, LockId};
use crate::options::{AcquireOptions, Mode};
use crate::session::{Body, Context, OpKind, Request, Subscription};
use crate::time::Duration;
use crate::wire::Name;

pub(crate) use claim_state::Claim;
pub(crate) use convert::not_shortened;
pub(crate) use hold::{Admission, GiveBack};
pub(crate) use local_queue::LocalQueue;
pub(crate) use observed::{Observed, observed_key};
pub(crate) use reentrant::keys_of;
pub(crate) use table::LockTable;

#[derive(Clone, Hash)]
pub(crate) struct LockState {
    pub(crate) id: LockId,
    pub(crate) name: Arc<Name>,
    pub(crate) queue: LocalQueue,
    pub(crate) hold: Option<Hold>,
    pub(crate) claim: Option<Claim>,
    /// The subscription to a reentrant lock's channel while a caller waits, or to an election's while it is observed.
    pub(crate) subscription: Subscription,
    /// The lease that the only caller takes over, usually one of another client.
    pub(crate) adopts: Option<LeaseToken>,
    /// The greatest fence that this client used with that lease, if it is its own and the server may not have it. Else 0.
    pub(crate) used_fence: u64,
    /// How many callers of a semaphore wait behind those of this lane.
    pub(crate) behind: u32,
    /// Those who observe an election.
    pub(crate) observed: Option<Box<Observed>>,
}

impl LockState {
    pub(crate) fn new(id: LockId, name: Arc<Name>) -> Self {
        let (queue, subscription) = (LocalQueue::default(), Subscription::new());
        Self {
            id,
            name,
            queue,
            hold: None,
            claim: None,
            subscription,
            adopts: None,
            used_fence: 0,
            behind: 0,
            observed: None,
        }
    }

    /// What to ask the server about this name.
    pub(crate) fn request(&self, body: Body) -> Request {
        Request::new(&self.name, body)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.hold.is_none() && self.claim.is_none() && self.queue.is_empty() && self.observed.is_none()
    }

    /// The error for a caller whose wait has ended: another caller has the lock, or no server answered.
    pub(crate) fn empty_handed(&self, cx: &Context, op: Caller) -> Error {
        let failure = self.claim.as_ref().and_then(|claim| claim.failure.clone());
        let known_busy = failure.is_none() && self.claim.as_ref().is_some_and(Claim::is_known_busy);
        if known_busy || self.hold.as_ref().is_some_and(|hold| hold.in_use(cx.now)) {
            return self.busy(cx, op);
        }
        let unanswered = self.claim.as_ref().is_some_and(|claim| claim.in_flight.any());
        let cause = failure
            .or_else(|| cx.flows.failure_since(cx.ops.get(&op)?.since))
            .or(unanswered.then_some(Failure::TimedOut));
        Error::unreachable(waited(cx, op), cause)
    }

    /// The error for a lock that another caller holds or will get first.
    pub(crate) fn busy(&self, cx: &Context, op: Caller) -> Error {
        let here = self.hold.as_ref().filter(|hold| hold.in_use(cx.now)).map(|hold| hold.validity.until);
        let ends = here.or_else(|| self.claim.as_ref()?.holder_ends);
        let holder_remaining = ends.map(|ends| ends.time_since(cx.now));
        let mut error = Error::busy(waited(cx, op), holder_remaining);
        if let Error::Busy { is_rate, .. } = &mut error {
            *is_rate = self.claim.as_ref().is_some_and(|claim| claim.per.is_some());
        }
        error
    }

    /// Whether this client holds the lock, and the server has not confirmed that since the call began. Only in a mixed
    /// fleet: elsewhere the client joins the server's queue beside its own holders, and the answer tells.
    pub(crate) fn is_unsure(&self, cx: &Context, op: Caller) -> bool {
        let hold = self.hold.as_ref().filter(|hold| hold.in_use(cx.now) && !hold.tainted);
        let began = cx.ops.get(&op).map(|open| open.since);
        cx.config.mixed_fleet && hold.is_some_and(|hold| Some(hold.validity.confirmed) < began)
    }

    /// Whether the lock is busy for a caller with these options, as far as is known without asking the server.
    pub(crate) fn is_busy_for(&self, cx: &Context, options: &AcquireOptions) -> bool {
        let known_busy = self.claim.as_ref().is_some_and(Claim::is_known_busy);
        let head = self.queue.head().map_or(options, |(_, head)| head);
        let shares = options.mode == Mode::Shared && head.mode == Mode::Shared;
        let behind = self.queue.len() > self.queue.tries() && !shares;
        let excludes = |hold: &Hold| hold.excludes(cx, options) || hold.excludes(cx, head);
        known_busy || behind || self.hold.as_ref().is_some_and(excludes)
    }
}

/// The error for leases that can't be adopted.
pub(crate) fn only_adoptable() -> Error {
    Error::unsupported("a lease of a reentrant lock, a once, an election or a rate can't be adopted")
}

pub(crate) fn waited(cx: &Context, op: Caller) -> Duration {
    cx.ops.get(&op).map(|op| cx.now.time_since(op.since)).unwrap_or_default()
}

pub(crate) fn is_try(cx: &Context, op: Caller) -> bool {
    matches!(cx.ops.get(&op).map(|op| &op.kind), Some(OpKind::Acquire { tries: true, .. }))
}
