//! Tells who holds a lock of any kind and who waits for it, at one moment: the first 1,000 waiters, and how many there are.
//! Writes nothing.
//!
//! Keys: those of a lock, and in place of the last one the permits of a semaphore. No arguments.
//! Answers the server's µs; the one holder, `shared`, or an empty text; its PTTL; the fence of the last grant or 0; the
//! number of readers, and the token and expiry (ms) of each; the number of waiters, and the token, the record or an empty
//! text, and when it joined (µs) of each in queue order; the fence of the one holder or 0; how many wait in all; a semaphore's
//! limit or nil; a rate's `per` or nil.

use alloc::vec;
use alloc::vec::Vec;

use leasehold_core::Scalar;

use super::arguments::Arguments;
use super::call::{Call, above, at};
use super::prelude::{NOT_A_SEMAPHORE, SHARED, fence_in, one_leader, one_owner};
use super::text::{Value, is_token, number};
use crate::answer::{Answer, Outcome, Refusal};
use crate::keys::{Bound, Range};

const NOT_A_HASH: Refusal = Refusal::new("WRONGTYPE the hash is no reentrant lock, no once and no election");
/// How many waiters are listed, at most.
const MOST_WAITERS: usize = 1000;

pub(crate) fn inspect(mut call: Call<'_>, arguments: Arguments<'_>) -> Outcome {
    let keys = arguments.lock_keys()?;
    let [.., permits] = *arguments.keys::<6>()?;
    let kind = call.type_of(keys.name)?;
    let live = Range::Scores(above(call.now), Bound::HIGHEST);
    let (mut holder, mut readers, mut last) = (Vec::new(), Vec::new(), 0);
    let mut sizes = [None, None];
    match kind {
        "hash" => {
            let fields = call.hgetall(keys.name)?;
            match (one_leader(fields.clone()), fields.as_slice()) {
                (Some(Some((leader, fence, _))), _) if ends_with_number(&leader) => (holder, last) = (leader, fence),
                (_, [(token, field)]) if fence_in(field).is_some() && ends_with_number(token) => {
                    last = fence_in(field).and_then(number).unwrap_or(0);
                    holder = token.clone();
                }
                _ => holder = one_owner(fields).map_err(|_| NOT_A_HASH)?.unwrap_or_default(),
            }
        }
        "zset" => {
            let first = call.zrange_one(keys.name, Range::FIRST)?;
            if !first.is_some_and(|(_, token)| is_token(&token)) {
                return Err(NOT_A_SEMAPHORE);
            }
            readers = call.zrange(keys.name, live)?;
            last = call.hget(permits, b"fence")?.and_then(|fence| number(&fence)).unwrap_or(0);
            sizes = [call.hget(permits, b"limit")?, call.hget(permits, b"per")?];
        }
        _ => {
            holder = call.get(keys.name)?.unwrap_or_default();
            if let Some(value) = Value::read(&holder) {
                last = number(value.fence).unwrap_or(0);
                holder = value.holder.to_vec();
            }
            if holder == SHARED {
                readers = call.zrange(keys.members, live)?;
            }
        }
    }
    let has_one = kind != "zset" && holder != SHARED;
    let pttl = call.pttl(keys.name)?;
    let mut reply = vec![Scalar::Int(call.us), Scalar::Text(holder), Scalar::Int(pttl), Scalar::Int(last)];
    reply.push(Scalar::Int(readers.len() as i64));
    for (expiry, token) in readers {
        reply.extend([Scalar::Text(token), Scalar::Int(expiry)]);
    }
    let queue = call.zrange_some(keys.queue, Range::Scores(at(0), Bound::HIGHEST), MOST_WAITERS)?;
    let tokens: Vec<&[u8]> = queue.iter().map(|(_, token)| token.as_slice()).collect();
    let records = if tokens.is_empty() { Vec::new() } else { call.hmget(keys.waiters, &tokens)? };
    reply.push(Scalar::Int(queue.len() as i64));
    for ((joined, token), record) in queue.into_iter().zip(records) {
        reply.extend([Scalar::Text(token), Scalar::Text(record.unwrap_or_default()), Scalar::Int(joined)]);
    }
    // The leader, the writer, or the holder of a mutex or a once, drew the last fence, which is about the time of its grant.
    reply.push(Scalar::Int(if has_one { last } else { 0 }));
    reply.push(Scalar::Int(call.count_waiters(keys.queue)?));
    reply.extend(sizes.map(|size| size.map_or(Scalar::Nil, Scalar::Text)));
    Ok(Answer::List(reply))
}

/// Whether a text ends like our tokens: `:<number>`.
fn ends_with_number(token: &[u8]) -> bool {
    let digits = token.rsplit(|byte| *byte == b':').next();
    digits.is_some_and(|digits| digits.len() < token.len() && number(digits).is_some())
}
