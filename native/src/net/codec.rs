//! Converts between the engine's types and those of the `redis` crate.

use std::fmt::{self, Display, Write};
use std::sync::Arc;
use std::{error, io};

use leasehold_core::{Command, Failure, Reply, Scalar};
use redis::{Cmd, ErrorKind, RedisError, RedisResult, ServerError, Value};

/// The longest text of a server's that an error keeps. Every redirect is shorter.
const LONGEST_TEXT: usize = 300;

/// Converts an engine's command for the `redis` crate.
pub(crate) fn command(command: &Command) -> Cmd {
    let words = command.words();
    let mut cmd = Cmd::with_capacity(words.len(), words.clone().map(<[u8]>::len).sum());
    for word in words {
        cmd.arg(word);
    }
    cmd
}

/// Converts the result of a call for the engine.
pub(crate) fn result(result: RedisResult<Value>) -> Result<Reply, Failure> {
    match result {
        Ok(Value::ServerError(error)) => Err(Failure::Refused(server_text(&error))),
        Ok(value) => Ok(reply(value)),
        Err(error) => Err(failure(&error)),
    }
}

/// Converts a reply. A nested one becomes a text, which the engine then reports as not understood.
fn reply(value: Value) -> Reply {
    match value {
        Value::Array(items) if items.iter().all(is_scalar) => Reply::List(items.into_iter().map(scalar).collect()),
        value => Reply::One(scalar(value)),
    }
}

fn is_scalar(value: &Value) -> bool {
    matches!(value, Value::Nil | Value::Int(_) | Value::BulkString(_) | Value::SimpleString(_) | Value::Okay)
}

fn scalar(value: Value) -> Scalar {
    match value {
        Value::Nil => Scalar::Nil,
        Value::Int(number) => Scalar::Int(number),
        Value::BulkString(bytes) => Scalar::Text(bytes),
        Value::SimpleString(text) => Scalar::Text(text.into_bytes()),
        Value::Okay => Scalar::Text(b"OK".to_vec()),
        other => Scalar::Text(shortened(format_args!("{other:?}")).into_bytes()),
    }
}

/// Converts a failed call for the engine. In doubt, the command may have been applied.
pub(crate) fn failure(error: &RedisError) -> Failure {
    match error.kind() {
        ErrorKind::Server(_) | ErrorKind::Extension => Failure::Refused(error_text(error)),
        ErrorKind::AuthenticationFailed => Failure::Refused(format!("WRONGPASS {}", cause(error))),
        ErrorKind::Client
        | ErrorKind::InvalidClientConfig
        | ErrorKind::ClusterConnectionNotFound
        | ErrorKind::EmptySentinelList
        | ErrorKind::MasterNameNotFoundBySentinel
        | ErrorKind::NoValidReplicasFoundBySentinel => Failure::Unavailable(cause(error)),
        _ if error.is_timeout() => Failure::TimedOut,
        _ if error.is_connection_refusal() => Failure::Unavailable(cause(error)),
        _ => Failure::Interrupted(cause(error)),
    }
}

/// Converts a failed attempt to connect for the engine: nothing was sent.
pub(crate) fn connect_failure(error: &RedisError) -> Failure {
    match error.kind() {
        ErrorKind::AuthenticationFailed => failure(error),
        _ if error.is_timeout() => Failure::Unavailable("connecting timed out".to_owned()),
        _ => Failure::Unavailable(cause(error)),
    }
}

/// The cause of an error, as it appears in an error message.
pub(crate) fn cause(error: &RedisError) -> String {
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
    // The `redis` crate puts its own name for the kind between the message and the detail.
    shortened(error).replacen(&format!(" - {:?}", error.kind()), "", 1)
}

/// The beginning of a text that may have megabytes.
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

/// The server is a replica now. The address may already lead to the new primary, but only over a new connection.
pub(crate) fn is_demoted(failure: &Failure) -> bool {
    // Redis 6 wraps the error that a script ran into.
    matches!(failure, Failure::Refused(text) if text.contains("READONLY") || text.contains("MASTERDOWN"))
}

/// Something is wrong with the server itself, and another one may have taken its place.
pub(crate) fn is_trouble(failure: &Failure) -> bool {
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

fn server_text(error: &ServerError) -> String {
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

    fn parsed(wire: &[u8]) -> Result<Reply, Failure> {
        result(redis::parse_redis_value(wire))
    }

    fn io_failure(kind: io::ErrorKind) -> Failure {
        failure(&RedisError::from(io::Error::from(kind)))
    }

    #[test]
    fn flat_replies_keep_their_types() {
        assert_eq!(parsed(b":7\r\n"), Ok(Reply::One(Scalar::Int(7))));
        assert_eq!(parsed(b"+OK\r\n"), Ok(Reply::One(Scalar::Text(b"OK".to_vec()))));
        assert_eq!(parsed(b"$-1\r\n"), Ok(Reply::One(Scalar::Nil)));
        assert_eq!(
            parsed(b"*3\r\n$4\r\nbusy\r\n:-1\r\n$-1\r\n"),
            Ok(Reply::List(vec![Scalar::Text(b"busy".to_vec()), Scalar::Int(-1), Scalar::Nil]))
        );
    }

    #[test]
    fn a_nested_reply_becomes_one_text_that_the_engine_cannot_take_for_an_answer() {
        let Ok(Reply::One(Scalar::Text(text))) = parsed(b"*1\r\n*1\r\n:1\r\n") else { panic!("not a text") };
        assert!(String::from_utf8_lossy(&text).contains("int(1)"));
    }

    #[test]
    fn a_servers_refusal_keeps_its_code_word_first() {
        for text in ["NOSCRIPT No matching script.", "ERR wrong", "LOADING not yet", "NOPERM no", "WRONGTYPE Operation"]
        {
            let wire = format!("-{text}\r\n");
            assert_eq!(parsed(wire.as_bytes()), Err(Failure::Refused(text.to_owned())));
            // Some connections return the server's error as an `Err`.
            let error = redis::parse_redis_value(wire.as_bytes()).and_then(Value::extract_error).unwrap_err();
            assert_eq!(result(Err(error)), Err(Failure::Refused(text.to_owned())));
        }
    }

    #[test]
    fn a_servers_endless_text_is_shortened_and_a_redirect_is_not() {
        let host = "h".repeat(253);
        for (text, whole) in [(format!("MOVED 16383 {host}:65535"), true), ("ERR \u{fc}".repeat(100_000), false)] {
            let Err(Failure::Refused(kept)) = parsed(format!("-{text}\r\n").as_bytes()) else { panic!("no refusal") };
            assert_eq!(kept == text, whole, "{kept}");
            assert!(kept.len() <= LONGEST_TEXT + 2 && (whole || kept.ends_with("..")), "{kept}");
        }
        let nested = format!("*1\r\n*1\r\n+{}\r\n", "x".repeat(1 << 20));
        let Ok(Reply::One(Scalar::Text(text))) = parsed(nested.as_bytes()) else { panic!("not a text") };
        assert!(text.len() <= LONGEST_TEXT + 2, "{}", text.len());
    }

    #[test]
    fn a_cause_is_told_in_the_systems_common_words() {
        let nobody =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|free| free.local_addr()).expect("a free port");
        let refused = TcpStream::connect(nobody).expect_err("nobody listens there");
        assert_eq!(cause(&RedisError::from(refused)), "connection refused");
        let tls = io::Error::new(io::ErrorKind::InvalidData, "invalid peer certificate: UnknownIssuer");
        assert_eq!(cause(&RedisError::from(tls)), "invalid peer certificate: UnknownIssuer");
        let own = RedisError::from((ErrorKind::Client, "no server has this slot", "5".to_owned()));
        assert_eq!(cause(&own), "no server has this slot: 5");
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
