//! The one error of this crate.

use std::time::Duration;

use leasehold_core::{Failure, LossReason, Votes};
use redis::{ErrorKind, RedisError};

use crate::wire;

/// What lies behind an error: the `redis` crate's own error, or the engine's account of the last attempt.
pub type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why an operation ended without what was asked for. Every variant has one stable [`code`](Error::code).
///
/// ```
/// # fn log(error: leasehold::Error) {
/// match error {
///     leasehold::Error::Busy { name, waited, .. } => println!("{name} is busy, we waited {waited:?}"),
///     other if other.is_retryable() => println!("try again: {other}"),
///     other => println!("{}: {other}", other.code()),
/// }
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller's: an option, a name or a URL that can't be used. Nothing was sent.
    #[error("`{field}` {problem}")]
    #[non_exhaustive]
    InvalidOption {
        /// The option as users write it.
        field: &'static str,
        /// What is wrong with it and what would be right.
        problem: String,
    },
    /// The caller's: the lease is not held any more, as it was released or lost.
    #[error("the lease of `{name}` is not held any more: acquire it again")]
    #[non_exhaustive]
    NotHeld {
        /// The lock.
        name: String,
    },
    /// The caller's: not possible beside the other holders, e.g. an upgrade with a second reader.
    #[error("`{name}`: {problem}")]
    #[non_exhaustive]
    Conflict {
        /// The lock.
        name: String,
        /// What stands in the way.
        problem: &'static str,
    },
    /// The caller's: this server, this connection or this lock can't do it.
    #[error("not supported here: {problem}")]
    #[non_exhaustive]
    Unsupported {
        /// What can't be done and what it takes.
        problem: String,
    },
    /// The caller's: one script was asked for, and the names are in different slots of a cluster.
    #[error("`{name}` are in different cluster slots: give all of them one hash tag like `{{tag}}`")]
    #[non_exhaustive]
    CrossSlot {
        /// The locks.
        name: String,
    },
    /// The caller's: the manager was closed, or the runtime that drove it has ended.
    #[error("the lock manager is closed")]
    Closed,
    /// The world's: somebody else held the lock during the whole wait.
    #[error(
        "`{name}` was still held after {} ms{}{}",
        waited.as_millis(),
        votes_text(votes),
        holder_text(*holder_remaining)
    )]
    #[non_exhaustive]
    Busy {
        /// The lock.
        name: String,
        /// How long the caller waited.
        waited: Duration,
        /// How long the holder's lease had left, if known. It may be renewed.
        holder_remaining: Option<Duration>,
        /// What each server of a quorum said; empty where there is one server.
        votes: Votes,
    },
    /// The world's: the wait was cancelled.
    #[error("the wait for `{name}` was cancelled")]
    #[non_exhaustive]
    Cancelled {
        /// The lock.
        name: String,
    },
    /// The world's: the lease was lost while the operation or the work was under way.
    #[error("the lease of `{name}` was lost: {reason}")]
    #[non_exhaustive]
    Lost {
        /// The lock.
        name: String,
        /// How it was lost.
        reason: LossReason,
    },
    /// The world's: no server answered within the operation's time. Whether the lock is busy is not known.
    #[error("{} within {} ms{}", unanswered(server.as_deref(), votes), waited.as_millis(), votes_text(votes))]
    #[non_exhaustive]
    Unreachable {
        /// The lock, if it was about one.
        name: Option<String>,
        /// The server's address, unless the connection is the caller's own.
        server: Option<String>,
        /// How long the caller waited.
        waited: Duration,
        /// What the last attempt ran into.
        source: Option<Source>,
        /// What each server of a quorum said; empty where there is one server.
        votes: Votes,
    },
    /// The world's: too few replicas had the lease in time, see [`Lock::wait_for_replicas`](crate::Lock::wait_for_replicas). It was
    /// given back.
    #[error("`{name}`: {confirmed} of {wanted} replicas confirmed the lease within {} ms, so it was given back", waited.as_millis())]
    #[non_exhaustive]
    NotReplicated {
        /// The lock.
        name: String,
        /// How many replicas confirmed it.
        confirmed: u32,
        /// How many were asked for.
        wanted: u32,
        /// How long they were waited for.
        waited: Duration,
    },
    /// The server's: it refused the credentials or the rights (`NOAUTH`, `WRONGPASS`, `NOPERM`).
    #[error("the server refused the credentials or the rights: {problem}")]
    #[non_exhaustive]
    Auth {
        /// The lock, if it was about one.
        name: Option<String>,
        /// The server's words.
        problem: String,
    },
    /// The server's: it answered with an error that retrying does not mend.
    #[error("the server answered with an error: {problem}")]
    #[non_exhaustive]
    Server {
        /// The lock, if it was about one.
        name: Option<String>,
        /// The server's words.
        problem: String,
    },
    /// The server's: an answer that leasehold does not understand.
    #[error("the server's answer was not understood: {problem}")]
    #[non_exhaustive]
    Protocol {
        /// The lock, if it was about one.
        name: Option<String>,
        /// The answer, shortened.
        problem: String,
    },
    /// The caller's: the name holds another kind of lock or foreign data; it was left as it is.
    #[error("`{name}` holds something else than this kind of lock: {problem}")]
    #[non_exhaustive]
    WrongKind {
        /// The lock.
        name: String,
        /// What the server said.
        problem: String,
    },
}

fn votes_text(votes: &Votes) -> String {
    if votes.is_empty() { String::new() } else { format!(": {votes}") }
}

fn unanswered(server: Option<&str>, votes: &Votes) -> String {
    if !votes.is_empty() {
        return "no majority of the servers answered".to_owned();
    }
    server.map_or_else(|| "no server answered".to_owned(), |server| format!("the server at {server} did not answer"))
}

fn holder_text(remaining: Option<Duration>) -> String {
    match remaining {
        Some(left) => format!("; that lease has {} ms left unless it is renewed", left.as_millis()),
        None => String::new(),
    }
}

impl Error {
    /// The stable code, the same on every surface.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InvalidOption { .. } => "invalid-option",
            Self::NotHeld { .. } => "not-held",
            Self::Conflict { .. } => "conflict",
            Self::Unsupported { .. } => "unsupported",
            Self::CrossSlot { .. } => "cross-slot",
            Self::Closed => "closed",
            Self::Busy { .. } => "busy",
            Self::Cancelled { .. } => "cancelled",
            Self::Lost { .. } => "lost",
            Self::Unreachable { .. } => "unreachable",
            Self::NotReplicated { .. } => "not-replicated",
            Self::Auth { .. } => "auth",
            Self::Server { .. } => "server",
            Self::Protocol { .. } => "protocol",
            Self::WrongKind { .. } => "wrong-kind",
        }
    }

    /// Whether the same call may succeed later without any change by the caller.
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Lost { .. } | Self::Unreachable { .. } | Self::NotReplicated { .. })
    }

    /// The lock's name, without the manager's prefix, if the error is about one lock.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::NotHeld { name }
            | Self::Conflict { name, .. }
            | Self::Busy { name, .. }
            | Self::CrossSlot { name }
            | Self::Cancelled { name }
            | Self::Lost { name, .. }
            | Self::NotReplicated { name, .. }
            | Self::WrongKind { name, .. } => Some(name),
            Self::Unreachable { name, .. }
            | Self::Auth { name, .. }
            | Self::Server { name, .. }
            | Self::Protocol { name, .. } => name.as_deref(),
            Self::InvalidOption { .. } | Self::Unsupported { .. } | Self::Closed => None,
        }
    }

    /// How long the caller waited, where it waited in vain.
    pub const fn waited(&self) -> Option<Duration> {
        match self {
            Self::Busy { waited, .. } | Self::Unreachable { waited, .. } | Self::NotReplicated { waited, .. } => {
                Some(*waited)
            }
            _ => None,
        }
    }

    /// How long the holder's lease had left, where it is known. It may be renewed.
    pub const fn holder_remaining(&self) -> Option<Duration> {
        match self {
            Self::Busy { holder_remaining, .. } => *holder_remaining,
            _ => None,
        }
    }

    /// The engine's error about the lock `name`, or about none, and the server at `server`.
    pub(crate) fn from_engine(error: leasehold_core::Error, name: Option<&str>, server: Option<&str>) -> Self {
        use leasehold_core::Error as Engine;
        let about = || name.unwrap_or_default().to_owned();
        let name = name.map(str::to_owned);
        match error {
            Engine::InvalidOption { field, problem } => Self::InvalidOption { field, problem },
            Engine::NotHeld => Self::NotHeld { name: about() },
            Engine::Conflict(problem) => Self::Conflict { name: about(), problem },
            Engine::Unsupported(problem) => Self::Unsupported { problem },
            Engine::CrossSlot => Self::CrossSlot { name: about() },
            Engine::Closed => Self::Closed,
            Engine::Busy { waited, holder_remaining, votes } => {
                Self::Busy { name: about(), waited, holder_remaining, votes }
            }
            Engine::Cancelled => Self::Cancelled { name: about() },
            Engine::Lost(reason) => Self::Lost { name: about(), reason },
            Engine::Unreachable { waited, cause, votes } => {
                let (server, source) = (server.map(str::to_owned), cause.map(|cause| Attempt(cause).into()));
                Self::Unreachable { name, server, waited, source, votes }
            }
            Engine::Auth(problem) => Self::Auth { name, problem },
            Engine::Server(problem) if problem.starts_with("MOVED ") => {
                let problem = format!("the server is one of a cluster, connect with `LockManager::cluster`: {problem}");
                Self::Unsupported { problem }
            }
            Engine::Server(problem) => Self::Server { name, problem },
            Engine::WrongKind(problem) => Self::WrongKind { name: about(), problem },
            Engine::Protocol(problem) => Self::Protocol { name, problem },
            other => Self::Protocol { name, problem: other.to_string() },
        }
    }

    /// A failure while connecting or while asking the server what it is.
    pub(crate) fn from_connecting(error: RedisError, server: Option<&str>, waited: Duration) -> Self {
        match error.kind() {
            ErrorKind::AuthenticationFailed => Self::Auth { name: None, problem: error.to_string() },
            ErrorKind::InvalidClientConfig => Self::invalid_address("url", &error),
            ErrorKind::MasterNameNotFoundBySentinel => {
                Self::InvalidOption { field: "service", problem: format!("is not known: {error}") }
            }
            ErrorKind::Server(_) | ErrorKind::Extension => {
                let failure = Failure::Refused(wire::error_text(&error));
                Self::from_engine(leasehold_core::Error::of_connecting(failure, waited), None, server)
            }
            _ => {
                let (server, source) = (server.map(str::to_owned), Some(error.into()));
                Self::Unreachable { name: None, server, waited, source, votes: Votes::default() }
            }
        }
    }

    /// The same of one of a quorum's servers, for its vote.
    pub(crate) fn connecting(error: &RedisError, waited: Duration) -> leasehold_core::Error {
        let failure = match error.kind() {
            ErrorKind::AuthenticationFailed => return leasehold_core::Error::Auth(error.to_string()),
            ErrorKind::Server(_) | ErrorKind::Extension => Failure::Refused(wire::error_text(error)),
            _ => wire::connect_failure(error),
        };
        leasehold_core::Error::of_connecting(failure, waited)
    }

    pub(crate) fn invalid(field: &'static str, problem: &str) -> Self {
        Self::InvalidOption { field, problem: problem.to_owned() }
    }

    /// An address that the user gave as `field` is none.
    pub(crate) fn invalid_address(field: &'static str, error: &RedisError) -> Self {
        let tls = if error.to_string().contains("TLS") { " (TLS takes the feature `tls-rustls`)" } else { "" };
        Self::InvalidOption { field, problem: format!("can't be used, e.g. redis://127.0.0.1/ can: {error}{tls}") }
    }
}

/// The engine's account of a failed attempt, as an error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Attempt(Failure);

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn an_error_tells_what_a_log_line_needs() {
        let busy = leasehold_core::Error::Busy {
            waited: Duration::from_millis(250),
            holder_remaining: Some(Duration::from_secs(7)),
            votes: Votes::default(),
        };
        let error = Error::from_engine(busy, Some("invoice:42"), None);
        assert_eq!((error.code(), error.name()), ("busy", Some("invoice:42")));
        assert_eq!(error.waited(), Some(Duration::from_millis(250)));
        assert_eq!(error.holder_remaining(), Some(Duration::from_secs(7)));
        assert!(error.is_retryable());
        let text = error.to_string();
        assert!(text.contains("invoice:42") && text.contains("250 ms") && text.contains("7000 ms"), "{text}");
    }

    #[test]
    fn an_unreachable_server_keeps_the_cause() {
        let cause = Some(Failure::Interrupted("broken pipe".into()));
        let engine = leasehold_core::Error::Unreachable { waited: Duration::ZERO, cause, votes: Votes::default() };
        let error = Error::from_engine(engine, None, Some("127.0.0.1:6379"));
        assert_eq!(error.to_string(), "the server at 127.0.0.1:6379 did not answer within 0 ms");
        assert!(error.source().expect("a source").to_string().contains("broken pipe"));
        let refused = RedisError::from(std::io::Error::from(std::io::ErrorKind::ConnectionRefused));
        let error = Error::from_connecting(refused, None, Duration::from_secs(1));
        assert_eq!(error.code(), "unreachable");
        assert!(error.source().expect("a source").is::<RedisError>());
    }
}
