//! The engine's inputs, outputs and results.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use crate::error::{Error, Failure, LossReason};
use crate::ids::{CommandId, Fence, LeaseId, LeaseToken, NodeId, OpId};
use crate::options::{AcquireOptions, Kind, Mode};
use crate::time::Instant;
use crate::time::api::Duration;
use crate::wire::{Command, Reply};

inputs! {
/// An event for the engine.
#[derive(Clone, Debug)]
Input,
/// What a user can ask of the engine: an [`Input`] without its number. An inspect asks clients for the labels of their leases if
/// `asks`.
Operation,
/// The calls that have no options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
CallKind
acquires<'a> {
    /// Acquire a lease of `name`. Ends with [`Outcome::Acquired`].
    Acquire {
        /// The lock's name, without the prefix.
        name: &'a str,
        /// The options.
        options: &'a AcquireOptions,
    },
    /// Acquire one lease of several names: all of them or none. Ends with [`Outcome::AcquiredAll`].
    ///
    /// On one server or in one slot, one script takes all parts or none. If one is full, the engine waits for it and holds nothing
    /// meanwhile. After four turns in which another part was full, it takes the parts one by one in the order of their names, each
    /// through its queue, which prevents deadlocks. It always does that in several slots and in a quorum. It then keeps the parts that
    /// it has while it waits for the next one.
    AcquireAll {
        /// The parts: 1 to 256 different names, in any order.
        parts: &'a [Part<'a>],
        /// The options of all parts. Their `kind` and `mode` are not used.
        options: &'a AcquireOptions,
        /// Refuse names that no single script can take, with [`Error::CrossSlot`]. A try then succeeds or fails at one moment.
        one_script: bool,
    },
    /// Campaign in an election: wait for as long as it takes, and then lead. Ends with [`Outcome::Acquired`]. The lease is the
    /// term, and its fence is the term's number. The term ends as any lease does, and [`Input::Release`] resigns.
    ///
    /// An election is a kind of lock of its own, with one holder. A client has one campaign or term of an election. Another
    /// one fails with [`Error::Conflict`]. Not with a quorum.
    Campaign {
        /// The election's name, without the prefix.
        name: &'a str,
        /// What observers learn about this client when it leads, such as its address: at most 1,024 bytes without control
        /// characters.
        value: &'a str,
        /// The options. Only `ttl`, `renew` and `max_hold` count.
        options: &'a AcquireOptions,
    },
    /// Take over a lease, usually that of another process. Ends with [`Outcome::Acquired`] and a new fence. The former holder
    /// loses its lease, with [`LossReason::Revoked`] if the server's message reaches it.
    ///
    /// Fails with [`Error::NotHeld`] if the lease has ended or was adopted already, and with [`Error::Conflict`] if it has
    /// another mode or number of permits. Not for reentrant locks, and not with a quorum.
    Adopt {
        /// The lock's name, without the prefix.
        name: &'a str,
        /// The lease, from [`Outcome::Exported`].
        token: LeaseToken,
        /// The options. The call doesn't wait and the lease doesn't linger, whatever they say.
        options: &'a AcquireOptions,
    },
}
calls {
    /// Give one hold back. Ends with [`Outcome::Released`].
    Release {
        /// The lease to give back.
        lease: LeaseId,
    } => "release";
    /// Give a lease of a [once](crate::Kind::Once) back, with all of its holds, and store its result on the server. Ends with
    /// [`Outcome::Released`]. The result is stored only if that says [`ReleaseOutcome::Released`]: a lost lease stores
    /// nothing.
    ///
    /// A result of more than 64 KiB fails with [`Error::InvalidOption`], and a lease of another kind with
    /// [`Error::Unsupported`]. Then the lease is given back, and nothing is stored.
    Store {
        /// The lease to give back.
        lease: LeaseId,
        /// The result.
        value: &'a [u8],
    } => "store";
    /// Delete the stored result of a [once](crate::Kind::Once). It doesn't stop the work under way, which then stores its
    /// own. Ends with [`Outcome::Forgotten`].
    Forget {
        /// The lock's name, without the prefix.
        name: &'a str,
    } => "forget";
    /// Make a lease valid for at least `ttl` from now. Ends with [`Outcome::Extended`].
    Extend {
        /// The lease to extend.
        lease: LeaseId,
        /// The time from now.
        ttl: Duration,
    } => "extend";
    /// Make a lease end after `ttl` from now, here and on the server, and stop renewing it. Ends with [`Outcome::Extended`].
    ///
    /// It can be extended later. The lease gets a new token, so that no delayed command changes its end.
    Shorten {
        /// The lease to shorten.
        lease: LeaseId,
        /// The time from now.
        ttl: Duration,
    } => "shorten";
    /// Detach a lease: this client's part in it ends at once, and the server keeps the lock until its time is over. Nothing
    /// renews it. Ends with [`Outcome::Exported`]: another process, or this client, can [adopt](Input::Adopt) it.
    ///
    /// It gets a new token, so that no delayed command changes its end. The engine goes on asking for that as long as the
    /// lease is valid, even if the call has failed with [`Error::Unreachable`]. Other errors of the call leave the lease as
    /// it was, except [`Error::Lost`] and those of the server.
    Detach {
        /// The lease to detach.
        lease: LeaseId,
        /// How long the server keeps the lock from now, but not longer than `max_hold`. None: for another TTL, or until the
        /// end of a fixed lease.
        time: Option<Duration>,
    } => "detach";
    /// Convert a lease to the other mode. Ends with [`Outcome::Converted`].
    Convert {
        /// The lease to convert.
        lease: LeaseId,
        /// `Shared` downgrades and `Exclusive` upgrades. The current mode changes nothing.
        mode: Mode,
    } => "convert";
    /// Take one more hold on a lease. Ends at once with [`Outcome::Held`].
    Hold {
        /// The lease to hold once more.
        lease: LeaseId,
    } => "hold";
    /// Ask for a lease's token, for [`Input::Adopt`]. Ends at once with [`Outcome::Exported`]. From then on,
    /// the lease is not handed over to other callers of this client, and it doesn't linger.
    Export {
        /// The lease.
        lease: LeaseId,
    } => "export";
    /// Ask the server whether the caller still holds the lease. Ends with [`Outcome::Verified`].
    Verify {
        /// The lease to verify.
        lease: LeaseId,
    } => "verify";
    /// Observe an election until the call is [cancelled](Input::Cancel). Each change is an [`Output::Leader`], and so is the
    /// first answer. A server that refuses the question ends the call with its error. Not with a quorum.
    Observe {
        /// The election's name, without the prefix.
        name: &'a str,
    } => "observe";
    /// Ask who holds a lock and who waits for it. Ends with [`Outcome::Inspected`].
    Inspect {
        /// The lock's name, without the prefix.
        name: &'a str,
        ; asks: bool
    } => "inspect";
    /// Take a lock from its holders, for operators. The holders are notified with [`LossReason::Revoked`], and the next
    /// waiter is granted. Ends with [`Outcome::Revoked`].
    ///
    /// A key without a TTL is no lease, but another library's key or other data. Without `foreign`, the call then
    /// changes nothing and fails with [`Error::WrongKind`].
    ForceRelease {
        /// The lock's name, without the prefix.
        name: &'a str,
        /// Whether to delete the key even if it has no TTL.
        foreign: bool,
    } => "force-release";
    /// Grant no further lease, and let the held ones end before a close. Waiting and new acquires fail with
    /// [`Error::Closed`], and leases that linger are released. Held leases are renewed as before, and calls on them work.
    /// The owner of a reentrant lock can take more holds on its lease.
    ///
    /// Ends with [`Outcome::Drained`] when no lease is held any more, when `grace` is over, or at an
    /// [`Input::Close`], which is what should follow.
    Drain {
        /// How long the holders have: 0 ms to 30 days.
        grace: Duration,
    } => "drain";
    /// Close the client: waits end with [`Error::Closed`], and leases are released. Ends with [`Outcome::Closed`].
    Close => "close";
}
events {
    /// Cancel an acquire, which then fails with [`Error::Cancelled`]. Ignored if the acquire has ended.
    Cancel {
        /// The acquire to cancel.
        op: OpId,
    },
    /// Set the end of a renewed lease, replacing any earlier one. The engine renews the lease until then and no longer.
    ///
    /// This is for drivers that renew a lease only while a caller is present. It has no result, and it is
    /// ignored for a fixed lease.
    Keep {
        /// The lease to keep.
        lease: LeaseId,
        /// When the lease ends at the latest, with [`LossReason::MaxHold`].
        until: Instant,
    },
    /// Stop renewing a lease. It ends one TTL after its last renewal, with [`LossReason::Expired`], and can be extended. A
    /// lease that came after a wait is renewed once more. This input has no result, and is ignored for a fixed lease.
    StopRenewing {
        /// The lease.
        lease: LeaseId,
    },
    /// The result of a command: the server's answer, or why there is none. Late and duplicate replies are ignored.
    Reply {
        /// The command.
        id: CommandId,
        /// The server's answer, or why there is none.
        result: Result<Reply, Failure>,
    },
    /// The result of a command on a dedicated connection: see [`Output::SendDedicated`].
    DedicatedReply {
        /// The call that the connection is for.
        op: OpId,
        /// The server's answer, or why there is none.
        result: Result<Reply, Failure>,
    },
    /// A message on a channel that the engine subscribed to.
    Message {
        /// The server that it came from.
        node: NodeId,
        /// The channel.
        channel: &'a str,
        /// The payload, as published.
        payload: &'a [u8],
    },
    /// The server acknowledged a subscription.
    Subscribed {
        /// The server.
        node: NodeId,
        /// The channel.
        channel: &'a str,
    },
    /// A subscription ended or failed. Send one input for each channel. The engine subscribes again later, except after
    /// [`Failure::Unsupported`] and [`Failure::Refused`]: then waiters poll.
    Unsubscribed {
        /// The server.
        node: NodeId,
        /// The channel.
        channel: &'a str,
        /// The reason.
        cause: Failure,
    },
    /// Time has passed. Early, late and duplicate wake-ups are allowed.
    Wake,
}
}

/// Where the fields of a call come from. None if there is no such field, or if it can't be read.
#[doc(hidden)]
#[allow(missing_docs)] // `Input` documents all of them.
pub trait CallFields<'a> {
    fn op(&self) -> Option<OpId>;
    fn lease(&self) -> Option<LeaseId>;
    fn ttl(&self) -> Option<Duration>;
    fn time(&self) -> Option<Option<Duration>>;
    fn mode(&self) -> Option<Mode>;
    fn name(&self) -> Option<&'a str>;
    fn foreign(&self) -> Option<bool>;
    fn grace(&self) -> Option<Duration>;
    fn value(&self) -> Option<&'a [u8]>;
}

/// An action for the driver.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Send a command. Its result comes back as [`Input::Reply`].
    Send {
        /// The command's number.
        id: CommandId,
        /// The server.
        node: NodeId,
        /// The command.
        command: Command,
    },
    /// Send a command on a connection that carries no other call's commands. Its result comes back as
    /// [`Input::DedicatedReply`]. The engine sends one command at a time.
    ///
    /// The first command of a call opens a new connection, to the server that has the command's
    /// [key](Command::key): an old connection could still lead to a server that was the primary before. If that server
    /// answers `MOVED`, the driver opens another one and sends the command there. The next commands of the call use the
    /// same connection.
    SendDedicated {
        /// The call that the connection is for.
        op: OpId,
        /// The command.
        command: Command,
    },
    /// Close a call's dedicated connection, if there is one.
    CloseDedicated {
        /// The call.
        op: OpId,
    },
    /// Subscribe to another channel. The acknowledgement comes back as [`Input::Subscribed`].
    Subscribe {
        /// The server.
        node: NodeId,
        /// The channel.
        channel: String,
    },
    /// Unsubscribe from a channel.
    Unsubscribe {
        /// The server.
        node: NodeId,
        /// The channel.
        channel: String,
    },
    /// A user's call has ended.
    Completed {
        /// The call.
        op: OpId,
        /// Its result.
        result: Result<Outcome, Error>,
    },
    /// Another client leads, or nobody.
    Leader {
        /// The call that observes the election.
        op: OpId,
        /// The leader. None while nobody leads.
        leader: Option<Leader>,
    },
    /// A lease ended before its holder gave it back. This is the last event about it.
    /// [`Engine::lease`](crate::Engine::lease) still describes it until its last hold is released.
    Lost {
        /// The lease.
        lease: LeaseId,
        /// The reason.
        reason: LossReason,
    },
}

outcomes! {
/// The result of a successful call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
Outcome,
/// The kinds of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
OutcomeKind {
    /// The caller holds the lease. If the owner of a reentrant lock already holds it, this is one more hold on the same
    /// lease, and each hold is released separately.
    Acquired(grant: Grant) => "acquired";
    /// The caller holds a lease of several names.
    AcquiredAll {
        /// One lease for all names. It is lost, released, extended and verified as a whole.
        lease: LeaseId,
        /// A fencing token for each name, in the caller's order.
        fences: Vec<u64>,
        /// When the first of the names expires by the driver's clock, unless it is renewed.
        valid_until: Instant,
    } => "acquired-all";
    /// The lock is a [once](crate::Kind::Once), and this is its result. The caller gets no lease.
    Stored {
        /// The fence of the lease whose holder stored it.
        fence: u64,
        /// The result.
        value: Vec<u8>,
    } => "stored";
    /// Whether there was a result.
    Forgotten(found: bool) => "forgotten";
    /// What happened to the hold.
    Released(outcome: ReleaseOutcome) => "released";
    /// The lease is valid until this time.
    Extended {
        /// The time, by the driver's clock.
        valid_until: Instant,
    } => "extended";
    /// The lease is in the requested mode, with a new fence.
    Converted(grant: Grant) => "converted";
    /// The lease's token.
    Exported(token: LeaseToken) => "exported";
    /// The number of holds on the lease.
    Held(holds: u32) => "held";
    /// Whether the server still has the lease. If not, it is reported as lost too.
    Verified(held: bool) => "verified";
    /// The holders and the waiters.
    Inspected(inspection: Box<Inspection>) => "inspected";
    /// How many holders lost the lock.
    Revoked(holders: u32) => "revoked";
    /// No lease is held any more, or the time for that is over.
    Drained => "drained";
    /// The client is closed.
    Closed {
        /// How many leases were still held when the client was closed. Their holders lost them.
        lost: u32,
        /// How many leases the server has not confirmed as released. They end with their TTL.
        unreleased: u32,
    } => "closed";
}
}

/// A field of an outcome.
#[doc(hidden)]
#[allow(missing_docs)] // Their types explain them.
pub enum Field<'a> {
    Number(u64),
    Moment(Instant),
    Flag(bool),
    Text(String),
    Numbers(&'a [u64]),
    Grant(&'a Grant),
    Released(ReleaseOutcome),
    Inspection(&'a Inspection),
}

/// A type that a field of an outcome can have.
trait IsField {
    /// The name of its variant, in lower case.
    const TYPE: &'static str;

    fn field(&self) -> Field<'_>;
}

macro_rules! is_field {
    ($($type:ty as $name:literal: |$value:ident| $field:expr;)+) => {
        $(impl IsField for $type {
            const TYPE: &'static str = $name;

            fn field(&self) -> Field<'_> {
                let $value = self;
                $field
            }
        })+
    };
}

is_field! {
    LeaseId as "number": |lease| Field::Number(lease.0);
    u64 as "number": |number| Field::Number(*number);
    u32 as "number": |number| Field::Number((*number).into());
    Instant as "moment": |at| Field::Moment(*at);
    bool as "flag": |flag| Field::Flag(*flag);
    LeaseToken as "text": |token| Field::Text(token.text());
    Vec<u8> as "text": |bytes| Field::Text(crate::text::replaced(bytes));
    Vec<u64> as "numbers": |numbers| Field::Numbers(numbers);
    Grant as "grant": |grant| Field::Grant(grant);
    ReleaseOutcome as "released": |outcome| Field::Released(*outcome);
    Box<Inspection> as "inspection": |inspection| Field::Inspection(inspection);
}

impl Outcome {
    /// The lease that an acquire got. The fence of a lease of several names is the greatest of their fences.
    pub fn grant(&self) -> Option<Grant> {
        match *self {
            Self::Acquired(grant) => Some(grant),
            Self::AcquiredAll { lease, ref fences, valid_until } => {
                let fence = fences.iter().copied().max().unwrap_or_default();
                Some(Grant { lease, mode: Mode::Exclusive, fence, valid_until, local: false })
            }
            _ => None,
        }
    }
}

/// One of the locks that [`Input::AcquireAll`] takes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part<'a> {
    /// The lock's name, without the prefix.
    pub name: &'a str,
    /// The kind of lock: [`Kind::Lock`] or [`Kind::Semaphore`]. Others fail with [`Error::Unsupported`].
    pub kind: Kind,
    /// Exclusive or shared.
    pub mode: Mode,
}

impl<'a> Part<'a> {
    /// The exclusive locks of these names.
    pub fn mutexes(names: &[&'a str]) -> Vec<Self> {
        names.iter().map(|name| Self { name, kind: Kind::Lock, mode: Mode::Exclusive }).collect()
    }
}

/// A granted lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The lease.
    pub lease: LeaseId,
    /// The mode.
    pub mode: Mode,
    /// The fencing token. It is greater than the fence of every lease that excluded this one before.
    pub fence: u64,
    /// When the lease expires by the driver's clock, unless it is renewed.
    pub valid_until: Instant,
    /// Whether the lease was handed over inside this client, without the server.
    pub local: bool,
}

/// The leader of an election.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Leader {
    /// What it tells about itself.
    pub value: String,
    /// Its term. A later term has a greater one.
    pub fence: u64,
    /// How long it has led.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::duration"))]
    pub led: Duration,
}

/// The present state of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LeaseInfo {
    /// The mode.
    pub mode: Mode,
    /// The fencing token. The greatest one for a lease of several names.
    pub fence: u64,
    /// How many holds are not released yet.
    pub holds: u32,
    /// How the lease was lost. None while it is held.
    pub lost: Option<LossReason>,
}

table! {
/// The result of giving a hold back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
ReleaseOutcome {
    /// The lease was valid to the end, and the lock is free now.
    Released => "released";
    /// The lease has other holds.
    StillHeld => "still-held";
    /// The lease had already ended.
    AlreadyExpired => "already-expired";
    /// Another client holds the lock.
    NotOwner => "not-owner";
    /// The lease was valid to the end, and the lock stays taken for the rest of `at_least`, or the lease was detached.
    Detached => "detached";
}
}

/// The holders and waiters of a lock, as one server saw them at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Inspection {
    /// The holders: none, one exclusive holder, or any number of readers. Several readers of one client can appear as
    /// one. The holders of a semaphore's permits count as readers.
    pub holders: Vec<Holder>,
    /// The waiters, in order: at most the first 1,000.
    pub waiters: Vec<Waiter>,
    /// How many clients wait in all. A waiter that has died counts until its turn comes.
    pub waiting: u64,
    /// The fence of the server's last grant, while the lock is held. A holder can have a greater one, which its client
    /// took from its block. None for a free lock and for a reentrant one.
    pub last_fence: Option<Fence>,
    /// How many permits the semaphore has. None for a free one, and for other kinds.
    pub limit: Option<u32>,
    /// The window of a rate. The permits of each holder count until its `remaining` is over.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::optional_duration"))]
    pub per: Option<Duration>,
}

/// A holder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Holder {
    /// The token on the server. A client of another library has its own text here.
    pub token: String,
    /// The mode.
    pub mode: Mode,
    /// How long the lease lasts on the server. None for a foreign key without a TTL.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::optional_duration"))]
    pub remaining: Option<Duration>,
    /// Whether a client of another library holds it.
    pub foreign: bool,
    /// How long it has held the lock: what its client says, or since that client last asked the server for the lock or for
    /// more fences. Without the client's answer, it is known for the holder of a mutex and for a writer.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::optional_duration"))]
    pub held: Option<Duration>,
    /// The client's label, if the client has written one to the server. The engine leaves it to [`Labels`](crate::Labels).
    pub label: Option<String>,
    /// The label of the client's leases of this lock, if the client has answered in time. The engine leaves it to
    /// [`Labels`](crate::Labels).
    pub lease_label: Option<String>,
}

/// A waiter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Waiter {
    /// The token.
    pub token: String,
    /// The mode that it wants.
    pub mode: Mode,
    /// How long it has waited.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::optional_duration"))]
    pub waited: Option<Duration>,
    /// How many callers of this client wait, as its last heartbeat said. A client that waits for a semaphore can be in the queue
    /// several times, with some of its callers each time.
    pub callers: u64,
    /// The client's label, if the client has written one to the server. The engine leaves it to [`Labels`](crate::Labels).
    pub label: Option<String>,
    /// The label of the client's first waiting caller, if the client has answered in time. The engine leaves it
    /// to [`Labels`](crate::Labels).
    pub lease_label: Option<String>,
}

/// Why the engine asks for a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A lease expires unless it is renewed.
    Deadline,
    /// A lease is due for renewal.
    Renewal,
    /// A waiter must prove that it is alive, or asks whether the lock is free. Or observers ask who leads.
    Heartbeat,
    /// A caller's wait ends.
    WaitEnds,
    /// A command's answer is overdue.
    ResponseTimeout,
    /// A command is due to be sent again.
    Resend,
    /// The time for a hold's local hand-overs is over.
    BudgetEnds,
    /// A lease that nobody holds was kept long enough.
    LingerEnds,
    /// A subscription is due to be retried.
    Subscription,
    /// A batch waits until the driver has no other input.
    Batch,
}
