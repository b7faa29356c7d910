//! What a client and a caller can choose, with the defaults, and the bounds that are checked early.

use alloc::format;
use alloc::string::String;
use core::time::Duration;

use crate::error::Error;
use crate::time::millis;

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// One holder, nobody beside it.
    Exclusive,
    /// Any number of readers, no exclusive holder beside them.
    Shared,
}

/// What kind of lock a name holds. One name holds one kind at a time: another kind's acquire is refused with
/// [`Error::WrongKind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Kind {
    /// One exclusive holder, or any number of readers, as [`AcquireOptions::mode`] says.
    #[default]
    Lock,
    /// A lock that its owner may take again while it holds it, in the wire format of Redisson's RLock. Only exclusive.
    Reentrant(Owner),
    /// Permits that are held by weight. Only exclusive: each acquisition is a lease of its own.
    Semaphore {
        /// How many are wanted, at least 1 and at most `limit`.
        permits: u32,
        /// How many there are, at most 1,000,000. The latest acquire's stands; lowering it takes nothing from anybody.
        limit: u32,
    },
}

/// Who owns a reentrant lock, named by the driver: whoever shows the same owner again while it holds the lock has it once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner(pub u64);

/// The kinds by what stands on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all: only if it is free.
    No,
    /// At most this long, at least 1 ms and at most 30 days.
    For(Duration),
    /// Until it is granted or cancelled.
    Forever,
}

impl From<Duration> for Wait {
    fn from(wait: Duration) -> Self {
        Self::For(wait)
    }
}

/// The options of one acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcquireOptions {
    /// What kind of lock it is. Default a lock.
    pub kind: Kind,
    /// Exclusive or shared.
    pub mode: Mode,
    /// What the server keeps if nobody renews: 10 ms to 24 h. Default 30 s.
    pub ttl: Duration,
    /// Renewed at a third of `ttl` while held. Default true; false makes a fixed lease.
    pub renew: bool,
    /// A renewed lease is lost after this. At least 10 ms. Default none.
    pub max_hold: Option<Duration>,
    /// How long to wait. Default 60 s.
    pub wait: Wait,
    /// How long a try ([`Wait::No`]) may take to learn whether the lock is free, if that is less than the response timeout.
    /// Default none.
    pub within: Option<Duration>,
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
        }
    }
}

/// The options of a client. One fleet should agree on all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Put before every name. Default empty.
    pub prefix: String,
    /// Hand-overs inside this client once another client waits (and for 1 s at most): 0 to 1023. Default 32.
    pub local_handoffs: u32,
    /// How long a grant is kept for a waiter; heartbeats go at a third of it: 100 ms to 60 s. Default 3 s.
    pub claim_window: Duration,
    /// One command's answer; past it the command is "maybe applied": 10 ms to 60 s. Default 2 s.
    pub response_timeout: Duration,
    /// One command's answer from one of a quorum's servers: 10 ms to 60 s. Default 100 ms, which suits a LAN.
    pub node_timeout: Duration,
    /// No grants and no local hand-over: everybody polls, on equal terms with clients of other libraries. Default false.
    pub mixed_fleet: bool,
    /// How long an unused name remembers its last fence: 1 min to 30 days. Default 1 h.
    pub fence_retention: Duration,
    /// The most commands that may be unanswered at one server: 1 to 65,535. Default 1,024.
    pub max_in_flight: u16,
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
            fence_retention: Duration::from_secs(3600),
            max_in_flight: 1024,
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
const DAY: Duration = Duration::from_secs(24 * 3600);
const MONTH: Duration = Duration::from_secs(30 * 24 * 3600);

/// Refuses what is out of its bounds, which are told as people write them.
fn within(
    field: &'static str,
    value: Duration,
    (least, most): (Duration, Duration),
    bounds: &str,
) -> Result<(), Error> {
    if value < least || value > most {
        let problem = format!("is {} ms: choose {bounds}", millis(value));
        return Err(Error::InvalidOption { field, problem });
    }
    Ok(())
}

/// The bounds of a lease's time, 10 ms to 24 h.
pub(crate) fn check_ttl(ttl: Duration) -> Result<(), Error> {
    within("ttl", ttl, (Duration::from_millis(10), DAY), "10 ms to 24 h")
}

fn check_wait(field: &'static str, wait: Duration) -> Result<(), Error> {
    within(field, wait, (Duration::from_millis(1), MONTH), "1 ms to 30 days, or try without waiting")
}

/// The most permits that a semaphore has.
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
        within("fence_retention", self.fence_retention, (MINUTE, MONTH), "1 minute to 30 days")?;
        if self.max_in_flight == 0 {
            let problem = "is 0: choose between 1 and 65,535".into();
            return Err(Error::InvalidOption { field: "max_in_flight", problem });
        }
        if self.local_handoffs > 1023 {
            let problem = format!("is {}: choose between 0 and 1023", self.local_handoffs);
            return Err(Error::InvalidOption { field: "local_handoffs", problem });
        }
        Ok(())
    }
}
