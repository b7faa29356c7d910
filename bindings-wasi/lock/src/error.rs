//! The contract's errors, made from the engine's.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use leasehold_core::{BusyHolder, Error as EngineError, Failure, is_cross_slot};

use crate::bindings::exports::leasehold::lock::locks::{self, Error, ErrorKind, LossReason, Vote, VoteAnswer};
use crate::time::millis;

/// The most characters of a name or of a server's text that an error message quotes.
const MAX_QUOTED_CHARS: usize = 500;

/// Converts an error of the engine. `name` is the lock that it is about, if any.
pub(crate) fn from_engine(error: &EngineError, name: Option<&str>) -> Error {
    let name = name.filter(|name| !name.is_empty());
    let in_cluster = in_cluster(error);
    let error = in_cluster.as_ref().unwrap_or(error);
    let message = match name {
        Some(name) => format!("lock `{}`: {error}", truncated(name.to_owned())),
        None => error.to_string(),
    };
    let (waited, holder_remaining) = match error {
        EngineError::Busy { waited, holder_remaining, .. } => (Some(*waited), *holder_remaining),
        EngineError::Unreachable { waited, .. } => (Some(*waited), None),
        _ => (None, None),
    };
    let (busy_name, waiters) = match error {
        EngineError::Busy { busy_name, waiters, .. } => (busy_name.clone(), *waiters),
        _ => (None, None),
    };
    Error {
        kind: kind(error),
        lock: name.map(ToOwned::to_owned),
        busy_name,
        waited_ms: waited.map(millis),
        holder_remaining_ms: holder_remaining.map(millis),
        waiters,
        holder: None,
        votes: votes(error),
        message,
        retryable: error.is_retryable(),
    }
}

/// What to do about an answer of a node of a cluster.
fn in_cluster(error: &EngineError) -> Option<EngineError> {
    let EngineError::Server(text) = error else { return None };
    let problem = if text.starts_with("MOVED ") {
        "the server belongs to a cluster: connect with the topology `cluster`: "
    } else if is_cross_slot(text) {
        "the server enforces the slots of a cluster: open the manager again, or with the topology `cluster`: "
    } else {
        return None;
    };
    Some(EngineError::Unsupported([problem, text].concat()))
}

/// Adds to a `busy` error who holds the lock.
pub(crate) fn held_by(error: Error, holder: Option<BusyHolder>) -> Error {
    let Some(holder) = holder else { return error };
    let message = format!("{}; {holder}", error.message);
    let BusyHolder { client, label, held, foreign, .. } = holder;
    Error { holder: Some(locks::BusyHolder { client, label, held_ms: held.map(millis), foreign }), message, ..error }
}

fn votes(error: &EngineError) -> Vec<Vote> {
    let (EngineError::Busy { votes, .. } | EngineError::Unreachable { votes, .. }) = error else { return Vec::new() };
    let vote = |vote: &leasehold_core::Vote| {
        let (answer, problem) = match &vote.answer {
            None => (VoteAnswer::Unanswered, String::new()),
            Some(Ok(())) => (VoteAnswer::Agreed, String::new()),
            Some(Err(EngineError::Unreachable { cause: None | Some(Failure::TimedOut), .. })) => {
                (VoteAnswer::TimedOut, String::new())
            }
            Some(Err(EngineError::Unreachable { cause: Some(cause), .. })) => {
                (VoteAnswer::Failed("unreachable".to_owned()), cause.to_string())
            }
            Some(Err(error)) => (VoteAnswer::Failed(error.code().to_owned()), error.to_string()),
        };
        Vote { server: vote.server.to_string(), answer, problem }
    };
    votes.iter().map(vote).collect()
}

pub(crate) fn invalid(field: &'static str, problem: String) -> Error {
    from_engine(&EngineError::InvalidOption { field, problem }, None)
}

/// The instance has reached one of its limits, so the call was not started.
#[cold]
pub(crate) fn overloaded() -> Error {
    let error = unsupported("this instance is at its limit of calls, leases or managers: end some of them first");
    Error { kind: ErrorKind::Other("overloaded".to_owned()), retryable: true, ..error }
}

pub(crate) fn unsupported(problem: &str) -> Error {
    from_engine(&EngineError::Unsupported(problem.to_owned()), None)
}

/// An outcome of the wrong kind. That is a bug in this crate, reported as an error instead of a trap.
pub(crate) fn unexpected_outcome() -> Error {
    from_engine(&EngineError::Protocol("unexpected outcome".to_owned()), None)
}

/// Shortens a text. A server, a provider or a caller may send a text of any length.
pub(crate) fn truncated(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_QUOTED_CHARS) {
        text.truncate(end);
        text.push_str("..");
    }
    text
}

pub(crate) fn loss(reason: leasehold_core::LossReason) -> LossReason {
    match reason {
        leasehold_core::LossReason::Gone => LossReason::Gone,
        leasehold_core::LossReason::Taken => LossReason::Taken,
        leasehold_core::LossReason::Revoked => LossReason::Revoked,
        leasehold_core::LossReason::MaxHold => LossReason::MaxHold,
        _ => LossReason::Expired,
    }
}

fn kind(error: &EngineError) -> ErrorKind {
    match error {
        EngineError::InvalidOption { field, .. } => ErrorKind::InvalidOption(option_name(field)),
        EngineError::NotHeld => ErrorKind::NotHeld,
        EngineError::Conflict(_) => ErrorKind::Conflict,
        EngineError::Unsupported(_) => ErrorKind::Unsupported,
        EngineError::CrossSlot => ErrorKind::CrossSlot,
        EngineError::Closed => ErrorKind::Closed,
        EngineError::Busy { .. } => ErrorKind::Busy,
        EngineError::Cancelled => ErrorKind::Cancelled,
        EngineError::Lost(reason) => ErrorKind::Lost(loss(*reason)),
        EngineError::Unreachable { .. } => ErrorKind::Unreachable,
        EngineError::Auth(_) => ErrorKind::Auth,
        EngineError::Server(_) => ErrorKind::Server,
        EngineError::Protocol(_) => ErrorKind::Protocol,
        EngineError::WrongKind(_) => ErrorKind::WrongKind,
        other => ErrorKind::Other(other.code().to_owned()),
    }
}

/// The contract's name of an option. Times have their unit in the name.
fn option_name(field: &str) -> String {
    let is_time = matches!(
        field,
        "ttl" | "wait" | "for" | "max_hold" | "per" | "keep" | "claim_window" | "response_timeout" | "node_timeout"
    );
    let name = field.replace('_', "-");
    if is_time { name + "-ms" } else { name }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use leasehold_core::{LOCK_SETTINGS, MANAGER_SETTINGS};

    use super::*;

    #[test]
    fn an_invalid_option_has_the_contracts_name() {
        for (engine, contract) in [("ttl", "ttl-ms"), ("local_handoffs", "local-handoffs"), ("name", "name")] {
            let ErrorKind::InvalidOption(field) = invalid(engine, "is wrong".into()).kind else {
                panic!("another kind")
            };
            assert_eq!(field, contract);
        }
    }

    #[test]
    fn a_time_has_its_unit_in_the_name_as_in_the_contract() {
        let contract = include_str!("../../../wit/locks.wit");
        let rows = LOCK_SETTINGS.iter().chain(MANAGER_SETTINGS);
        for row in rows.filter(|row| !row.bounds.text.is_empty() && !row.is_count()) {
            let has_unit = contract.contains(&format!("    {}-ms:", row.name.replace('_', "-")));
            assert_eq!(option_name(row.name).ends_with("-ms"), has_unit, "`option_name` of {}", row.name);
        }
    }

    #[test]
    fn an_error_has_what_a_log_line_needs() {
        let cause = Some(Failure::Interrupted("broken pipe".into()));
        let error = EngineError::Unreachable {
            waited: Duration::from_millis(250),
            cause,
            votes: leasehold_core::Votes::default(),
        };
        let error = from_engine(&error, Some("invoice:42"));
        assert!(error.retryable);
        assert_eq!(error.lock.as_deref(), Some("invoice:42"));
        assert!(error.message.contains("invoice:42") && error.message.contains("broken pipe"), "{}", error.message);

        let long = "n".repeat(1 << 20);
        let error = from_engine(&EngineError::NotHeld, Some(&long));
        assert_eq!(error.lock, Some(long));
        assert!(error.message.len() < 1_000, "{} bytes", error.message.len());
    }

    #[test]
    fn a_node_of_a_cluster_is_told_apart_from_a_server_that_fails() {
        for answer in ["MOVED 866 127.0.0.1:7001", "CROSSSLOT Keys in request don't hash to the same slot"] {
            let error = from_engine(&EngineError::Server(answer.to_owned()), None);
            assert!(matches!(error.kind, ErrorKind::Unsupported) && !error.retryable, "{error:?}");
            assert!(error.message.contains("topology `cluster`") && error.message.contains(answer), "{error:?}");
        }
        assert!(matches!(from_engine(&EngineError::Server("ERR what".to_owned()), None).kind, ErrorKind::Server));
    }

    #[test]
    fn a_long_text_is_truncated() {
        assert_eq!(truncated("ERR no".into()), "ERR no");
        assert_eq!(truncated("ä".repeat(MAX_QUOTED_CHARS)), "ä".repeat(MAX_QUOTED_CHARS));
        assert_eq!(truncated("ä".repeat(5_000_000)), format!("{}..", "ä".repeat(MAX_QUOTED_CHARS)));
    }
}
