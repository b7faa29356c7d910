//! What the engine puts out, as the files spell it.

use std::time::Duration;

use leasehold_core::{
    Command, Error, Failure, Fence, Field, Grant, Inspection, Leader, Mode, NodeId, Outcome, Output, Vote, Votes,
};
use serde_json::{Value, json};

pub(crate) fn output(output: &Output) -> Value {
    match output {
        Output::Send { id: call, node, command } => {
            on(*node, "send", json!({ "call": call.0, "command": command_words(command) }))
        }
        Output::SendDedicated { op, command } => {
            json!({ "send-dedicated": { "op": op.0, "command": command_words(command) } })
        }
        Output::CloseDedicated { op } => json!({ "close-dedicated": { "op": op.0 } }),
        Output::Subscribe { node, channel } => on(*node, "subscribe", json!({ "channel": channel })),
        Output::Unsubscribe { node, channel } => on(*node, "unsubscribe", json!({ "channel": channel })),
        Output::Completed { op, result } => {
            let result = match result {
                Ok(outcome) => self::outcome(outcome),
                Err(error) => json!({ "error": self::error(error) }),
            };
            json!({ "completed": { "op": op.0, "result": result } })
        }
        Output::Leader { op, leader } => {
            json!({ "leader": { "op": op.0, "leader": leader.as_ref().map(self::leader) } })
        }
        Output::Lost { lease, reason } => json!({ "lost": { "lease": lease.0, "reason": reason.code() } }),
    }
}

/// An error's code and fields. Texts that the engine composes are for people, and no part of a vector.
pub(crate) fn error(error: &Error) -> Value {
    let code = error.code();
    match error {
        Error::InvalidOption { field, .. } => json!({ "code": code, "field": field }),
        Error::Busy { busy_name, waited, holder_remaining, waiters, votes: of, .. } => {
            let holder_remaining = holder_remaining.map(ms);
            let mut error = json!({ "code": code, "waited": ms(*waited), "holder_remaining": holder_remaining });
            if let Some(waiters) = waiters {
                error["waiters"] = json!(waiters);
            }
            if let Some(name) = busy_name {
                error["busy_name"] = json!(name);
            }
            with_votes(of, error)
        }
        Error::Unreachable { waited, cause, votes: of } => {
            with_votes(of, json!({ "code": code, "waited": ms(*waited), "cause": cause.as_ref().map(failure) }))
        }
        Error::Lost(reason) => json!({ "code": code, "reason": reason.code() }),
        Error::NotReplicated { confirmed, wanted, waited } => {
            json!({ "code": code, "confirmed": confirmed, "wanted": wanted, "waited": ms(*waited) })
        }
        Error::Auth(text) | Error::Server(text) | Error::WrongKind(text) | Error::Unsupported(text) => {
            json!({ "code": code, "text": text })
        }
        _ => json!({ "code": code }),
    }
}

/// What each server of a quorum said; one server by itself has no votes.
fn with_votes(votes: &Votes, mut error: Value) -> Value {
    let vote = |vote: &Vote| {
        let answer = match &vote.answer {
            None => Value::Null,
            Some(Ok(())) => json!("agreed"),
            Some(Err(Error::Unreachable { cause: None | Some(Failure::TimedOut), .. })) => json!("timed-out"),
            Some(Err(error)) => json!(error.code()),
        };
        json!({ "server": *vote.server, "answer": answer })
    };
    if !votes.is_empty() {
        error["votes"] = votes.iter().map(vote).collect();
    }
    error
}

/// A field that is alone stands without its name, unless it is a time.
fn outcome(outcome: &Outcome) -> Value {
    let mut fields = serde_json::Map::new();
    outcome.fields(|name, field| {
        let value = match field {
            Field::Number(number) => json!(number),
            Field::Moment(at) => json!(at.as_micros()),
            Field::Flag(flag) => json!(flag),
            Field::Text(text) => json!(text),
            Field::Numbers(numbers) => json!(numbers),
            Field::Grant(grant) => self::grant(grant),
            Field::Released(outcome) => json!(outcome.code()),
            Field::Inspection(inspection) => self::inspection(inspection),
        };
        fields.insert(name.to_owned(), value);
    });
    let alone = fields.len() == 1 && !fields.contains_key("valid_until");
    let fields = if alone { fields.into_iter().next().map(|(_, value)| value) } else { Some(Value::Object(fields)) };
    json!({ outcome.kind().code(): fields })
}

fn leader(leader: &Leader) -> Value {
    json!({ "value": leader.value, "fence": leader.fence, "led": ms(leader.led) })
}

fn grant(grant: &Grant) -> Value {
    json!({
        "lease": grant.lease.0,
        "mode": mode(grant.mode),
        "fence": grant.fence,
        "valid_until": grant.valid_until.as_micros(),
        "local": grant.local,
    })
}

fn inspection(inspection: &Inspection) -> Value {
    let holders = inspection.holders.iter().map(|holder| {
        json!({
            "token": holder.token,
            "mode": mode(holder.mode),
            "remaining": holder.remaining.map(ms),
            "foreign": holder.foreign,
            "held": holder.held.map(ms),
        })
    });
    let waiters = inspection.waiters.iter().map(|waiter| {
        json!({
            "token": waiter.token,
            "mode": mode(waiter.mode),
            "waited": waiter.waited.map(ms),
            "callers": waiter.callers,
        })
    });
    json!({
        "holders": holders.collect::<Vec<_>>(),
        "waiters": waiters.collect::<Vec<_>>(),
        "waiting": inspection.waiting,
        "last_fence": inspection.last_fence.map(Fence::get),
        "limit": inspection.limit,
        "per": inspection.per.map(ms),
    })
}

fn failure(failure: &Failure) -> Value {
    match failure {
        Failure::Refused(text) => json!({ "refused": text }),
        Failure::Unavailable(text) => json!({ "unavailable": text }),
        Failure::Interrupted(text) => json!({ "interrupted": text }),
        Failure::TimedOut => json!("timed-out"),
        Failure::Unsupported(text) => json!({ "unsupported": text }),
        Failure::Closed(text) => json!({ "closed": text }),
    }
}

/// The words, with the script's name in place of its digest or source: a comment in a script changes no vector.
fn command_words(command: &Command) -> Vec<String> {
    let text = |word: &[u8]| String::from_utf8(word.to_vec()).expect("a command's words are text");
    let mut words: Vec<String> = command.words().map(text).collect();
    for script in leasehold_lua::ALL {
        if words[1] == script.sha1 || words[1] == script.source {
            words[1] = script.name.to_string();
        }
    }
    words
}

/// A node is named if it is not the first.
fn on(node: NodeId, kind: &str, mut fields: Value) -> Value {
    if node != NodeId::default() {
        fields["node"] = json!(node.0);
    }
    json!({ kind: fields })
}

fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared => "shared",
        other => panic!("no word for {other:?}"),
    }
}

/// Whole milliseconds, rounded down.
fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).expect("a duration in milliseconds fits in 64 bits")
}
