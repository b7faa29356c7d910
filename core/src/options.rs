//! The options of a client and of an acquire, with their defaults and bounds.

use alloc::string::String;
use core::time::Duration;

use crate::error::Error;
use crate::text::Digits;
use crate::time::millis;

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// One holder, and no other at the same time.
    Exclusive,
    /// Any number of readers.
    Shared,
}

/// A kind of lock. A name holds one kind at a time. Acquiring it as another kind fails with [`Error::WrongKind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Kind {
    /// One exclusive holder or any number of readers: see [`AcquireOptions::mode`].
    #[default]
    Lock,
    /// A lock that its owner can take again while it holds it, compatible with Redisson's `RLock`. Exclusive only.
    Reentrant(Owner),
    /// A semaphore. Each acquire takes a number of permits as one lease. Exclusive only.
    Semaphore {
        /// How many permits to take: 1 to `limit`.
        permits: u32,
        /// How many permits there are: 1 to 1,000,000. The limit of the latest acquire counts. A lower limit takes
        /// nothing from current holders.
        limit: u32,
    },
}

/// The owner of a reentrant lock. The driver chooses the number. An owner that holds the lock can take it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner(pub u64);

/// The kinds, by their representation on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Family {
    Lock,
    Reentrant,
    Semaphore,
}

impl Kind {
    pub(crate) const fn family(self) -> Family {
        match self {
            Self::Lock => Family::Lock,
            Self::Reentrant(_) => Family::Reentrant,
            Self::Semaphore { .. } => Family::Semaphore,
        }
    }
}

/// How long an acquire may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wait {
    /// Don't wait: take the lock only if it is free.
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
    /// How long to keep the lease after its holder has released it, while no other client asks for the lock: 1 ms to
    /// 60 s. Default: none. The next caller of this client then gets the lock without a round trip, with the next fence.
    /// Only for mutexes and read-write locks, on connections that carry messages, and not with
    /// [`Config::mixed_fleet`].
    pub linger: Option<Duration>,
}

/// How many replicas must have a new lease, and how long to wait for them. The wait for replicas comes after the wait
/// for the lock. It takes at most this time and a response timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Replicas {
    /// How many: at least 1.
    pub min: u32,
    /// How long: 1 ms to 60 s.
    pub timeout: Duration,
}

impl Default for AcquireOptions {
    fn default() -> Self {
        Self {
            kind: Kind::Lock,
            mode: Mode::Exclusive,
            ttl: Duration::from_secs(30),
            renew: true,
            max_hold: None,
            wait: Wait::For(Duration::from_secs(60)),
            within: None,
            replicas: None,
            linger: None,
        }
    }
}

/// The options of a client. All clients of one fleet should use the same values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// A prefix for every name. Default: empty.
    pub prefix: String,
    /// How many times this client hands a lock over locally while another client waits, for 1 s at most: 0 to 1023. Default: 32.
    pub local_handoffs: u32,
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
    /// Whether commands try the short scripts of the common path first, and travel as one script call if the client has
    /// several to say at one moment. Then a command may wait for the next [`Input::Wake`](crate::Input::Wake), so the
    /// driver must wake the engine when [`poll_timeout`](crate::Engine::poll_timeout) says so and it has no other input.
    /// In a cluster each travels alone, because names have different slots. Default: false.
    pub batches: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            prefix: String::new(),
            local_handoffs: 32,
            claim_window: Duration::from_secs(3),
            response_timeout: Duration::from_secs(2),
            node_timeout: Duration::from_millis(100),
            mixed_fleet: false,
            max_in_flight: 1024,
            batches: false,
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

const MINUTE: Duration = Duration::from_secs(60);
const MONTH: Duration = Duration::from_secs(30 * 24 * 3600);

/// Refuses a value that is out of its bounds. `bounds` is their text for the error message.
fn within(
    field: &'static str,
    value: Duration,
    (least, most): (Duration, Duration),
    bounds: &str,
) -> Result<(), Error> {
    if value < least || value > most {
        let problem = ["is ", Digits::of(millis(value)).as_str(), " ms: choose ", bounds].concat();
        return Err(Error::InvalidOption { field, problem });
    }
    Ok(())
}

/// Checks a TTL: 10 ms to 30 days.
pub(crate) fn check_ttl(ttl: Duration) -> Result<(), Error> {
    within("ttl", ttl, (Duration::from_millis(10), MONTH), "10 ms to 30 days")
}

fn check_wait(field: &'static str, wait: Duration) -> Result<(), Error> {
    within(field, wait, (Duration::from_millis(1), MONTH), "1 ms to 30 days, or try without waiting")
}

/// The greatest limit of a semaphore.
const MOST_PERMITS: u32 = 1_000_000;

impl Kind {
    fn check(self, mode: Mode) -> Result<(), Error> {
        let refuse = |field, problem: &str| Err(Error::InvalidOption { field, problem: problem.into() });
        if self != Self::Lock && mode == Mode::Shared {
            return refuse("mode", "is shared: only a read-write lock has readers");
        }
        match self {
            Self::Semaphore { limit, .. } if limit == 0 || limit > MOST_PERMITS => {
                refuse("limit", "is out of bounds: choose 1 to 1,000,000 permits")
            }
            Self::Semaphore { permits, limit } if permits == 0 || permits > limit => {
                refuse("permits", "is out of bounds: choose 1 to the semaphore's limit")
            }
            _ => Ok(()),
        }
    }
}

impl AcquireOptions {
    pub(crate) fn check(&self) -> Result<(), Error> {
        check_ttl(self.ttl)?;
        self.kind.check(self.mode)?;
        if let Some(most) = self.max_hold {
            within("max_hold", most, (Duration::from_millis(10), MONTH), "10 ms to 30 days")?;
            if !self.renew {
                let problem = "bounds renewals, but `renew` is false: use `ttl` alone".into();
                return Err(Error::InvalidOption { field: "max_hold", problem });
            }
        }
        if let Some(within) = self.within {
            check_wait("wait", within)?;
        }
        if let Some(linger) = self.linger {
            within("linger", linger, (Duration::from_millis(1), MINUTE), "1 ms to 60 s")?;
            if self.kind != Kind::Lock {
                let problem = "is only for mutexes and read-write locks: leave it out".into();
                return Err(Error::InvalidOption { field: "linger", problem });
            }
        }
        if let Some(Replicas { min, timeout }) = self.replicas {
            if min == 0 {
                let problem = "asks for no replica: ask for at least one".into();
                return Err(Error::InvalidOption { field: "wait_for_replicas", problem });
            }
            within("wait_for_replicas", timeout, (Duration::from_millis(1), MINUTE), "a timeout of 1 ms to 60 s")?;
        }
        match self.wait {
            Wait::For(wait) => check_wait("wait", wait),
            Wait::No | Wait::Forever => Ok(()),
        }
    }
}

impl Config {
    pub(crate) fn check(&self) -> Result<(), Error> {
        within("claim_window", self.claim_window, (Duration::from_millis(100), MINUTE), "100 ms to 60 s")?;
        within("response_timeout", self.response_timeout, (Duration::from_millis(10), MINUTE), "10 ms to 60 s")?;
        within("node_timeout", self.node_timeout, (Duration::from_millis(10), MINUTE), "10 ms to 60 s")?;
        if self.max_in_flight == 0 {
            let problem = "is 0: choose between 1 and 65,535".into();
            return Err(Error::InvalidOption { field: "max_in_flight", problem });
        }
        if self.local_handoffs > 1023 {
            let problem = ["is ", Digits::of(self.local_handoffs).as_str(), ": choose between 0 and 1023"].concat();
            return Err(Error::InvalidOption { field: "local_handoffs", problem });
        }
        Ok(())
    }
}
