//! Errors, the failures that cause them, the reasons for a loss, and the votes of a quorum.
//!
//! The tables here are the only place of the codes and of the English of messages. All surfaces read them.

#[cfg(feature = "quorum")]
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;

use crate::time::api::Duration;
use crate::time::{self, millis};

table_of! {
/// Why an operation failed. Every variant has a stable [`code`](Error::code).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
Error,
/// The stable error codes. They are the same in every language binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
ErrorCode {
    /// An option or a name can't be used. Nothing was sent.
    InvalidOption {
        /// The name of the option.
        field: &'static str,
        /// What is wrong with it, and what to do instead.
        problem: String,
    } => "invalid-option", "`{field}` {problem}";
    /// The lease is no longer held: it was released or lost before this call.
    NotHeld => "not-held", "the lease is no longer held; acquire it again";
    /// The call is not possible while there are other holders, for example an upgrade while another reader holds the lock.
    /// Also an adoption with another mode or number of permits than the lease has.
    Conflict(&'static str) => "conflict", "{problem}";
    /// This host or this lock can't do it.
    Unsupported(String) => "unsupported", "not supported: {problem}";
    /// One script was asked for, but the names are in several slots of a cluster.
    CrossSlot => "cross-slot", "the names are in different cluster slots; give all of them one hash tag, like `{tag}`";
    /// The client was closed.
    Closed => "closed", "the lock manager is closed";
    /// Another client held the lock for the whole wait, or the call doesn't wait.
    Busy {
        /// Which of several names was not free: the first one. None if the call was about one name.
        busy_name: Option<String>,
        /// How long the caller waited.
        waited: Duration,
        /// How long the holder's lease will last unless it is renewed, if known. For a rate, how long until permits come back.
        holder_remaining: Option<Duration>,
        /// Whether the call was for permits of a rate. Nobody holds these: they count for a window.
        is_rate: bool,
        /// How many callers waited already, if the call was refused because of `max_waiters`. None if it was not.
        waiters: Option<u32>,
        /// What each server of a quorum answered. Empty without a quorum.
        votes: Votes,
    } => "busy", "busy{reason}{name}{votes}{holder}";
    /// The caller cancelled its wait.
    Cancelled => "cancelled", "the wait was cancelled";
    /// The lease was lost during the operation.
    Lost(LossReason) => "lost", "the lease was lost: {reason}";
    /// No server answered in time. It is not known whether the lock is busy, nor whether a command was applied.
    Unreachable {
        /// How long the caller waited.
        waited: Duration,
        /// Why the last attempt failed.
        cause: Option<Failure>,
        /// What each server of a quorum answered. Empty without a quorum.
        votes: Votes,
    } => "unreachable", "{problem}";
    /// Fewer replicas than asked for have confirmed the lease in time. It was released.
    NotReplicated {
        /// How many replicas have confirmed it.
        confirmed: u32,
        /// How many the caller asked for.
        wanted: u32,
        /// How long the caller waited for them.
        waited: Duration,
    } => "not-replicated", "{confirmed} of {wanted} replicas confirmed the lease within {waited}; it was released";
    /// The server refused the login or a right (`NOAUTH`, `WRONGPASS`, `NOPERM`).
    Auth(String) => "auth", "the server refused the user, the password or a command: {problem}";
    /// The server answered with an error that a retry does not fix.
    Server(String) => "server", "the server answered with an error: {problem}";
    /// The client did not understand the server's answer.
    Protocol(String) => "protocol", "unexpected answer from the server: {problem}";
    /// The name holds another kind of lock, or other data. Nothing was changed.
    WrongKind(String) => "wrong-kind",
        "the key holds another kind of lock or other data; use another name or a prefix: {problem}";
}
}

impl ErrorCode {
    /// Whether the same call may succeed later without any change by the caller.
    pub const fn is_retryable(self) -> bool {
        matches!(self, Self::Busy | Self::Lost | Self::Unreachable | Self::NotReplicated)
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

    /// What is wrong in this case: the error's text, or the name that is busy. Empty if the error has neither.
    pub fn problem(&self) -> &str {
        match self {
            Self::InvalidOption { problem, .. }
            | Self::Unsupported(problem)
            | Self::Auth(problem)
            | Self::Server(problem)
            | Self::Protocol(problem)
            | Self::WrongKind(problem) => problem,
            Self::Conflict(problem) => problem,
            Self::Busy { busy_name, .. } => busy_name.as_deref().unwrap_or_default(),
            Self::NotHeld
            | Self::CrossSlot
            | Self::Closed
            | Self::Cancelled
            | Self::Lost(_)
            | Self::Unreachable { .. }
            | Self::NotReplicated { .. } => "",
        }
    }

    #[inline(never)]
    pub(crate) fn invalid(field: &'static str, problem: &str) -> Self {
        Self::InvalidOption { field, problem: problem.into() }
    }

    #[inline(never)]
    pub(crate) fn unsupported(problem: &str) -> Self {
        Self::Unsupported(problem.into())
    }

    /// [`Error::Busy`] without votes.
    pub(crate) fn busy(waited: time::Duration, holder_remaining: Option<time::Duration>) -> Self {
        Self::busy_with(Votes::default(), waited, holder_remaining.map(Duration::from))
    }

    /// [`Error::Busy`] with these votes.
    pub(crate) fn busy_with(votes: Votes, waited: time::Duration, holder_remaining: Option<Duration>) -> Self {
        let waited = waited.into();
        Self::Busy { busy_name: None, waited, holder_remaining, is_rate: false, waiters: None, votes }
    }

    /// [`Error::Unreachable`] without votes.
    pub(crate) fn unreachable(waited: time::Duration, cause: Option<Failure>) -> Self {
        Self::Unreachable { waited: waited.into(), cause, votes: Votes::default() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_message(self.kind().message(), f, |f, field| match (self, field) {
            (Self::InvalidOption { field, .. }, "field") => f.write_str(field),
            (Self::NotReplicated { waited, .. }, "waited") => f.write_str(&shown_time(*waited)),
            (Self::Busy { waited, waiters, .. }, "reason") => f.write_str(&busy_reason(*waited, *waiters)),
            (Self::Busy { busy_name, .. }, "name") => f.write_str(&because_of(busy_name.as_deref())),
            (Self::Busy { votes, .. }, "votes") if votes.is_empty() => Ok(()),
            (Self::Busy { votes, .. }, "votes") => write!(f, ": {votes}"),
            (Self::Busy { holder_remaining, is_rate, .. }, "holder") => {
                f.write_str(&busy_until(*holder_remaining, if *is_rate { Ends::Window } else { Ends::Holder }))
            }
            (Self::Lost(reason), "reason") => reason.fmt(f),
            (Self::Unreachable { waited, cause, votes }, "problem") => {
                let waited = shown_time(*waited);
                match cause {
                    _ if !votes.is_empty() => write!(f, "no majority of the servers answered within {waited}: {votes}"),
                    None | Some(Failure::TimedOut) => write!(f, "no answer from the server within {waited}"),
                    Some(cause) => write!(f, "the server was not available within {waited}: {cause}"),
                }
            }
            (_, "problem") => f.write_str(self.problem()),
            (Self::NotReplicated { confirmed, .. }, "confirmed") => confirmed.fmt(f),
            (Self::NotReplicated { wanted, .. }, "wanted") => wanted.fmt(f),
            (_, text) => write!(f, "{{{text}}}"),
        })
    }
}

impl core::error::Error for Error {}

/// Writes a message of a table. `write` writes each `{field}`. For drivers.
///
/// # Errors
/// Those of the formatter.
pub fn write_message(
    message: &str,
    f: &mut fmt::Formatter<'_>,
    write: impl Fn(&mut fmt::Formatter<'_>, &str) -> fmt::Result,
) -> fmt::Result {
    let mut rest = message;
    while let Some((text, (field, after))) =
        rest.split_once('{').and_then(|(text, rest)| Some((text, rest.split_once('}')?)))
    {
        f.write_str(text)?;
        write(f, field)?;
        rest = after;
    }
    f.write_str(rest)
}

/// Why a caller got nothing, as it follows the word `busy`: ` after 5 s`. For drivers.
pub fn busy_reason(waited: Duration, waiters: Option<u32>) -> String {
    match waiters {
        Some(waiters) => format!(": the limit of waiting callers is reached ({waiters})"),
        None => format!(" after {}", shown_time(waited)),
    }
}

/// What ends when a name may no longer be busy. For drivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// The lease of a holder that the message doesn't name.
    Holder,
    /// The lease of the holder that the message names.
    Its,
    /// The window of a rate.
    Window,
}

impl Ends {
    /// How a message says so, before the time.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Holder => "; the holder's lease expires in ",
            Self::Its => "; its lease expires in ",
            Self::Window => "; permits come back in ",
        }
    }
}

/// When a name may no longer be busy, as the message of a `busy` error ends: `; the holder's lease expires in 21 s`. Empty if that is
/// not known. For drivers.
pub fn busy_until(remaining: Option<Duration>, ends: Ends) -> String {
    remaining.map_or_else(String::new, |left| [ends.text(), &shown_time(left)].concat())
}

/// Which of several names made a `busy` error, as its message says it. Empty for one name.
pub fn because_of(busy_name: Option<&str>) -> String {
    busy_name.map_or_else(String::new, |name| format!(", because of `{name}`"))
}

/// A time as error messages show it: `250 ms`, `1.5 s`, `21 s`.
pub fn shown_time(time: Duration) -> String {
    let ms = millis(time);
    if ms < 1_000 {
        return format!("{ms} ms");
    }
    let tenths = ms.saturating_add(50) / 100;
    match (tenths / 10, tenths % 10) {
        (seconds, tenths) if seconds < 10 && tenths > 0 => format!("{seconds}.{tenths} s"),
        _ => format!("{} s", ms.saturating_add(500) / 1_000),
    }
}

table_of! {
/// Why a command got no reply. Each variant also says whether the server may have run the command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
Failure,
/// Why a command got no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
FailureKind {
    /// The server answered with this error, beginning with its code. Not applied.
    Refused(String) => "refused", "refused by the server: {text}";
    /// The command certainly did not run: there was no connection, or it was refused before the script ran.
    Unavailable(String) => "unavailable", "not available: {text}";
    /// The connection broke after the command may have been sent. Maybe applied.
    Interrupted(String) => "interrupted", "the connection broke: {text}";
    /// There was no answer in time. Maybe applied, perhaps later.
    TimedOut => "timed-out", "no answer in time";
    /// This host doesn't support it, for example subscriptions.
    Unsupported(String) => "unsupported", "not supported: {text}";
    /// The owner closed the connection for good. Not applied.
    Closed(String) => "closed", "the connection is closed: {text}";
}
}

impl Failure {
    /// Whether the server may have applied the command, or may still apply it.
    pub const fn maybe_applied(&self) -> bool {
        matches!(self, Self::Interrupted(_) | Self::TimedOut)
    }

    /// What the server, the connection or the host said. Empty for a timeout.
    pub fn text(&self) -> &str {
        match self {
            Self::Refused(text)
            | Self::Unavailable(text)
            | Self::Interrupted(text)
            | Self::Unsupported(text)
            | Self::Closed(text) => text,
            Self::TimedOut => "",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_message(self.kind().message(), f, |f, _| f.write_str(self.text()))
    }
}

table! {
/// Why a lease ended before its holder released it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
LossReason {
    /// No renewal succeeded in time, or a fixed lease reached its end.
    Expired => "expired", "it expired without a renewal";
    /// The key vanished on the server: flushed, evicted, deleted, or the server restarted empty.
    Gone => "gone", "its key vanished from the server";
    /// Another client holds the lock.
    Taken => "taken", "another client holds the lock";
    /// An operator took the lock by force, a Web Locks request stole it, or another process adopted the lease.
    Revoked => "revoked", "an operator took the lock by force, or another process adopted the lease";
    /// The renewed lease reached its `max_hold`.
    MaxHold => "max-hold", "it reached its max_hold";
    // The driver reports this loss before it closes the engine, which then releases the leases. The engine never does.
    /// The manager was closed.
    Closed => "closed", "its manager was closed";
}
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
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
        if self.len().saturating_sub(self.errors().count()) >= needed {
            return Ok(());
        }
        if let Some(error) = self.refusals().next().filter(|_| self.refusals().count() >= needed) {
            return Err(error.clone());
        }
        let cause = self.errors().find_map(|error| match error {
            Error::Unreachable { cause, .. } => cause.clone(),
            _ => None,
        });
        Err(Error::Unreachable { waited, cause, votes: self })
    }

    /// Why servers did not grant it.
    pub(crate) fn errors(&self) -> impl Iterator<Item = &Error> {
        self.iter().filter_map(|vote| vote.answer.as_ref()?.as_ref().err())
    }

    fn refusals(&self) -> impl Iterator<Item = &Error> {
        self.errors().filter(|error| !error.is_retryable())
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
