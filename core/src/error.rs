//! Everything that can go wrong, grouped by who can mend it.

use alloc::string::String;
use core::fmt;
use core::time::Duration;

use crate::reply::Failure;
use crate::vote::Votes;

/// Why an operation ended without what was asked for. Every variant has one stable [`code`](Error::code).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The caller's: an option or a name that can't be used. Nothing was sent.
    InvalidOption {
        /// The option's name as users write it.
        field: &'static str,
        /// What is wrong with it and what would be right.
        problem: String,
    },
    /// The caller's: the lease is not held any more (released or lost).
    NotHeld,
    /// The caller's: not possible beside the other holders, e.g. an upgrade with a second reader.
    Conflict(&'static str),
    /// The caller's: this host or this lock can't do it.
    Unsupported(String),
    /// The caller's: one script was asked for, and the names are in different slots of a cluster.
    CrossSlot,
    /// The caller's: the client was closed.
    Closed,
    /// The world's: somebody else held the lock during the whole wait.
    Busy {
        /// How long the caller waited.
        waited: Duration,
        /// How long the holder's lease had left, if known. It may be renewed.
        holder_remaining: Option<Duration>,
        /// What each server of a quorum said; empty where there is one server.
        votes: Votes,
    },
    /// The world's: the caller cancelled its wait.
    Cancelled,
    /// The world's: the lease was lost while the operation was under way.
    Lost(LossReason),
    /// The world's: no server answered within the operation's time. Whether the lock is busy is not known.
    Unreachable {
        /// How long the caller waited.
        waited: Duration,
        /// What the last attempt ran into.
        cause: Option<Failure>,
        /// What each server of a quorum said; empty where there is one server.
        votes: Votes,
    },
    /// The server's: it refused the credentials or the rights (`NOAUTH`, `WRONGPASS`, `NOPERM`).
    Auth(String),
    /// The server's: it answered with an error that retrying does not mend.
    Server(String),
    /// The server's: an answer that leasehold does not understand.
    Protocol(String),
    /// The caller's: the name holds another kind of lock or foreign data; it was left as it is.
    WrongKind(String),
}

impl Error {
    /// The stable code, the same on every surface.
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
            Self::Auth(_) => "auth",
            Self::Server(_) => "server",
            Self::Protocol(_) => "protocol",
            Self::WrongKind(_) => "wrong-kind",
        }
    }

    /// Whether the same call may succeed later without any change by the caller.
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Lost(_) | Self::Unreachable { .. })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidOption { field, problem } => write!(f, "`{field}` {problem}"),
            Self::NotHeld => f.write_str("the lease is not held any more: acquire again"),
            Self::Conflict(what) => f.write_str(what),
            Self::Unsupported(what) => write!(f, "not supported here: {what}"),
            Self::CrossSlot => {
                f.write_str("the names are in different cluster slots: give all of them one hash tag like `{tag}`")
            }
            Self::Closed => f.write_str("the lock manager was closed"),
            Self::Busy { waited, holder_remaining, votes } => {
                write!(f, "still held after {} ms", waited.as_millis())?;
                if !votes.is_empty() {
                    write!(f, ": {votes}")?;
                }
                match holder_remaining {
                    Some(left) => write!(f, "; that lease has {} ms left unless it is renewed", left.as_millis()),
                    None => Ok(()),
                }
            }
            Self::Cancelled => f.write_str("the wait was cancelled"),
            Self::Lost(reason) => write!(f, "the lease was lost: {reason}"),
            Self::Unreachable { waited, votes, .. } if !votes.is_empty() => {
                write!(f, "no majority of the servers answered within {} ms: {votes}", waited.as_millis())
            }
            Self::Unreachable { waited, cause, .. } => {
                write!(f, "no server answered within {} ms", waited.as_millis())?;
                match cause {
                    Some(cause) => write!(f, "; the last attempt: {cause}"),
                    None => Ok(()),
                }
            }
            Self::Auth(text) => write!(f, "the server refused the credentials or rights: {text}"),
            Self::Server(text) => write!(f, "the server answered with an error: {text}"),
            Self::Protocol(text) => write!(f, "the server's answer was not understood: {text}"),
            Self::WrongKind(text) => write!(f, "the name holds something else than this kind of lock: {text}"),
        }
    }
}

impl core::error::Error for Error {}

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

/// Why a lease ended before its holder gave it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// No successful renewal before the deadline, or the end of a lease that is not renewed.
    Expired,
    /// The key vanished on the server: flushed, evicted, deleted, or the server restarted empty.
    Gone,
    /// The key holds somebody else's token.
    Taken,
    /// An operator took it by force.
    Revoked,
    /// The renewed lease reached its `max_hold`.
    MaxHold,
}

impl LossReason {
    /// The reason's stable word, the same on every surface.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Gone => "gone",
            Self::Taken => "taken",
            Self::Revoked => "revoked",
            Self::MaxHold => "max-hold",
        }
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its time ran out, and no renewal had come through",
            Self::Gone => "its key vanished from the server",
            Self::Taken => "somebody else holds the lock",
            Self::Revoked => "an operator took it by force",
            Self::MaxHold => "it reached its max_hold",
        })
    }
}
