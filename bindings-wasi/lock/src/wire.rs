//! Converts between the engine's types and those of the contract.

use alloc::string::String;
use alloc::vec::Vec;

use leasehold_core::{Command, Failure, Reply, Scalar};

use crate::bindings::leasehold::lock::connection;

/// The most characters of a foreign text that a message quotes.
const MOST_CHARS: usize = 500;

/// The engine's command in the form that an endpoint takes.
pub(crate) fn command(command: &Command) -> Vec<Vec<u8>> {
    command.words().map(<[u8]>::to_vec).collect()
}

/// The result of a call in the form that the engine reads.
pub(crate) fn result(result: Result<connection::Reply, connection::Failure>) -> Result<Reply, Failure> {
    result.map(reply).map_err(failure)
}

/// A reply that is not flat becomes a text, which the engine reports as not understood.
fn reply(reply: connection::Reply) -> Reply {
    match reply {
        connection::Reply::Single(value) => Reply::One(scalar(value)),
        connection::Reply::Array(values) => Reply::List(values.into_iter().map(scalar).collect()),
        connection::Reply::Other(text) => Reply::One(Scalar::Text(text.into_bytes())),
    }
}

fn scalar(value: connection::Value) -> Scalar {
    match value {
        connection::Value::Nil => Scalar::Nil,
        connection::Value::Integer(number) => Scalar::Int(number),
        connection::Value::Text(text) => Scalar::Text(text),
    }
}

/// What a failed call tells the engine. If in doubt, the command may have been applied.
pub(crate) fn failure(failure: connection::Failure) -> Failure {
    let (new, text): (fn(String) -> Failure, _) = match failure {
        connection::Failure::Refused(text) => (Failure::Refused, text),
        connection::Failure::Unavailable(text) => (Failure::Unavailable, text),
        connection::Failure::Interrupted(text) | connection::Failure::Other(text) => (Failure::Interrupted, text),
        connection::Failure::TimedOut => return Failure::TimedOut,
        connection::Failure::Unsupported(text) => (Failure::Unsupported, text),
    };
    new(beginning(text))
}

/// The beginning of a text, because a server, a provider or a caller may send a text of any length.
pub(crate) fn beginning(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MOST_CHARS) {
        text.truncate(end);
        text.push_str("..");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_text_the_beginning_is_told() {
        let told = |text: &str| match failure(connection::Failure::Refused(text.to_owned())) {
            Failure::Refused(text) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(told("ERR no"), "ERR no");
        assert_eq!(told(&"ä".repeat(MOST_CHARS)), "ä".repeat(MOST_CHARS));
        assert_eq!(told(&"ä".repeat(5_000_000)), format!("{}..", "ä".repeat(MOST_CHARS)));
    }
}
