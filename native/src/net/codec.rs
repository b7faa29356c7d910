//! Encodes the engine's commands for the `redis` crate, and decodes its values for the engine.

use leasehold_core::{Command, Failure, Reply, Scalar};
use redis::{Cmd, RedisResult, Value};

use crate::errors::{command_failure, server_text, shortened};

pub(super) fn encode(command: &Command) -> Cmd {
    let words = command.words();
    let mut cmd = Cmd::with_capacity(words.len(), words.clone().map(<[u8]>::len).sum());
    for word in words {
        cmd.arg(word);
    }
    cmd
}

/// The reply, or why the server gave none.
pub(super) fn decode(result: RedisResult<Value>) -> Result<Reply, Failure> {
    match result {
        Ok(Value::ServerError(error)) => Err(Failure::Refused(server_text(&error))),
        Ok(value) => Ok(reply(value)),
        Err(error) => Err(command_failure(&error)),
    }
}

/// A nested reply becomes a text, which the engine then reports as not understood.
pub(super) fn reply(value: Value) -> Reply {
    match value {
        Value::Array(items) if items.iter().all(is_scalar) => Reply::List(items.into_iter().map(scalar).collect()),
        value => Reply::One(scalar(value)),
    }
}

/// A reply as it would come from a server.
#[cfg(any(feature = "testing", feature = "without-scripts"))]
pub(super) fn value(reply: Reply) -> Value {
    let item = |item| match item {
        Scalar::Nil => Value::Nil,
        Scalar::Int(number) => Value::Int(number),
        Scalar::Text(bytes) => Value::BulkString(bytes),
    };
    match reply {
        Reply::One(scalar) => item(scalar),
        Reply::List(items) => Value::Array(items.into_iter().map(item).collect()),
    }
}

/// An error as it would come from a server.
#[cfg(any(feature = "testing", feature = "without-scripts"))]
pub(super) fn error_value(text: &str) -> Value {
    let line = format!("-{}\r\n", text.replace(['\r', '\n'], " "));
    redis::parse_redis_value(line.as_bytes()).unwrap_or(Value::Nil)
}

/// The words of a command.
#[cfg(any(feature = "testing", feature = "without-scripts"))]
pub(super) fn words(cmd: &Cmd) -> Vec<&[u8]> {
    let word = |word| match word {
        redis::Arg::Simple(word) => Some(word),
        _ => None,
    };
    cmd.args_iter().filter_map(word).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::LONGEST_TEXT;

    fn parsed(wire: &[u8]) -> Result<Reply, Failure> {
        decode(redis::parse_redis_value(wire))
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
            assert_eq!(decode(Err(error)), Err(Failure::Refused(text.to_owned())));
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
}
