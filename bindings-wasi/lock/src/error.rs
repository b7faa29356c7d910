//! The engine's errors in the contract's words.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::string::ToString;

use core::time::Duration;

use leasehold_core::{Error as EngineError, Failure};

use crate::bindings::exports::leasehold::lock::locks::{
    Busy, Error, ErrorKind, InvalidOption, LossReason, Unreachable,
};

/// The engine's error about the lock `name`, or about none.
pub(crate) fn from_engine(error: EngineError, name: Option<&str>) -> Error {
    let message = match name {
        Some(name) => format!("`{name}`: {error}"),
        None => error.to_string(),
    };
    let retryable = error.is_retryable();
    Error { kind: kind(error), lock: name.map(str::to_owned), message, retryable }
}

/// A failure while connecting, or while asking the server what it is.
pub(crate) fn from_connecting(failure: Failure, waited: Duration) -> Error {
    let error = match failure {
        Failure::Refused(text) => match text.split(' ').next() {
            Some("NOAUTH" | "WRONGPASS" | "NOPERM") => EngineError::Auth(text),
            _ => EngineError::Server(text),
        },
        Failure::Unsupported(text) => EngineError::Unsupported(text),
        cause => EngineError::Unreachable { waited, cause: Some(cause) },
    };
    from_engine(error, None)
}

pub(crate) fn invalid(field: &'static str, problem: String) -> Error {
    from_engine(EngineError::InvalidOption { field, problem }, None)
}

pub(crate) fn unsupported(problem: &str) -> Error {
    from_engine(EngineError::Unsupported(problem.to_owned()), None)
}

/// An outcome of another kind than asked for: a fault of this crate, told instead of a trap.
pub(crate) fn unexpected() -> Error {
    from_engine(EngineError::Protocol("unexpected outcome".to_owned()), None)
}

pub(crate) fn loss(reason: leasehold_core::LossReason) -> LossReason {
    match reason {
        leasehold_core::LossReason::Gone => LossReason::Gone,
        leasehold_core::LossReason::Taken => LossReason::Taken,
        leasehold_core::LossReason::MaxHold => LossReason::MaxHold,
        _ => LossReason::Expired,
    }
}

fn kind(error: EngineError) -> ErrorKind {
    match error {
        EngineError::InvalidOption { field, problem } => {
            ErrorKind::InvalidOption(InvalidOption { field: option(field), problem })
        }
        EngineError::NotHeld => ErrorKind::NotHeld,
        EngineError::Conflict(problem) => ErrorKind::Conflict(problem.to_owned()),
        EngineError::Unsupported(problem) => ErrorKind::Unsupported(problem),
        EngineError::Closed => ErrorKind::Closed,
        EngineError::Busy { waited, holder_remaining } => {
            ErrorKind::Busy(Busy { waited_ms: ms(waited), holder_remaining_ms: holder_remaining.map(ms) })
        }
        EngineError::Cancelled => ErrorKind::Cancelled,
        EngineError::Lost(reason) => ErrorKind::Lost(loss(reason)),
        EngineError::Unreachable { waited, cause } => {
            let causes = cause.iter().map(ToString::to_string).collect();
            ErrorKind::Unreachable(Unreachable { waited_ms: ms(waited), causes })
        }
        EngineError::Auth(text) => ErrorKind::Auth(text),
        EngineError::Server(text) => ErrorKind::Server(text),
        EngineError::Protocol(text) => ErrorKind::Protocol(text),
        EngineError::WrongKind(text) => ErrorKind::WrongKind(text),
        other => ErrorKind::Other(other.code().to_owned()),
    }
}

/// An option's name as the contract has it.
fn option(field: &str) -> String {
    let is_time =
        matches!(field, "ttl" | "wait" | "for" | "max_hold" | "claim_window" | "response_timeout" | "fence_retention");
    let name = field.replace('_', "-");
    if is_time { name + "-ms" } else { name }
}

/// Whole milliseconds, as many as fit.
pub(crate) fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_called_as_the_contract_calls_it() {
        for (engine, contract) in [("ttl", "ttl-ms"), ("local_handoffs", "local-handoffs"), ("name", "name")] {
            let ErrorKind::InvalidOption(error) = invalid(engine, "is wrong".into()).kind else {
                panic!("another kind")
            };
            assert_eq!(error.field, contract);
        }
    }

    #[test]
    fn an_error_tells_what_a_log_line_needs() {
        let cause = Some(Failure::Interrupted("broken pipe".into()));
        let error = EngineError::Unreachable { waited: Duration::from_millis(250), cause };
        let error = from_engine(error, Some("invoice:42"));
        assert!(error.retryable);
        assert_eq!(error.lock.as_deref(), Some("invoice:42"));
        assert!(error.message.contains("invoice:42") && error.message.contains("broken pipe"), "{}", error.message);
    }
}
