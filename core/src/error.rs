//! Errors, the failures that cause them, the reasons for a loss, and the votes of a quorum.

#[cfg(feature = "quorum")]
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;
use core::time::Duration;

/// Why an operation failed. Every variant has a stable [`code`](Error::code).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Error {
    /// An option or a name can't be used. Nothing was sent.
    InvalidOption {
        /// The name of the option.
        field: &'static str,
        /// What is wrong with it, and what to do instead.
        problem: String,
    },
    /// The lease is no longer held: it was released or lost before this call.
    NotHeld,
    /// The conversion is not possible because of other holders, for example an upgrade while another reader holds the lock.
    Conflict(&'static str),
    /// This host or this lock can't do it.
    Unsupported(String),
    /// One script was asked for, but the names are in several slots of a cluster.
    CrossSlot,
    /// The client was closed.
    Closed,
    /// Another client held the lock for the whole wait.
    Busy {
        /// How long the caller waited.
        waited: Duration,
        /// How long the holder's lease will last unless it is renewed, if known.
        holder_remaining: Option<Duration>,
        /// What each server of a quorum answered. Empty without a quorum.
        votes: Votes,
    },
    /// The caller cancelled its wait.
    Cancelled,
    /// The lease was lost during the operation.
    Lost(LossReason),
    /// No server answered in time. It is not known whether the lock is busy, nor whether a command was applied.
    Unreachable {
        /// How long the caller waited.
        waited: Duration,
        /// Why the last attempt failed.
        cause: Option<Failure>,
        /// What each server of a quorum answered. Empty without a quorum.
        votes: Votes,
    },
    /// Fewer replicas than asked for have confirmed the lease in time. It was released.
    NotReplicated {
        /// How many replicas have confirmed it.
        confirmed: u32,
        /// How many the caller asked for.
        wanted: u32,
        /// How long the caller waited for them.
        waited: Duration,
    },
    /// The server refused the login or a right (`NOAUTH`, `WRONGPASS`, `NOPERM`).
    Auth(String),
    /// The server answered with an error that a retry does not fix.
    Server(String),
    /// The client did not understand the server's answer.
    Protocol(String),
    /// The name holds another kind of lock, or other data. Nothing was changed.
    WrongKind(String),
}

impl Error {
    /// The stable code. It is the same in every language binding.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InvalidOption { .. } => "invalid-option",
            Self::NotHeld => "not-held",
            Self::Conflict(_) => "conflict",
            Self::Unsupported(_) => "unsupported",
            Self::CrossSlot => "cross-slot",
            Self::Closed => "closed",
            Self::Busy { .. } => "busy",
            Self::Cancelled => "cancelled",
            Self::Lost(_) => "lost",
            Self::Unreachable { .. } => "unreachable",
            Self::NotReplicated { .. } => "not-replicated",
            Self::Auth(_) => "auth",
            Self::Server(_) => "server",
            Self::Protocol(_) => "protocol",
            Self::WrongKind(_) => "wrong-kind",
        }
    }

    /// [`Error::Busy`] without votes.
    pub(crate) fn busy(waited: Duration, holder_remaining: Option<Duration>) -> Self {
        Self::Busy { waited, holder_remaining, votes: Votes::default() }
    }

    /// [`Error::Unreachable`] without votes.
    pub(crate) fn unreachable(waited: Duration, cause: Option<Failure>) -> Self {
        Self::Unreachable { waited, cause, votes: Votes::default() }
    }

    /// Whether the same call may succeed later without any change by the caller.
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Lost(_) | Self::Unreachable { .. } | Self::NotReplicated { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidOption { field, problem } => write!(f, "`{field}` {problem}"),
            Self::NotHeld => f.write_str("the lease is no longer held; acquire it again"),
            Self::Conflict(what) => f.write_str(what),
            Self::Unsupported(what) => write!(f, "not supported: {what}"),
            Self::CrossSlot => {
                f.write_str("the names are in different cluster slots; give all of them one hash tag, like `{tag}`")
            }
            Self::Closed => f.write_str("the lock manager is closed"),
            Self::Busy { waited, holder_remaining, votes } => {
                write!(f, "busy after {}", shown_time(*waited))?;
                if !votes.is_empty() {
                    write!(f, ": {votes}")?;
                }
                match holder_remaining {
                    Some(left) => write!(f, "; the holder's lease expires in {}", shown_time(*left)),
                    None => Ok(()),
                }
            }
            Self::Cancelled => f.write_str("the wait was cancelled"),
            Self::Lost(reason) => write!(f, "the lease was lost: {reason}"),
            Self::Unreachable { waited, votes, .. } if !votes.is_empty() => {
                write!(f, "no majority of the servers answered within {}: {votes}", shown_time(*waited))
            }
            Self::Unreachable { waited, cause, .. } => {
                let waited = shown_time(*waited);
                match cause {
                    None | Some(Failure::TimedOut) => write!(f, "no answer from the server within {waited}"),
                    Some(cause) => write!(f, "the server was not available within {waited}: {cause}"),
                }
            }
            Self::NotReplicated { confirmed, wanted, waited } => {
                write!(f, "{confirmed} of {wanted} replicas confirmed the lease within {}", shown_time(*waited))
            }
            Self::Auth(text) => write!(f, "the server refused the user, the password or a command: {text}"),
            Self::Server(text) => write!(f, "the server answered with an error: {text}"),
            Self::Protocol(text) => write!(f, "unexpected answer from the server: {text}"),
            Self::WrongKind(text) => {
                write!(f, "the key holds another kind of lock or other data; use another name or a prefix: {text}")
            }
        }
    }
}

impl core::error::Error for Error {}

/// A time as error messages show it: `250 ms`, `1.5 s`, `21 s`.
pub fn shown_time(time: Duration) -> String {
    let ms = time.as_millis();
    if ms < 1_000 {
        return format!("{ms} ms");
    }
    let tenths = ms.saturating_add(50) / 100;
    match (tenths / 10, tenths % 10) {
        (seconds, tenths) if seconds < 10 && tenths > 0 => format!("{seconds}.{tenths} s"),
        _ => format!("{} s", ms.saturating_add(500) / 1_000),
    }
}

/// Why a command got no reply. Each variant also says whether the server may have run the command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The server answered with this error, beginning with its code. Not applied.
    Refused(String),
    /// The command certainly did not run: there was no connection, or it was refused before the script ran.
    Unavailable(String),
    /// The connection broke after the command may have been sent. Maybe applied.
    Interrupted(String),
    /// There was no answer in time. Maybe applied, perhaps later.
    TimedOut,
    /// This host doesn't support it, for example subscriptions.
    Unsupported(String),
    /// The owner closed the connection for good. Not applied.
    Closed(String),
}

impl Failure {
    /// Whether the server may have applied the command, or may still apply it.
    pub const fn maybe_applied(&self) -> bool {
        matches!(self, Self::Interrupted(_) | Self::TimedOut)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(text) => write!(f, "refused by the server: {text}"),
            Self::Unavailable(text) => write!(f, "not available: {text}"),
            Self::Interrupted(text) => write!(f, "the connection broke: {text}"),
            Self::TimedOut => f.write_str("no answer in time"),
            Self::Unsupported(text) => write!(f, "not supported: {text}"),
            Self::Closed(text) => write!(f, "the connection is closed: {text}"),
        }
    }
}

/// Why a lease ended before its holder released it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// No renewal succeeded in time, or a fixed lease reached its end.
    Expired,
    /// The key vanished on the server: flushed, evicted, deleted, or the server restarted empty.
    Gone,
    /// Another client holds the lock.
    Taken,
    /// An operator took the lock by force, or another process adopted the lease.
    Revoked,
    /// The renewed lease reached its `max_hold`.
    MaxHold,
    /// The manager was closed. The driver reports this loss before it closes the engine, which then releases the
    /// leases. The engine itself never reports it.
    Closed,
}

impl LossReason {
    /// The stable code. It is the same in every language binding.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Gone => "gone",
            Self::Taken => "taken",
            Self::Revoked => "revoked",
            Self::MaxHold => "max-hold",
            Self::Closed => "closed",
        }
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "it expired without a renewal",
            Self::Gone => "its key vanished from the server",
            Self::Taken => "another client holds the lock",
            Self::Revoked => "an operator took the lock by force, or another process adopted the lease",
            Self::MaxHold => "it reached its max_hold",
            Self::Closed => "its manager was closed",
        })
    }
}

/// The answer of one server of a quorum.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Vote {
    /// The server's name, as it was given to the engine.
    pub server: Arc<str>,
    /// Whether it agreed, or why it didn't. None if the outcome was certain before it answered.
    pub answer: Option<Result<(), Error>>,
}

/// One vote for each server of a quorum, in the order of the servers. Empty without a quorum. As text:
/// `2 of 5 busy, 1 timed out (10.0.0.3:6379), 2 agreed`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Votes(
    #[cfg(feature = "quorum")] pub(crate) Box<[Vote]>,
    // Without a quorum there are none, and an error has no room for them.
    #[cfg(not(feature = "quorum"))] core::marker::PhantomData<Vote>,
);

impl Deref for Votes {
    type Target = [Vote];
    fn deref(&self) -> &[Vote] {
        #[cfg(feature = "quorum")]
        return &self.0;
        #[cfg(not(feature = "quorum"))]
        &[]
    }
}

impl Votes {
    /// Checks whether a majority could be reached at the start.
    ///
    /// # Errors
    /// [`Error::Unreachable`] with these votes. If a majority refused the client (for example its login),
    /// the first of those errors.
    pub fn majority(self, waited: Duration) -> Result<(), Error> {
        let needed = self.len() / 2 + 1;
        let errors = || self.iter().filter_map(|vote| vote.answer.as_ref()?.as_ref().err());
        if self.len().saturating_sub(errors().count()) >= needed {
            return Ok(());
        }
        let refused = || errors().filter(|error| !error.is_retryable());
        if let Some(error) = refused().next().filter(|_| refused().count() >= needed) {
            return Err(error.clone());
        }
        let cause = errors().find_map(|error| match error {
            Error::Unreachable { cause, .. } => cause.clone(),
            _ => None,
        });
        Err(Error::Unreachable { waited, cause, votes: self })
    }
}

impl Vote {
    /// The answer of a server. None if the outcome was certain before it answered.
    pub const fn new(server: Arc<str>, answer: Option<Result<(), Error>>) -> Self {
        Self { server, answer }
    }

    /// The answer in one word.
    const fn word(&self) -> &'static str {
        match &self.answer {
            None => "not answered yet",
            Some(Ok(())) => "agreed",
            Some(Err(Error::Unreachable { cause: None | Some(Failure::TimedOut), .. })) => "timed out",
            Some(Err(error)) => error.code(),
        }
    }

    /// Whether the server neither agreed nor said that another client holds the lock.
    pub(crate) const fn failed(&self) -> bool {
        !matches!(self.answer, None | Some(Ok(()) | Err(Error::Busy { .. })))
    }
}

#[cfg(feature = "quorum")]
impl FromIterator<Vote> for Votes {
    fn from_iter<T: IntoIterator<Item = Vote>>(votes: T) -> Self {
        Self(votes.into_iter().collect())
    }
}

impl fmt::Display for Votes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, vote) in self.iter().enumerate() {
            let word = vote.word();
            let same = || self.iter().filter(|other| other.word() == word);
            if self.iter().take(place).any(|earlier| earlier.word() == word) {
                continue;
            }
            if place > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{}", same().count())?;
            if place == 0 {
                write!(f, " of {}", self.len())?;
            }
            write!(f, " {word}")?;
            if vote.failed() {
                let mut between = " (";
                for other in same() {
                    write!(f, "{between}{}", other.server)?;
                    between = ", ";
                }
                f.write_str(")")?;
            }
        }
        Ok(())
    }
}
