//! Takes several names at once if each of them is free or already the caller's. Otherwise changes nothing, except that it
//! drops dead waiters. Idempotent for each token.
//!
//! Keys: N, queue and waiters of each name; then fence. Arguments: ttl, and a token for each name.
//! Answers the server's µs, the ttl, then `entered` or `again` and the fence for each name; or the server's µs, what is
//! left of the holder's TTL, `busy`, and the number of the name that is busy.

use alloc::vec;
use alloc::vec::Vec;

use leasehold_core::Scalar;

use super::arguments::Arguments;
use super::call::{Call, Done, at};
use super::prelude::Counter;
use super::text::{holder_of, number_text, trailing_number, word};
use crate::answer::{Answer, Outcome};
use crate::keys::{Bound, Lifetime, Range};

/// One of the names.
#[derive(Clone, Copy)]
struct Part<'a> {
    name: &'a [u8],
    queue: &'a [u8],
    waiters: &'a [u8],
    token: &'a [u8],
}

pub(crate) fn multi(mut call: Call<'_>, arguments: Arguments<'_>) -> Outcome {
    let (ttl, counter, parts) = read(arguments)?;
    let lost = call.us + 1024;
    // Every key is read before the first write, so a key of the wrong type fails the script while nothing has changed.
    let Counter { last, .. } = Counter::read(&mut call, counter, lost)?;
    let mut mine = Vec::with_capacity(parts.len());
    for (place, part) in parts.iter().enumerate() {
        let value = call.get(part.name)?;
        let is_mine = value.as_deref().map(holder_of) == Some(part.token);
        if !is_mine && (value.is_some() || is_wanted(&mut call, *part)?) {
            let left = call.pttl(part.name)?;
            let place = place as i64 + 1;
            return Ok(Answer::List(vec![Scalar::Int(call.us), Scalar::Int(left), word("busy"), Scalar::Int(place)]));
        }
        mine.push(is_mine);
    }

    let fence = (last + 1).max(call.us);
    let text = number_text(fence);
    call.set(counter, &text, Lifetime::Kept)?;
    let mut reply = vec![Scalar::Int(call.us), Scalar::Int(ttl)];
    for (Part { name, token, .. }, is_mine) in parts.into_iter().zip(mine) {
        if is_mine {
            call.expire_at_least(name, ttl)?;
        } else {
            call.set(name, &[token, b" ", &text].concat(), Lifetime::Ms(ttl))?;
        }
        reply.extend([word(if is_mine { "again" } else { "entered" }), Scalar::Int(fence)]);
    }
    Ok(Answer::List(reply))
}

fn read<'a>(arguments: Arguments<'a>) -> Done<(i64, &'a [u8], Vec<Part<'a>>)> {
    let (Some((ttl, tokens)), Some((counter, keys))) = (arguments.words.split_first(), arguments.keys.split_last())
    else {
        return Err(arguments.wrong("has no keys or no arguments"));
    };
    let mut parts = Vec::with_capacity(tokens.len());
    for (keys, token) in keys.chunks(3).zip(tokens) {
        let [name, queue, waiters] = *keys else { break };
        parts.push(Part { name, queue, waiters, token });
    }
    if parts.len() != tokens.len() || keys.len() != 3 * tokens.len() {
        return Err(arguments.wrong("needs 3 keys for each token, and the counter"));
    }
    Ok((arguments.number("ttl", ttl)?, counter, parts))
}

/// How many waiters a script looks at, at most.
const MOST_ASKED: usize = 500;

/// Whether the token may not enter: a live waiter is ahead, or the token was given up. If the first 500 waiters are
/// dead, it drops them and answers true, because a live waiter may be behind them. A later call looks further.
fn is_wanted(call: &mut Call<'_>, Part { queue, waiters, token, .. }: Part<'_>) -> Done<bool> {
    if !call.exists(&[queue])? {
        return Ok(false);
    }
    if call.zscore(queue, token)?.unwrap_or(0) < -call.now {
        return Ok(true);
    }
    let members = call.zrange_some(queue, Range::Scores(at(0), Bound::HIGHEST), MOST_ASKED)?;
    let tokens: Vec<&[u8]> = members.iter().map(|(_, token)| token.as_slice()).collect();
    let records = if tokens.is_empty() { Vec::new() } else { call.hmget(waiters, &tokens)? };
    for record in records {
        if record.as_deref().and_then(trailing_number).is_some_and(|expiry| expiry > call.now) {
            return Ok(true);
        }
    }
    if tokens.len() < MOST_ASKED {
        return Ok(false);
    }
    call.zrem_all(queue, &tokens)?;
    call.hdel_all(waiters, &tokens)?;
    Ok(true)
}
