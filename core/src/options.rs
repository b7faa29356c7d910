//! The options of a client and of an acquire, with their defaults and bounds.
//!
//! [`LOCK_SETTINGS`], [`MANAGER_SETTINGS`] and [`CLOSE_SETTINGS`] are the table of all options. The checks here, the types and checks of
//! TypeScript, and the manual come from it.

use alloc::string::String;

use crate::error::Error;
use crate::settings::{Bounds, Rule, Settable, Setter, Setting, check_number};
use crate::text::Digits;
use crate::time;
use crate::time::api::Duration;

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Mode {
    /// One holder, and no other at the same time.
    Exclusive,
    /// Any number of readers.
    Shared,
}

kinds! {
    /// A kind of lock. A name holds one kind at a time. Acquiring it as another kind fails with [`Error::WrongKind`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    Kind,
    /// The kinds, without what an acquire says about each.
    #[doc(hidden)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    Family,
    /// Reads what an acquire says about its kind.
    #[doc(hidden)]
    KindFields {
        /// One exclusive holder or any number of readers: see [`AcquireOptions::mode`].
        Lock => "lock", "readers";
        /// A lock that its owner can take again while it holds it, compatible with Redisson's `RLock`. Exclusive only.
        Reentrant(owner: Owner) => "reentrant", "readers";
        /// A semaphore. Each acquire takes a number of permits as one lease. Exclusive only.
        Semaphore {
            /// How many permits to take: 1 to `limit`.
            permits: u32,
            /// How many permits there are: 1 to 1,000,000. The limit of the latest acquire counts. A lower limit takes
            /// nothing from current holders.
            limit: u32,
        } => "semaphore", "permits";
        /// A lock whose holder stores a result: see [`Input::Store`](crate::Input::Store). Whoever acquires it then gets the
        /// result in place of a lease, as [`Outcome::Stored`](crate::Outcome::Stored), until the result's time is over or it is
        /// [forgotten](crate::Input::Forget). Exclusive only.
        Once {
            /// How long the server keeps the result: 1 s to 366 days.
            keep: Duration,
        } => "once", "result";
        /// An election, whose holder leads. Exclusive only. See [`Input::Campaign`](crate::Input::Campaign).
        Election => "election", "readers";
    }
}

#[expect(clippy::derivable_impls, reason = "a row of the table can't be marked")]
impl Default for Kind {
    fn default() -> Self {
        Self::Lock
    }
}

/// The owner of a reentrant lock. The driver chooses the number. An owner that holds the lock can take it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner(pub u64);

impl Family {
    /// Whether a lease can get another token, and so be converted, adopted and detached.
    pub(crate) const fn moves(self) -> bool {
        matches!(self, Self::Lock | Self::Semaphore)
    }

    /// The kind behind this one in the table.
    pub(crate) fn next(self) -> Option<Self> {
        Self::ALL.get((self as usize).saturating_add(1)).copied()
    }
}

/// How long an acquire may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wait {
    /// Don't wait: take the lock only if it is free. Otherwise the acquire fails with [`Error::Busy`], as soon as the server
    /// has answered. A client that waits for the lock comes first.
    No,
    /// Wait at most this long: 1 ms to 30 days.
    For(Duration),
    /// Wait until the lock is granted or the call is cancelled.
    Forever,
}

impl From<Duration> for Wait {
    fn from(wait: Duration) -> Self {
        Self::For(wait)
    }
}

/// `"no"`, `"forever"`, or a time.
#[cfg(feature = "serde")]
impl serde::Serialize for Wait {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::No => serializer.serialize_str("no"),
            Self::Forever => serializer.serialize_str("forever"),
            Self::For(time) => crate::serial::duration::serialize(time, serializer),
        }
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Wait {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "\"forever\", \"no\", or a time such as \"30s\"";
        crate::serial::read_text(deserializer, expected, |text| match text {
            "no" => Some(Self::No),
            "forever" => Some(Self::Forever),
            time => crate::serial::read(time).map(Self::For),
        })
    }
}

/// The options of one acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AcquireOptions {
    /// The kind of lock. Default: a mutex or read-write lock.
    pub kind: Kind,
    /// Exclusive or shared.
    pub mode: Mode,
    /// How long the server keeps the lease unless it is renewed: 10 ms to 30 days. Default: 30 s.
    pub ttl: Duration,
    /// Whether to renew the lease at a third of `ttl` while it is held. Default: true. `false` makes a fixed lease.
    pub renew: bool,
    /// A renewed lease is lost after this time: 10 ms to 30 days. Default: none.
    pub max_hold: Option<Duration>,
    /// How long to wait. Default: 60 s.
    pub wait: Wait,
    /// How long a try ([`Wait::No`]) may take to learn whether the lock is free, if that is shorter than the
    /// response timeout. Default: none.
    pub within: Option<Duration>,
    /// How many replicas must have the lease before the caller gets it. Default: none. Not for several names, and not
    /// for a quorum, whose servers are not replicas of each other.
    pub replicas: Option<Replicas>,
    /// How long to keep the lease after its holder has released it, while no other client asks for the lock:
    /// 1 ms to 60 s. Default: none. The next caller of this client then gets the lock without a round trip, with the next fence.
    /// Only for mutexes and read-write locks, on connections that carry messages, and not with
    /// [`Config::mixed_fleet`].
    pub linger: Option<Duration>,
    /// How long the lock stays taken from its grant on, even if its holder gives it back before: 10 ms to 30 days, and at most
    /// `max_hold`. Default: none. The rest of that time is left to the server, as by [`Input::Detach`](crate::Input::Detach).
    /// Not for reentrant locks, several names and quorums.
    pub at_least: Option<Duration>,
    /// Makes a semaphore a rate: in each window of this length by the server's clock, at most `limit` permits are granted: 10 ms to
    /// 30 days. Default: none. The permits count for this time from their grant on, whatever their holder does. So the call
    /// ends with a grant whose lease is over at once: nothing renews it, loses it or gives it back, and a close doesn't wait
    /// for it. `ttl`, `renew` and `max_hold` don't count. Only for semaphores.
    pub per: Option<Duration>,
    /// How many callers may wait before this one: 0 to 1,000,000. Default: any number. If that many wait, or more, and the
    /// call can't be granted at once, it fails with [`Error::Busy`]. Only for mutexes, read-write locks, semaphores and onces,
    /// and not in a quorum or with [`Config::mixed_fleet`].
    pub max_waiters: Option<u32>,
}

/// How many replicas must have a new lease, and how long to wait for them. The wait for replicas comes after the wait
/// for the lock. It takes at most this time and a response timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Replicas {
    /// How many: at least 1.
    pub min: u32,
    /// How long: 1 ms to 60 s.
    #[cfg_attr(feature = "serde", serde(with = "crate::serial::duration"))]
    pub timeout: Duration,
}

impl AcquireOptions {
    /// The options of a mutex, with all defaults.
    pub const DEFAULT: Self = Self {
        kind: Kind::Lock,
        mode: Mode::Exclusive,
        ttl: TTL.default_time(),
        renew: true,
        max_hold: None,
        wait: Wait::For(WAIT.default_time()),
        within: None,
        replicas: None,
        linger: None,
        at_least: None,
        per: None,
        max_waiters: None,
    };
}

impl Default for AcquireOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The options of a client. All clients of one fleet should use the same values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// A prefix for every name. Default: empty.
    pub prefix: String,
    /// How many times this client hands a lock over locally while another client waits, for 1 s at most: 0 to 1023. Default: 32
    /// times, or as often as fits into 5 ms, whichever is more.
    pub local_handoffs: Option<u32>,
    /// How long a grant is kept for a waiter: 100 ms to 60 s. Default: 3 s. Heartbeats go out at a third of it.
    pub claim_window: Duration,
    /// How long one command's answer may take: 10 ms to 60 s. Default: 2 s. After that, the command counts as maybe applied.
    pub response_timeout: Duration,
    /// How long one command's answer may take on one server of a quorum: 10 ms to 60 s. Default: 100 ms, which suits a LAN.
    pub node_timeout: Duration,
    /// Compete with clients of other libraries on equal terms: all clients poll, without grants by message and without
    /// local hand-overs. Default: false.
    pub mixed_fleet: bool,
    /// How many commands may be in flight to one server, or in a cluster for each range of 256 slots: 1 to 65,535.
    /// Default: 1,024.
    pub max_in_flight: u16,
    /// Whether requests try the short scripts of the fast path first, and share one script call, a batch, if the client has
    /// several at one moment. Then a request may wait for the next [`Input::Wake`](crate::Input::Wake), so the
    /// driver must wake the engine when [`poll_timeout`](crate::Engine::poll_timeout) says so and it has no other input.
    /// In a cluster each travels alone, because names have different slots. Default: true.
    pub batches: bool,
    /// Whether a try and a force release go ahead of the waiters: a force release grants nobody the lock, and the try that
    /// follows takes it in the first waiter's place. The waiters keep their places. Needs [`batches`](Self::batches) off,
    /// because the short scripts let nobody go ahead. Default: false.
    pub ahead: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            prefix: String::new(),
            local_handoffs: None,
            claim_window: CLAIM_WINDOW.default_time(),
            response_timeout: RESPONSE_TIMEOUT.default_time(),
            node_timeout: NODE_TIMEOUT.default_time(),
            mixed_fleet: false,
            max_in_flight: 1024,
            batches: true,
            ahead: false,
        }
    }
}

impl Mode {
    /// The mode's word on the wire.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
        }
    }

    pub(crate) fn read(word: &str) -> Option<Self> {
        match word {
            "exclusive" => Some(Self::Exclusive),
            "shared" => Some(Self::Shared),
            _ => None,
        }
    }
}

fn out_of_bounds(field: &'static str, choose: &str) -> Error {
    Error::InvalidOption { field, problem: ["is out of bounds: choose ", choose].concat() }
}

settings! {
    /// The options of a lock, in the order of the manual.
    LOCK_SETTINGS {
        TTL "ttl" (30 s) (10 ms to 30 days) [lock manager semaphore multi once]
            "How long the server keeps the lease unless it is renewed. A crashed holder blocks the others for this \
             long. A lease that a waiter gets by message lasts only for the claim window until the waiter has \
             answered.";
        RENEW "renew" (true) () [lock manager semaphore multi]
            "The client renews the lease at a third of the TTL. `false` makes a fixed lease.";
        MAX_HOLD "max_hold" (none) (10 ms to 30 days) [lock manager semaphore multi once]
            "A renewed lease is lost after this time, with the reason `max-hold`.";
        WAIT "wait" (60 s) (1 ms to 30 days, "", ", or try without waiting") [lock manager semaphore multi once]
            "How long an acquire waits. The default is longer than the default TTL, so a waiter outlasts a crashed \
             holder's lease.";
        REPLICAS "wait_for_replicas" (none) (1 ms to 60 s, "a timeout of ", "") [lock semaphore]
            "How many replicas must have the lease, and how long to wait for them. See \
             [failover](fencing.md#wait-for-replicas).";
        LINGER "linger" (none) (1 ms to 60 s) [lock manager]
            "Mutexes and read-write locks: how long the client keeps the lease after its release, while no other \
             client asks for the lock. See [below](#leases-that-linger).";
        AT_LEAST "at_least" (none) (10 ms to 30 days) [lock semaphore]
            "The lock stays taken for this long from its grant on, even if it is given back earlier or the work fails. See \
             [below](#hold-at-least).";
        MAX_WAITERS "max_waiters" (none) (0 to 1_000_000 as "0 to 1,000,000", "", " callers") [lock semaphore once]
            "How many callers may wait before this one. If that many wait already, and the lock is not free, the call fails with \
             `busy` at once. See [below](#max-waiters).";
        LEASE_LABEL "label" (none) () [lock semaphore multi once]
            "A name for the lease, for example the job that needs it. See [below](#the-label-of-a-lock).";
        LIMIT "limit" () (1 to 1_000_000 as "1 to 1,000,000", "", " permits") [semaphore]
            "";
        PER "per" (none) (10 ms to 30 days) [semaphore]
            "Semaphore only: a rate. In each window of this length, at most `limit` permits are granted. See [rates](kinds.md#rates).";
        KEEP "keep" (24 h) (1 s to 366 days) [once]
            "Once only: how long the server keeps the result. See [once](kinds.md#once).";
        PERMITS "permits" (1) () [semaphore]
            "Semaphore only.";
        ONE_SCRIPT "one_script" (false) () [multi]
            "Several names only: refuse names that one script can't take.";
    }

    /// The options of a manager, in the order of the manual.
    MANAGER_SETTINGS {
        PREFIX "prefix" (empty) () [manager]
            "Put before every name. JavaScript refuses a prefix that begins with `leasehold:` or has a brace without \
             a whole hash tag; Rust refuses the names.";
        LOCAL_HANDOFFS "local_handoffs" (none) (0 to 1023 as "0 to 1023", "", "") [manager]
            "How many times a client hands a lock over locally while another client waits, for 1 s at most. Without this \
             option: 32 times, or as often as fits into 5 ms, whichever is more.";
        RESPONSE_TIMEOUT "response_timeout" (2 s) (10 ms to 60 s) [manager]
            "How long one command's answer may take. After that, the command counts as maybe applied.";
        NODE_TIMEOUT "node_timeout" (100 ms) (10 ms to 60 s) [quorum]
            "Quorum only: the same for one of its servers. A slower server counts as down.";
        RENEW_IN "renew_in" (none) () [manager]
            "A worker thread renews the leases while the program blocks the event loop. See \
             [below](#a-blocked-event-loop).";
        CLAIM_WINDOW "claim_window" (3 s) (100 ms to 60 s) [manager]
            "How long the server keeps a grant for a waiter. A dead waiter can delay the others for this long. \
             Clients send heartbeats at a third of it.";
        MIXED_FLEET "mixed_fleet" (false) () [manager]
            "Compete with clients of other libraries on equal terms: all clients poll. See [interop](interop.md).";
        CLUSTER_SLOTS "cluster_slots" (automatic) () [manager]
            "One address enforces the slots of a cluster, and refuses `CLUSTER`. See [topologies](topologies.md#one-address-that-enforces-slots).";
        LABEL "label" () () [manager]
            "A name for this client. `inspect` and the `busy` errors of others show it. No control characters. With \
             an empty label, others see only the client's id.";
    }

    /// The options of a close.
    CLOSE_SETTINGS {
        DRAIN "drain" (none) (0 ms to 30 days) [close]
            "How long the holders have to give their leases back before the manager closes. New and waiting acquires \
             fail with `closed` at once. See [shutting down](shutting-down.md).";
    }
}

plain! {
    AcquireOptions { max_hold MAX_HOLD, linger LINGER, at_least AT_LEAST, per PER, max_waiters MAX_WAITERS }
    Config {
        local_handoffs LOCAL_HANDOFFS, claim_window CLAIM_WINDOW, response_timeout RESPONSE_TIMEOUT,
        node_timeout NODE_TIMEOUT, mixed_fleet MIXED_FLEET
    }
}

/// The longest TTL.
pub(crate) const LONGEST_TTL: time::Duration = time::Duration::from_millis(TTL.bounds.most);

/// Checks a TTL.
pub(crate) fn check_ttl(ttl: impl Into<time::Duration>) -> Result<(), Error> {
    check_time!(TTL, ttl.into())
}

pub(crate) fn not_detached() -> Error {
    Error::unsupported(
        "leases of several names, reentrant locks, onces, elections and quorums can't be detached, or held for a least time",
    )
}

pub(crate) fn not_counted() -> Error {
    Error::unsupported(
        "the waiting callers of reentrant locks, elections, several names, mixed fleets and quorums aren't counted",
    )
}

/// How long the server keeps the result of a [once](Kind::Once), unless its caller says otherwise.
pub const DEFAULT_KEEP: Duration = KEEP.default_time();

/// The longest result of a [once](Kind::Once), in bytes.
pub const LONGEST_RESULT: usize = 64 * 1024;

/// Checks the length of a result.
pub(crate) fn check_result(value: &[u8]) -> Result<(), Error> {
    if value.len() > LONGEST_RESULT {
        let bytes = Digits::of(value.len() as u64);
        let problem = ["has ", bytes.as_str(), " bytes: store at most 65536, such as a reference to more"].concat();
        return Err(Error::InvalidOption { field: "result", problem });
    }
    Ok(())
}

/// Checks what a leader tells about itself.
pub(crate) fn check_value(value: &str) -> Result<(), Error> {
    let problem = if value.len() > LONGEST_VALUE {
        "is longer than 1,024 bytes: give an address, where the rest can be found"
    } else if value.bytes().any(|byte| byte.is_ascii_control()) {
        "has a control character, such as a line break: leave it out"
    } else {
        return Ok(());
    };
    Err(Error::invalid("value", problem))
}

/// The longest value of a leader, in bytes.
const LONGEST_VALUE: usize = 1024;

/// Checks the time of a drain.
pub(crate) fn check_drain(grace: time::Duration) -> Result<(), Error> {
    check_time!(DRAIN, grace)
}

impl Kind {
    fn check(self, mode: Mode) -> Result<(), Error> {
        if self != Self::Lock && mode == Mode::Shared {
            return Err(Error::invalid("mode", "is shared: only a read-write lock has readers"));
        }
        match self {
            Self::Semaphore { limit, .. } if limit == 0 || u64::from(limit) > LIMIT.bounds.most => {
                Err(out_of_bounds("limit", LIMIT.bounds.choose))
            }
            Self::Semaphore { permits, limit } if permits == 0 || permits > limit => {
                Err(out_of_bounds("permits", "1 to the semaphore's limit"))
            }
            Self::Once { keep } => check_time!(KEEP, keep),
            _ => Ok(()),
        }
    }
}

impl AcquireOptions {
    /// Whether the options are within their bounds and fit each other. Every acquire checks this itself. A driver asks it of
    /// options that its users give once for all locks.
    ///
    /// # Errors
    /// `invalid-option`, with the option's name.
    pub fn check(&self) -> Result<(), Error> {
        check_ttl(self.ttl)?;
        self.kind.check(self.mode)?;
        self.check_plain()?;
        if self.max_hold.is_some() && !self.renew {
            return Err(Error::invalid("max_hold", "bounds renewals, but `renew` is false: use `ttl` alone"));
        }
        if let Some(within) = self.within {
            check_time!(WAIT, within)?;
        }
        if self.linger.is_some() && self.kind != Kind::Lock {
            return Err(Error::invalid("linger", "is only for mutexes and read-write locks: leave it out"));
        }
        if let Some(least) = self.at_least {
            if self.max_hold.is_some_and(|most| most < least) {
                return Err(Error::invalid("at_least", "is longer than `max_hold`: choose less"));
            }
            if !self.kind.family().moves() {
                return Err(not_detached());
            }
        }
        if self.per.is_some() {
            if self.kind.family() != Family::Semaphore {
                return Err(Error::invalid("per", "is only for semaphores: leave it out"));
            }
            if self.at_least.is_some() || self.replicas.is_some() {
                return Err(Error::unsupported("rates can't wait for replicas, or be held for a least time"));
            }
        }
        if let Some(Replicas { min, timeout }) = self.replicas {
            if min == 0 {
                return Err(Error::invalid("wait_for_replicas", "asks for no replica: ask for at least one"));
            }
            check_time!(REPLICAS, timeout)?;
        }
        if self.max_waiters.is_some() && matches!(self.kind.family(), Family::Reentrant | Family::Election) {
            return Err(not_counted());
        }
        match self.wait {
            Wait::For(wait) => check_time!(WAIT, wait),
            Wait::No | Wait::Forever => Ok(()),
        }
    }
}

/// The local hand-overs without the option: so many, or as many as fit into that time. So a client that other clients wait for
/// spends little of its turn on the way to the server, and long holds are still handed over in the order of their callers.
const HANDOFFS: u32 = 32;
const HANDOFF_TIME: time::Duration = time::Duration::from_millis(5);

/// The most fences to ask for at once. The server limits how far they may run ahead of its clock.
pub(crate) const MOST_FENCES: u64 = 1024;

impl Config {
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.check_plain()?;
        if self.max_in_flight == 0 {
            return Err(Error::invalid("max_in_flight", "is 0: choose between 1 and 65,535"));
        }
        Ok(())
    }

    /// How many local hand-overs are allowed while another client waits, and for how long any number of them is.
    pub(crate) fn handoffs(&self) -> (u32, time::Duration) {
        self.local_handoffs.map_or((HANDOFFS, HANDOFF_TIME), |handoffs| (handoffs, time::Duration::ZERO))
    }

    /// How many fences the counted hand-overs need, with the one of the grant.
    pub(crate) fn counted_block(&self) -> u64 {
        u64::from(self.handoffs().0).saturating_add(1)
    }

    /// How many fences a client asks for that expects others to wait.
    pub(crate) fn block(&self) -> u64 {
        if self.local_handoffs.is_some() { self.counted_block() } else { MOST_FENCES }
    }
}
