//! Commands for keys of any type.

use crate::answer::{Answer, Outcome, Refusal};
use crate::keyspace::{Data, Keyspace};
use crate::number;

pub(crate) fn exists(keyspace: &mut Keyspace, words: &[&[u8]]) -> Outcome {
    Ok(count(&words[1..], |key| keyspace.entry(key).is_some()))
}

pub(crate) fn delete(keyspace: &mut Keyspace, words: &[&[u8]]) -> Outcome {
    Ok(count(&words[1..], |key| keyspace.remove(key)))
}

pub(crate) fn pttl(keyspace: &mut Keyspace, words: &[&[u8]]) -> Outcome {
    let now = keyspace.now_ms();
    Ok(Answer::Int(match keyspace.entry(words[1]) {
        None => -2,
        Some(entry) => entry.expires_ms.map_or(-1, |expires| expires.saturating_sub(now) as i64),
    }))
}

/// Without options such as GT and NX, because Redis 6.2 doesn't have them.
pub(crate) fn pexpire(keyspace: &mut Keyspace, words: &[&[u8]]) -> Outcome {
    let ms = number::integer(words[2])?;
    let now = keyspace.now_ms();
    match keyspace.entry(words[1]) {
        None => return Ok(Answer::Int(0)),
        Some(entry) => match u64::try_from(ms) {
            Ok(ms) if ms > 0 => entry.expires_ms = Some(now.checked_add(ms).ok_or(INVALID_TIME)?),
            _ => {
                keyspace.remove(words[1]);
            }
        },
    }
    Ok(Answer::Int(1))
}

pub(crate) fn type_of(keyspace: &mut Keyspace, words: &[&[u8]]) -> Outcome {
    Ok(Answer::Status(match keyspace.entry(words[1]).map(|entry| &entry.data) {
        None => "none",
        Some(Data::Text(_)) => "string",
        Some(Data::Sorted(_)) => "zset",
        Some(Data::Hash(_)) => "hash",
    }))
}

pub(crate) fn time(keyspace: &mut Keyspace, _: &[&[u8]]) -> Outcome {
    let (seconds, micros) = (keyspace.now_us / 1_000_000, keyspace.now_us % 1_000_000);
    Ok(Answer::List(vec![seconds.to_string().into_bytes(), micros.to_string().into_bytes()]))
}

pub(crate) fn ping(_: &mut Keyspace, _: &[&[u8]]) -> Outcome {
    Ok(Answer::Status("PONG"))
}

pub(crate) fn flush_all(keyspace: &mut Keyspace, _: &[&[u8]]) -> Outcome {
    keyspace.clear();
    Ok(Answer::Status("OK"))
}

const INVALID_TIME: Refusal = Refusal::new("ERR invalid expire time in 'pexpire' command");

fn count(keys: &[&[u8]], mut holds: impl FnMut(&[u8]) -> bool) -> Answer {
    Answer::Int(keys.iter().filter(|key| holds(key)).count() as i64)
}
