//! Everything that can happen, and everything there is to do.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::command::Command;
use crate::error::{Error, LossReason};
use crate::options::{AcquireOptions, Mode};
use crate::reply::{Failure, Reply};
use crate::time::Instant;

/// One call by a user, named by the driver: use each number once. The highest bit is the engine's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u64);

/// One command in flight, named by the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// One lease of one local holder, named by the engine; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);

/// Which of the driver's servers. With a single server, cluster or Sentinel it is always 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeId(pub u16);

/// Everything that can happen to an engine.
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// A user wants a lease of `name`. Ends with [`Outcome::Acquired`].
    Acquire {
        /// The call.
        op: OpId,
        /// The lock's name, without the prefix.
        name: &'a str,
        /// How it is wanted.
        options: AcquireOptions,
    },
    /// A user wants one lease of several names: all of them or none, exclusively. Ends with [`Outcome::AcquiredAll`]. Names of
    /// one cluster slot are taken by one script if all are free; else they are taken one by one in their sorted order, each
    /// through its queue, so that nobody waits in a circle.
    AcquireAll {
        /// The call.
        op: OpId,
        /// The locks' names, without the prefix: 1 to 256, no two alike, in any order.
        names: &'a [&'a str],
        /// How they are wanted. Shared is [`Error::Unsupported`].
        options: AcquireOptions,
        /// Refuse names that no single script can take, with [`Error::CrossSlot`]: a try is then decided at one moment.
        one_script: bool,
    },
    /// A user gives up an acquire that is still under way; it ends with [`Error::Cancelled`]. Ignored after its end.
    Cancel {
        /// The acquire to give up.
        op: OpId,
    },
    /// A user gives one hold back. Ends with [`Outcome::Released`].
    Release {
        /// The call.
        op: OpId,
        /// What to give back.
        lease: LeaseId,
    },
    /// A user wants at least `ttl` from now. Ends with [`Outcome::Extended`].
    Extend {
        /// The call.
        op: OpId,
        /// What to extend.
        lease: LeaseId,
        /// At least this long from now.
        ttl: Duration,
    },
    /// A user wants the lease in the other mode. Ends with [`Outcome::Converted`].
    Convert {
        /// The call.
        op: OpId,
        /// What to convert.
        lease: LeaseId,
        /// `Shared` downgrades, `Exclusive` upgrades; the present mode changes nothing.
        mode: Mode,
    },
    /// A user takes one more hold on its own lease. Ends with [`Outcome::Held`], at once.
    Hold {
        /// The call.
        op: OpId,
        /// What to hold once more.
        lease: LeaseId,
    },
    /// A renewed lease is kept until then and not longer, whatever was said before; renewals go on as long as that takes. It
    /// is for drivers that renew only while somebody stands by. Nothing is answered; ignored for a fixed lease.
    Keep {
        /// What to keep.
        lease: LeaseId,
        /// When it ends at the latest, with [`LossReason::MaxHold`].
        until: Instant,
    },
    /// A user asks the server whether the lease is still its own. Ends with [`Outcome::Verified`].
    Verify {
        /// The call.
        op: OpId,
        /// What to ask for.
        lease: LeaseId,
    },
    /// A user asks who holds a lock and who waits for it. Ends with [`Outcome::Inspected`].
    Inspect {
        /// The call.
        op: OpId,
        /// The lock's name, without the prefix.
        name: &'a str,
    },
    /// An operator takes a lock from whoever holds it: they are told [`LossReason::Revoked`], and the next in line is granted.
    /// Ends with [`Outcome::Revoked`].
    ForceRelease {
        /// The call.
        op: OpId,
        /// The lock's name, without the prefix.
        name: &'a str,
    },
    /// A user ends the client: waits end with [`Error::Closed`], leases are released. Ends with [`Outcome::Closed`].
    Close {
        /// The call.
        op: OpId,
    },
    /// A command's end: the server's answer, or why there is none. Late and doubled ones are ignored.
    Reply {
        /// The command.
        call: CallId,
        /// The server's answer, or why there is none.
        result: Result<Reply, Failure>,
    },
    /// A message on a channel that the engine asked for.
    Message {
        /// Which server it came from.
        node: NodeId,
        /// The channel.
        channel: &'a str,
        /// The payload, as published.
        payload: &'a [u8],
    },
    /// The server acknowledged the subscription.
    Subscribed {
        /// Which server.
        node: NodeId,
        /// The channel.
        channel: &'a str,
    },
    /// A subscription ended or can't be made; one input for each channel. The engine asks again, but not after [`Failure::Unsupported`] or
    /// [`Failure::Refused`]: then it polls.
    Unsubscribed {
        /// Which server.
        node: NodeId,
        /// The channel.
        channel: &'a str,
        /// Why.
        cause: Failure,
    },
    /// Time has passed. Early, late and doubled wake-ups are legal.
    Wake,
}

/// Everything an engine wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a command; its end comes back as [`Input::Reply`].
    Send {
        /// The command's number.
        call: CallId,
        /// Which server.
        node: NodeId,
        /// The command.
        command: Command,
    },
    /// Subscribe to a channel, beside those that were asked for before; the acknowledgement comes back as [`Input::Subscribed`].
    Subscribe {
        /// Which server.
        node: NodeId,
        /// The channel.
        channel: String,
    },
    /// End the subscription to a channel.
    Unsubscribe {
        /// Which server.
        node: NodeId,
        /// The channel.
        channel: String,
    },
    /// A user's call ended.
    Completed {
        /// The call.
        op: OpId,
        /// How it ended.
        result: Result<Outcome, Error>,
    },
    /// A lease ended before its holder gave it back. Nothing more happens for it.
    Lost {
        /// The lease.
        lease: LeaseId,
        /// Why.
        reason: LossReason,
    },
}

/// How a user's call ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The lease is the caller's. The owner of a reentrant lock that it holds gets its lease once more: one hold more, to be
    /// released like the first.
    Acquired(Grant),
    /// The lease of several names is the caller's.
    AcquiredAll {
        /// One lease for all of them: lost, released, extended, verified as one.
        lease: LeaseId,
        /// A fencing token for each name, in the caller's order.
        fences: Vec<u64>,
        /// When the first of them ends by the driver's clock, unless it is renewed.
        valid_until: Instant,
    },
    /// What became of the hold.
    Released(ReleaseOutcome),
    /// The lease is now valid until then.
    Extended {
        /// By the driver's clock.
        valid_until: Instant,
    },
    /// The lease is now in the wanted mode, with a new fence.
    Converted(Grant),
    /// The number of holds on the lease.
    Held(u32),
    /// Whether the server still has the lease as the caller's. If not, it is reported lost as well.
    Verified(bool),
    /// Who holds and who waits.
    Inspected(Inspection),
    /// From how many holders a lock was taken.
    Revoked(u32),
    /// The client is closed.
    Closed {
        /// How many leases the server has not confirmed as given back. They end by their TTL.
        unreleased: u32,
    },
}

/// What a holder is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The lease.
    pub lease: LeaseId,
    /// How it is held.
    pub mode: Mode,
    /// The fencing token: greater than that of every lease that excluded this one before.
    pub fence: u64,
    /// When the lease ends by the driver's clock, unless it is renewed.
    pub valid_until: Instant,
    /// Whether it was handed over inside this client, without the server.
    pub local: bool,
}

/// What became of a hold that was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReleaseOutcome {
    /// It was valid to the end and is free now.
    Released,
    /// The lease has further holds.
    StillHeld,
    /// It had ended before.
    AlreadyExpired,
    /// Somebody else holds the lock.
    NotOwner,
}

/// Who holds a lock and who waits for it, as one server saw it at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Inspection {
    /// The holders: none, one exclusive, or any number of readers; readers of one client may be told as one. Holders of a semaphore's permits
    /// count as readers.
    pub holders: Vec<Holder>,
    /// The waiters in their order.
    pub waiters: Vec<Waiter>,
    /// The last fence given out or reserved, if the server remembers it.
    pub last_fence: Option<u64>,
}

/// One holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its token as it stands on the server; a foreign client's is its own text.
    pub token: String,
    /// How it holds.
    pub mode: Mode,
    /// What its lease has left on the server; none for a foreign key that never ends.
    pub remaining: Option<Duration>,
    /// Whether another library's client holds it.
    pub foreign: bool,
}

/// One waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Its token.
    pub token: String,
    /// How it wants to hold.
    pub mode: Mode,
}

/// Why the engine wants to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A lease ends unless it was renewed.
    Deadline,
    /// A lease is due for renewal.
    Renewal,
    /// A waiter has to show that it lives, or asks whether the lock is free.
    Heartbeat,
    /// A caller's wait ends.
    WaitEnds,
    /// A command's answer is overdue.
    ResponseTimeout,
    /// A command is due to be sent again.
    Resend,
    /// The local hand-overs of a tenure are over.
    BudgetEnds,
    /// A subscription is due to be made again.
    Subscription,
}
