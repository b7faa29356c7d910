//! What an error of the `redis` crate means for the engine, and its text for messages.

use std::fmt::{self, Display, Write};
use std::sync::Arc;
use std::{error, io};

use leasehold_core::Failure;
use redis::{ErrorKind, RedisError, ServerError};

/// How many bytes of a server's text an error keeps. Every redirect is shorter.
pub(crate) const LONGEST_TEXT: usize = 300;

/// Why a command has no reply. In doubt, the failure is one after which the command may have been applied.
pub(crate) fn command_failure(error: &RedisError) -> Failure {
    match error.kind() {
        ErrorKind::Server(_) | ErrorKind::Extension => Failure::Refused(error_text(error)),
        ErrorKind::AuthenticationFailed => Failure::Refused(format!("WRONGPASS {}", cause_of(error))),
        ErrorKind::Client
        | ErrorKind::InvalidClientConfig
        | ErrorKind::ClusterConnectionNotFound
        | ErrorKind::EmptySentinelList
        | ErrorKind::MasterNameNotFoundBySentinel
        | ErrorKind::NoValidReplicasFoundBySentinel => Failure::Unavailable(cause_of(error)),
        _ if error.is_timeout() => Failure::TimedOut,
        _ if error.is_connection_refusal() => Failure::Unavailable(cause_of(error)),
        _ => Failure::Interrupted(cause_of(error)),
    }
}

/// Why an attempt to connect failed. Nothing was sent.
pub(crate) fn connect_failure(error: &RedisError) -> Failure {
    match error.kind() {
        ErrorKind::AuthenticationFailed => command_failure(error),
        _ if error.is_timeout() => Failure::Unavailable("connecting timed out".to_owned()),
        _ => Failure::Unavailable(cause_of(error)),
    }
}

/// The cause of an error, as it appears in an error message.
pub(super) fn cause_of(error: &RedisError) -> String {
    let source =
        error::Error::source(error).and_then(|source| source.downcast_ref::<Arc<dyn error::Error + Send + Sync>>());
    let system = source.and_then(|source| source.downcast_ref::<io::Error>());
    if let Some(system) = system.filter(|system| system.raw_os_error().is_some()) {
        return match system.kind().to_string() {
            // The system's own message says more.
            kind if kind.contains("uncategorized") => shortened(system),
            kind => kind,
        };
    }
    // The detail is the parser's: which byte it did not expect.
    if error.kind() == ErrorKind::Parse {
        return "the answer is not in the protocol of Redis; another service may listen there".to_owned();
    }
    // The `redis` crate puts its own name for the kind between the message and the detail.
    shortened(error).replacen(&format!(" - {:?}", error.kind()), "", 1)
}

/// The beginning of a text. A server's text can have megabytes.
pub(crate) fn shortened(text: impl Display) -> String {
    let mut short = Shortened(String::new());
    if write!(short, "{text}").is_err() {
        short.0.push_str("..");
    }
    short.0
}

/// Takes text up to its limit and then fails, so that the rest is never formatted.
struct Shortened(String);

impl Write for Shortened {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = LONGEST_TEXT.saturating_sub(self.0.len());
        if text.len() <= room {
            self.0.push_str(text);
            return Ok(());
        }
        self.0.extend(
            text.char_indices().take_while(|(start, char)| start + char.len_utf8() <= room).map(|(_, char)| char),
        );
        Err(fmt::Error)
    }
}

/// Whether the server is a replica now. The address may already lead to the new primary, but only over a new connection.
pub(crate) fn is_demoted(failure: &Failure) -> bool {
    // Redis 6 wraps the error that a script ran into.
    matches!(failure, Failure::Refused(text) if text.contains("READONLY") || text.contains("MASTERDOWN"))
}

/// Whether the server itself failed. Another one may have taken its place.
pub(crate) fn is_server_failure(failure: &Failure) -> bool {
    match failure {
        Failure::Refused(text) => is_demoted(failure) || text.starts_with("CLUSTERDOWN"),
        Failure::Unsupported(_) | Failure::Closed(_) => false,
        Failure::Unavailable(_) | Failure::Interrupted(_) | Failure::TimedOut => true,
    }
}

/// The server's message, with its error code first.
pub(crate) fn error_text(error: &RedisError) -> String {
    text(error.code().unwrap_or("ERR"), error.detail())
}

pub(crate) fn server_text(error: &ServerError) -> String {
    text(error.code(), error.details())
}

fn text(code: &str, detail: Option<&str>) -> String {
    match detail {
        Some(detail) => shortened(format_args!("{code} {detail}")),
        None => shortened(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    fn io_failure(kind: io::ErrorKind) -> Failure {
        command_failure(&RedisError::from(io::Error::from(kind)))
    }

    #[test]
    fn a_cause_is_told_in_the_systems_common_words() {
        let nobody =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|free| free.local_addr()).expect("a free port");
        let refused = TcpStream::connect(nobody).expect_err("nobody listens there");
        assert_eq!(cause_of(&RedisError::from(refused)), "connection refused");
        let tls = io::Error::new(io::ErrorKind::InvalidData, "invalid peer certificate: UnknownIssuer");
        assert_eq!(cause_of(&RedisError::from(tls)), "invalid peer certificate: UnknownIssuer");
        let own = RedisError::from((ErrorKind::Client, "no server has this slot", "5".to_owned()));
        assert_eq!(cause_of(&own), "no server has this slot: 5");
    }

    #[test]
    fn a_break_is_maybe_applied_and_a_refused_connection_is_not() {
        assert!(matches!(io_failure(io::ErrorKind::BrokenPipe), Failure::Interrupted(_)));
        assert!(matches!(io_failure(io::ErrorKind::ConnectionReset), Failure::Interrupted(_)));
        assert!(matches!(io_failure(io::ErrorKind::ConnectionRefused), Failure::Unavailable(_)));
        assert_eq!(io_failure(io::ErrorKind::TimedOut), Failure::TimedOut);
    }

    #[test]
    fn a_wrong_password_is_refused_and_any_other_failure_to_connect_is_unavailable() {
        let denied = RedisError::from((ErrorKind::AuthenticationFailed, "Password authentication failed"));
        let Failure::Refused(text) = connect_failure(&denied) else { panic!("not refused") };
        assert!(text.starts_with("WRONGPASS "), "{text}");
        let broken = RedisError::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(matches!(connect_failure(&broken), Failure::Unavailable(_)));
    }
}
