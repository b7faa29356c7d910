//! Which of the keys that `SCAN` found can be locks: decides by their values, in one round trip for each type.

use leasehold::redis_1::redis::{self, RedisError, Value};

use crate::keyspace::{LONGEST_VALUE, is_lock, is_token};
use crate::refusals::{Refused, refused};
use crate::report::{Failure, Outcome};
use crate::servers::{Node, of_server};

/// Those of the keys that can be locks of ours. A string of another library can't be told from data.
pub(super) async fn candidates(node: &mut Node, keys: Vec<String>) -> Outcome<Vec<String>> {
    let mut locks = Vec::new();
    let mut other = Vec::new();
    let values = ask(node, &keys, "GETRANGE", &["0", &(LONGEST_VALUE - 1).to_string()]).await?;
    for (key, value) in keys.into_iter().zip(values) {
        match value {
            Answer::Other => other.push(key),
            Answer::Value(Value::BulkString(value)) if !is_lock(&value) => {}
            Answer::Value(_) | Answer::Failed => locks.push(key),
            Answer::Hidden => {}
        }
    }
    // A semaphore is a sorted set of tokens, a reentrant lock is a hash with one token.
    let members = ask(node, &other, "ZRANGE", &["0", "0"]).await?;
    let mut hashes = Vec::new();
    for (key, first) in other.into_iter().zip(members) {
        match first {
            Answer::Other => hashes.push(key),
            Answer::Value(first) if !begins_with_token(&first) => {}
            Answer::Value(_) | Answer::Failed => locks.push(key),
            Answer::Hidden => {}
        }
    }
    let sizes = ask(node, &hashes, "HLEN", &[]).await?;
    let small = hashes.into_iter().zip(sizes).filter(|(_, size)| matches!(size, Answer::Value(Value::Int(1))));
    let small: Vec<String> = small.map(|(key, _)| key).collect();
    let fields = ask(node, &small, "HGETALL", &[]).await?;
    for (key, field) in small.into_iter().zip(fields) {
        if matches!(field, Answer::Value(field) if begins_with_token(&field)) {
            locks.push(key);
        }
    }
    Ok(locks)
}

fn begins_with_token(list: &Value) -> bool {
    let first = match list {
        Value::Array(list) => list.first(),
        Value::Map(fields) => fields.first().map(|(field, _)| field),
        _ => None,
    };
    matches!(first, Some(Value::BulkString(first)) if is_token(first))
}

/// What a server says about a key.
enum Answer {
    Value(Value),
    /// It is of another type.
    Other,
    /// This user may not read it.
    Hidden,
    /// For example, the key is moving to another server. The inspection finds it.
    Failed,
}

/// Runs the command on each of the keys, in one round trip.
async fn ask(node: &mut Node, keys: &[String], command: &str, arguments: &[&str]) -> Outcome<Vec<Answer>> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let mut pipeline = redis::pipe();
    for key in keys {
        pipeline.cmd(command).arg(key).arg(arguments);
    }
    let values: Vec<Value> =
        node.pipeline(pipeline.ignore_errors()).await.map_err(|error| of_server(&error, &node.address, command))?;
    let mut answers = Vec::with_capacity(values.len());
    for value in values {
        answers.push(match value.extract_error() {
            Ok(value) => Answer::Value(value),
            Err(error) => match (error.code(), refused(&error)) {
                (Some("WRONGTYPE"), _) => Answer::Other,
                (_, Some(Refused::Key)) => Answer::Hidden,
                (_, Some(_)) => return Err(no_scan(&error, node, command)),
                _ => Answer::Failed,
            },
        });
    }
    Ok(answers)
}

pub(super) fn no_scan(error: &RedisError, node: &Node, command: &str) -> Failure {
    let mut failure = of_server(error, &node.address, command);
    failure.remedy = format!("{}; `leasehold inspect NAME` needs no {command}", failure.remedy);
    failure
}
