//! Converts commands, replies and failures between the engine's types and those of the contract.

use alloc::string::String;
use alloc::vec::Vec;

use leasehold_core::{Command, Failure, Reply, Scalar};

use crate::bindings::leasehold::lock::connection;
use crate::error::truncated;

/// The words of a command.
pub(crate) fn words(command: &Command) -> Vec<Vec<u8>> {
    command.words().map(<[u8]>::to_vec).collect()
}

/// What an endpoint answered.
pub(crate) fn result(result: Result<connection::Reply, connection::Failure>) -> Result<Reply, Failure> {
    result.map(reply).map_err(failure)
}

/// A reply that is not flat becomes a text. The engine doesn't expect that text and reports a protocol error.
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

/// Why an endpoint did not answer. An unknown failure counts as interrupted, because the command may have run.
pub(crate) fn failure(failure: connection::Failure) -> Failure {
    let (new, text): (fn(String) -> Failure, _) = match failure {
        connection::Failure::Refused(text) => (Failure::Refused, text),
        connection::Failure::Unavailable(text) => (Failure::Unavailable, text),
        connection::Failure::Interrupted(text) | connection::Failure::Other(text) => (Failure::Interrupted, text),
        connection::Failure::TimedOut => return Failure::TimedOut,
        connection::Failure::Unsupported(text) => (Failure::Unsupported, text),
    };
    new(truncated(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_error_of_a_server_is_truncated() {
        let Failure::Refused(text) = failure(connection::Failure::Refused("ä".repeat(5_000_000))) else {
            panic!("another failure");
        };
        assert!(text.len() < 2_000, "{} bytes", text.len());
    }
}
