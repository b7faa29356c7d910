//! The error type of this crate.

use std::fmt;
use std::time::Duration;

use leasehold_core::{
    BusyHolder, Ends, ErrorCode, Failure, LossReason, NO_RIGHT, SLOTS_OPTION, Votes, because_of, busy_reason,
    busy_until, shown_time as shown, write_message,
};
use redis::{ErrorKind, RedisError};

use super::failure::{cause_of, connect_failure, error_text, shortened};

/// The cause of an error, such as the system's refusal of a connection. Its type is no part of this API and may change.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why an operation failed. Every variant has a stable [`code`](Error::code).
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
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// An option, a name or a URL can't be used. Nothing was sent.
    #[non_exhaustive]
    InvalidOption {
        /// The name of the option.
        field: &'static str,
        /// What is wrong with it, and what to do instead.
        problem: String,
    },
    /// The lease is no longer held: it was released or lost before this call.
    #[non_exhaustive]
    NotHeld {
        /// The lock.
        name: String,
    },
    /// The call is not possible while there are other holders, for example an upgrade while another reader holds the lock.
    /// Also an adoption with another mode or number of permits than the lease has.
    #[non_exhaustive]
    Conflict {
        /// The lock.
        name: String,
        /// What prevents it.
        problem: &'static str,
    },
    /// This server, this connection or this lock can't do it.
    #[non_exhaustive]
    Unsupported {
        /// The lock, if the error is about one.
        name: Option<String>,
        /// What is not possible, and what it needs.
        problem: String,
    },
    /// One script was asked for, but the names are in several slots of a cluster.
    #[non_exhaustive]
    CrossSlot {
        /// The locks.
        name: String,
    },
    /// The manager was closed, or its runtime has ended.
    Closed,
    /// Another client held the lock for the whole wait, or the call doesn't wait.
    #[non_exhaustive]
    Busy {
        /// The lock.
        name: String,
        /// Which of several names was not free: the first one. None if the call was about one name.
        busy_name: Option<String>,
        /// How long the caller waited.
        waited: Duration,
        /// How long the holder's lease will last unless it is renewed, if known. For a rate, how long until permits come back.
        holder_remaining: Option<Duration>,
        /// Whether the call was for permits of a rate. Nobody holds these: they count for a window.
        is_rate: bool,
        /// How many callers waited already, if the call was refused because of [`max_waiters`](crate::Lock::max_waiters). None if
        /// it was not.
        waiters: Option<u32>,
        /// Who holds the lock, if one client does and it is known.
        holder: Option<Box<BusyHolder>>,
        /// What each server of a quorum answered. Empty without a quorum.
        votes: Votes,
    },
    /// The wait was cancelled.
    #[non_exhaustive]
    Cancelled {
        /// The lock.
        name: String,
    },
    /// The lease was lost during the operation or the work.
    #[non_exhaustive]
    Lost {
        /// The lock.
        name: String,
        /// How it was lost.
        reason: LossReason,
    },
    /// No server answered in time. It is not known whether the lock is busy, nor whether a command was applied.
    #[non_exhaustive]
    Unreachable {
        /// The lock, if the error is about one.
        name: Option<String>,
        /// The server's URL without credentials, such as `redis://10.0.0.1:6379`. None if you provided the connection.
        server: Option<String>,
        /// How long the caller waited.
        waited: Duration,
        /// The cause of the last failed attempt. The error's message includes it, so
        /// [`source`](std::error::Error::source) doesn't return it: reports that print the whole chain have it once.
        cause: Option<Cause>,
        /// What each server of a quorum answered. Empty without a quorum.
        votes: Votes,
    },
    /// Too few replicas confirmed the lease in time: see [`Lock::wait_for_replicas`](crate::Lock::wait_for_replicas).
    /// The lease was released.
    #[non_exhaustive]
    NotReplicated {
        /// The lock.
        name: String,
        /// How many replicas confirmed it.
        confirmed: u32,
        /// How many were required.
        wanted: u32,
        /// How long the call waited for them.
        waited: Duration,
    },
    /// The server refused the login or a right (`NOAUTH`, `WRONGPASS`, `NOPERM`).
    #[non_exhaustive]
    Auth {
        /// The lock, if the error is about one.
        name: Option<String>,
        /// The server's message, shortened.
        problem: String,
    },
    /// The server answered with an error that a retry does not fix.
    #[non_exhaustive]
    Server {
        /// The lock, if the error is about one.
        name: Option<String>,
        /// The server's message, shortened.
        problem: String,
    },
    /// The client did not understand the server's answer.
    #[non_exhaustive]
    Protocol {
        /// The lock, if the error is about one.
        name: Option<String>,
        /// The answer, shortened.
        problem: String,
    },
    /// The name holds another kind of lock, or other data. Nothing was changed.
    #[non_exhaustive]
    WrongKind {
        /// The lock.
        name: String,
        /// What the server said.
        problem: String,
    },
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    /// The engine's message, behind the lock's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind();
        if let Some(name) = self.name() {
            let locks = if kind == ErrorCode::CrossSlot { "locks" } else { "lock" };
            write!(f, "{locks} `{name}`: ")?;
        }
        write_message(kind.message(), f, |f, field| match (self, field) {
            (Self::InvalidOption { field, .. }, "field") => f.write_str(field),
            (Self::Conflict { problem, .. }, "problem") => f.write_str(problem),
            (
                Self::InvalidOption { problem, .. }
                | Self::Unsupported { problem, .. }
                | Self::Auth { problem, .. }
                | Self::Server { problem, .. }
                | Self::Protocol { problem, .. }
                | Self::WrongKind { problem, .. },
                "problem",
            ) => f.write_str(problem),
            (Self::NotReplicated { waited, .. }, "waited") => f.write_str(&shown(*waited)),
            (Self::Busy { waited, waiters, .. }, "reason") => f.write_str(&busy_reason(*waited, *waiters)),
            (Self::Busy { busy_name, .. }, "name") => f.write_str(&because_of(busy_name.as_deref())),
            (Self::Busy { votes, .. }, "votes") => f.write_str(&votes_text(votes)),
            (Self::Busy { holder, holder_remaining, is_rate, .. }, "holder") => {
                let ends = match (is_rate, holder) {
                    (true, _) => Ends::Window,
                    (false, None) => Ends::Holder,
                    (false, Some(holder)) => {
                        write!(f, "; {holder}")?;
                        Ends::Its
                    }
                };
                f.write_str(&busy_until(*holder_remaining, ends))
            }
            (Self::Lost { reason, .. }, "reason") => reason.fmt(f),
            (Self::Unreachable { .. }, "problem") => f.write_str(&unreachable_text(self)),
            (Self::NotReplicated { confirmed, .. }, "confirmed") => confirmed.fmt(f),
            (Self::NotReplicated { wanted, .. }, "wanted") => wanted.fmt(f),
            (_, text) => write!(f, "{{{text}}}"),
        })
    }
}

fn votes_text(votes: &Votes) -> String {
    if votes.is_empty() { String::new() } else { format!(": {votes}") }
}

const NO_CLUSTER: &str = "the server is not a cluster; connect with `LockManager::connect` to a single server";
const NO_SENTINEL: &str =
    "the server is not a sentinel; give the addresses of sentinels, or connect with `LockManager::connect`";

/// Which server did not answer, and why. Without a lock's name, the error is about connecting.
fn unreachable_text(error: &Error) -> String {
    let Error::Unreachable { name, server, waited, cause, votes } = error else { return String::new() };
    if !votes.is_empty() {
        return format!("no majority of the servers answered within {}: {votes}", shown(*waited));
    }
    let cause = cause.as_ref().and_then(cause_text);
    if name.is_none() {
        let server = server.as_deref().unwrap_or("the server");
        let cause = cause.unwrap_or_else(|| format!("no answer within {}", shown(*waited)));
        return format!("can't connect to {server}: {cause}");
    }
    let server = server.as_deref().unwrap_or("the server");
    match cause {
        Some(cause) => format!("{server} was not available within {}: {cause}", shown(*waited)),
        None => format!("no answer from {server} within {}", shown(*waited)),
    }
}

/// The cause as text. None for a plain timeout, which the rest of the message already says.
fn cause_text(cause: &Cause) -> Option<String> {
    if let Some(error) = cause.downcast_ref::<RedisError>() {
        return (!error.is_timeout()).then(|| cause_of(error));
    }
    match cause.downcast_ref::<Attempt>() {
        Some(Attempt(Failure::TimedOut)) => None,
        Some(Attempt(Failure::Interrupted(text))) => Some(format!("connection lost: {text}")),
        Some(Attempt(failure)) => Some(failure.text().to_owned()),
        None => Some(shortened(cause)),
    }
}

impl Error {
    /// The stable code. It is the same in every language binding.
    pub const fn code(&self) -> &'static str {
        self.kind().code()
    }

    /// Whether the same call may succeed later without any change by the caller.
    pub const fn is_retryable(&self) -> bool {
        self.kind().is_retryable()
    }

    /// The same as a value that can be compared, and kept with the feature `serde`.
    pub const fn kind(&self) -> ErrorCode {
        match self {
            Self::InvalidOption { .. } => ErrorCode::InvalidOption,
            Self::NotHeld { .. } => ErrorCode::NotHeld,
            Self::Conflict { .. } => ErrorCode::Conflict,
            Self::Unsupported { .. } => ErrorCode::Unsupported,
            Self::CrossSlot { .. } => ErrorCode::CrossSlot,
            Self::Closed => ErrorCode::Closed,
            Self::Busy { .. } => ErrorCode::Busy,
            Self::Cancelled { .. } => ErrorCode::Cancelled,
            Self::Lost { .. } => ErrorCode::Lost,
            Self::Unreachable { .. } => ErrorCode::Unreachable,
            Self::NotReplicated { .. } => ErrorCode::NotReplicated,
            Self::Auth { .. } => ErrorCode::Auth,
            Self::Server { .. } => ErrorCode::Server,
            Self::Protocol { .. } => ErrorCode::Protocol,
            Self::WrongKind { .. } => ErrorCode::WrongKind,
        }
    }

    /// The lock's name without the manager's prefix, if the error is about one lock.
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
            Self::Unsupported { name, .. }
            | Self::Unreachable { name, .. }
            | Self::Auth { name, .. }
            | Self::Server { name, .. }
            | Self::Protocol { name, .. } => name.as_deref(),
            Self::InvalidOption { .. } | Self::Closed => None,
        }
    }

    /// How long the caller waited. Only `busy`, `unreachable` and `not-replicated` have it.
    pub const fn waited(&self) -> Option<Duration> {
        match self {
            Self::Busy { waited, .. } | Self::Unreachable { waited, .. } | Self::NotReplicated { waited, .. } => {
                Some(*waited)
            }
            _ => None,
        }
    }

    /// Which of several names was not free, in a `busy` error: the first one. None if the call was about one name.
    pub fn busy_name(&self) -> Option<&str> {
        match self {
            Self::Busy { busy_name, .. } => busy_name.as_deref(),
            _ => None,
        }
    }

    /// How long the holder's lease will last unless it is renewed, if known.
    pub const fn holder_remaining(&self) -> Option<Duration> {
        match self {
            Self::Busy { holder_remaining, .. } => *holder_remaining,
            _ => None,
        }
    }

    /// How many callers waited already, if the call was refused because of [`max_waiters`](crate::Lock::max_waiters).
    pub const fn waiters(&self) -> Option<u32> {
        match self {
            Self::Busy { waiters, .. } => *waiters,
            _ => None,
        }
    }

    /// Who holds the lock, if one client holds it alone and it is known.
    pub fn holder(&self) -> Option<&BusyHolder> {
        match self {
            Self::Busy { holder, .. } => holder.as_deref(),
            _ => None,
        }
    }

    /// Converts the engine's error. `name` is the lock, `server` the server's URL, if known.
    #[deny(clippy::wildcard_enum_match_arm)] // The last arm is only for a newer engine's errors.
    pub(crate) fn from_engine(error: leasehold_core::Error, name: Option<&str>, server: Option<&str>) -> Self {
        use leasehold_core::Error as Engine;
        let lock = || name.unwrap_or_default().to_owned();
        let name = name.map(str::to_owned);
        match error {
            Engine::InvalidOption { field, problem } => Self::InvalidOption { field, problem },
            Engine::NotHeld => Self::NotHeld { name: lock() },
            Engine::Conflict(problem) => Self::Conflict { name: lock(), problem },
            Engine::Unsupported(problem) => Self::Unsupported { name, problem },
            Engine::CrossSlot => Self::CrossSlot { name: lock() },
            Engine::Closed => Self::Closed,
            Engine::Busy { busy_name, waited, holder_remaining, is_rate, waiters, votes } => {
                Self::Busy { name: lock(), busy_name, waited, holder_remaining, is_rate, waiters, holder: None, votes }
            }
            Engine::Cancelled => Self::Cancelled { name: lock() },
            Engine::Lost(reason) => Self::Lost { name: lock(), reason },
            Engine::Unreachable { waited, cause, votes } => {
                let (server, cause) = (server.map(str::to_owned), cause.map(|cause| Attempt(cause).into()));
                Self::Unreachable { name, server, waited, cause, votes }
            }
            Engine::NotReplicated { confirmed, wanted, waited } => {
                Self::NotReplicated { name: lock(), confirmed, wanted, waited }
            }
            Engine::Auth(problem) => Self::Auth { name, problem },
            Engine::Server(problem) if problem.starts_with("MOVED ") => {
                let problem =
                    format!("the server belongs to a cluster; connect with `LockManager::cluster`: {problem}");
                Self::Unsupported { name, problem }
            }
            // A name and the server's one counter of fences are seldom in the same slot.
            Engine::Server(problem) if leasehold_core::is_cross_slot(&problem) => {
                let problem = format!(
                    "the server enforces the slots of a cluster, and did not show that when the manager connected; connect \
                     again, or with `LockManager::cluster`: {problem}"
                );
                Self::Unsupported { name, problem }
            }
            Engine::Server(problem) if problem.contains("cluster support disabled") => {
                let problem = format!("{NO_CLUSTER}: {problem}");
                Self::Unsupported { name, problem }
            }
            // Only sentinels have this command.
            Engine::Server(problem) if problem.contains("unknown command") && problem.contains("SENTINEL") => {
                let problem = format!("{NO_SENTINEL}: {problem}");
                Self::Unsupported { name, problem }
            }
            Engine::Server(problem) => Self::Server { name, problem },
            Engine::WrongKind(problem) => Self::WrongKind { name: lock(), problem },
            Engine::Protocol(problem) => Self::Protocol { name, problem },
            other => Self::Protocol { name, problem: other.to_string() },
        }
    }

    /// Converts an error from connecting, or from asking the server for its version and role.
    pub(crate) fn from_connecting(error: RedisError, server: Option<&str>, waited: Duration) -> Self {
        match error.kind() {
            ErrorKind::AuthenticationFailed => Self::Auth { name: None, problem: cause_of(&error) },
            ErrorKind::InvalidClientConfig => Self::invalid_address("url", &error),
            ErrorKind::MasterNameNotFoundBySentinel => {
                Self::InvalidOption { field: "service", problem: format!("is unknown: {}", cause_of(&error)) }
            }
            ErrorKind::Server(_) | ErrorKind::Extension => {
                let failure = Failure::Refused(error_text(&error));
                Self::from_engine(leasehold_core::Error::of_connecting(failure, waited), None, server)
            }
            _ => {
                let (server, cause) = (server.map(str::to_owned), Some(error.into()));
                Self::Unreachable { name: None, server, waited, cause, votes: Votes::default() }
            }
        }
    }

    /// The same error as the vote of one server of a quorum.
    pub(crate) fn connect_vote(error: &RedisError, waited: Duration) -> leasehold_core::Error {
        let failure = match error.kind() {
            ErrorKind::AuthenticationFailed => return leasehold_core::Error::Auth(cause_of(error)),
            ErrorKind::Server(_) | ErrorKind::Extension => Failure::Refused(error_text(error)),
            _ => connect_failure(error),
        };
        leasehold_core::Error::of_connecting(failure, waited)
    }

    pub(crate) fn invalid(field: &'static str, problem: &str) -> Self {
        Self::InvalidOption { field, problem: problem.to_owned() }
    }

    #[cfg(feature = "tls-rustls")]
    pub(crate) fn unusable_pem(field: &'static str, error: &RedisError) -> Self {
        Self::InvalidOption { field, problem: format!("can't be used: {}; give PEM", cause_of(error)) }
    }

    /// The error for an unusable address in the option `field`.
    pub(crate) fn invalid_address(field: &'static str, error: &RedisError) -> Self {
        let (cause, feature) = (cause_of(error), "turn on the feature `tls-rustls` for TLS");
        let remedy = if cause.contains("TLS") { feature } else { "write it like redis://127.0.0.1/" };
        Self::InvalidOption { field, problem: format!("is not a usable address: {cause}; {remedy}") }
    }
}

/// The error of a check that was made after connecting, as the failure of a command that waited for it. The engine ends the call with the
/// same error.
pub(crate) fn later_failure(error: Error) -> Failure {
    match error {
        // The only option that a server must agree with.
        Error::InvalidOption { problem, .. } => Failure::Unsupported(format!("{SLOTS_OPTION}{problem}")),
        Error::Unsupported { problem, .. } => Failure::Unsupported(problem),
        Error::Auth { problem, .. } if NO_RIGHT.iter().any(|words| problem.contains(words)) => {
            Failure::Refused(problem)
        }
        Error::Auth { problem, .. } => Failure::Refused(format!("WRONGPASS {problem}")),
        Error::Server { problem, .. } => Failure::Refused(problem),
        Error::Unreachable { cause, .. } => {
            let cause = cause.as_ref().and_then(cause_text);
            Failure::Unavailable(cause.unwrap_or_else(|| "connecting timed out".to_owned()))
        }
        other => Failure::Unavailable(other.to_string()),
    }
}

/// The engine's report on a failed attempt, as an error.
#[derive(Debug)]
struct Attempt(Failure);

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Attempt {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_tells_what_a_log_line_needs() {
        let busy = leasehold_core::Error::Busy {
            busy_name: None,
            waited: Duration::from_millis(250),
            holder_remaining: Some(Duration::from_secs(7)),
            is_rate: false,
            waiters: None,
            votes: Votes::default(),
        };
        let error = Error::from_engine(busy, Some("invoice:42"), None);
        assert_eq!((error.code(), error.name()), ("busy", Some("invoice:42")));
        assert_eq!(error.waited(), Some(Duration::from_millis(250)));
        assert_eq!(error.holder_remaining(), Some(Duration::from_secs(7)));
        assert!(error.is_retryable());
        assert_eq!(error.to_string(), "lock `invoice:42`: busy after 250 ms; the holder's lease expires in 7 s");
    }

    #[test]
    fn a_time_is_shown_as_people_say_it() {
        for (ms, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1 s"),
            (1_049, "1 s"),
            (1_500, "1.5 s"),
            (9_960, "10 s"),
            (21_400, "21 s"),
            (3_600_000, "3600 s"),
        ] {
            assert_eq!(shown(Duration::from_millis(ms)), text);
        }
    }

    #[test]
    fn a_server_of_another_topology_says_how_to_connect() {
        for (answer, remedy) in [
            ("ERR This instance has cluster support disabled", "`LockManager::connect` to a single server"),
            ("ERR unknown command 'SENTINEL', with args beginning with: 'MASTER' 'main' ", "addresses of sentinels"),
            ("MOVED 866 127.0.0.1:7001", "`LockManager::cluster`"),
            ("ERR 'EVAL' command keys must in same slot", "`LockManager::cluster`"),
        ] {
            let failure = Failure::Refused(answer.into());
            let engine = leasehold_core::Error::of_connecting(failure, Duration::ZERO);
            let error = Error::from_engine(engine, None, None);
            let text = error.to_string();
            assert!(error.code() == "unsupported" && text.contains(remedy) && text.contains(answer), "{text}");
        }
    }

    #[test]
    fn an_unreachable_server_keeps_the_cause_and_a_report_of_the_chain_has_it_once() {
        let chain = |error: &dyn std::error::Error| {
            let sources = std::iter::successors(error.source(), |source| source.source());
            sources.fold(error.to_string(), |text, source| format!("{text}: {source}"))
        };
        let cause = Some(Failure::Interrupted("broken pipe".into()));
        let engine = leasehold_core::Error::Unreachable { waited: Duration::ZERO, cause, votes: Votes::default() };
        let error = Error::from_engine(engine, None, Some("redis://127.0.0.1:6379"));
        assert_eq!(chain(&error), "can't connect to redis://127.0.0.1:6379: connection lost: broken pipe");
        let refused = RedisError::from(std::io::Error::from(std::io::ErrorKind::ConnectionRefused));
        let error = Error::from_connecting(refused, None, Duration::from_secs(1));
        assert_eq!(error.kind(), ErrorCode::Unreachable);
        assert_eq!(chain(&error), "can't connect to the server: connection refused");
        let Error::Unreachable { cause: Some(cause), .. } = error else { panic!("no cause") };
        assert!(cause.is::<RedisError>());
    }

    #[test]
    fn a_lock_without_a_server_names_the_lock_the_server_the_time_and_the_cause() {
        let unreachable = |cause| {
            let waited = Duration::from_secs(5);
            let engine = leasehold_core::Error::Unreachable { waited, cause, votes: Votes::default() };
            Error::from_engine(engine, Some("invoice:42"), Some("redis://10.0.0.1:6379")).to_string()
        };
        let silence = "lock `invoice:42`: no answer from redis://10.0.0.1:6379 within 5 s";
        assert_eq!(unreachable(Some(Failure::TimedOut)), silence);
        assert_eq!(unreachable(None), silence);
        let cause = Some(Failure::Unavailable("connection refused".into()));
        let refusal = "lock `invoice:42`: redis://10.0.0.1:6379 was not available within 5 s: connection refused";
        assert_eq!(unreachable(cause), refusal);
    }
}
