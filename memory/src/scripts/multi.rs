//! Takes several locks at once if each of them is free or already the caller's. Otherwise changes nothing, except that it
//! drops dead waiters. Idempotent for each token.
//!
//! Keys: N, queue and waiters of each part, and its readers or permits unless it is exclusive; then fence. Arguments: ttl,
//! and for each part a token and its mode.
//! Answers the server's µs, the ttl, then `entered` or `again` and the fence for each part; or the server's µs, what is
//! left of the holder's TTL, `busy`, and the number of the first part that is busy.

use alloc::vec;
use alloc::vec::Vec;

use leasehold_core::Scalar;

use super::arguments::Arguments;
use super::call::{Call, Done, at};
use super::prelude::{Counter, SHARED, cut};
use super::text::{Value, counts, holder_of, leading_number, number, number_text, trailing_number, word};
use crate::answer::{Answer, Outcome};
use crate::keys::{Bound, Lifetime, Range};

/// One of the locks.
#[derive(Clone, Copy)]
struct Part<'a> {
    name: &'a [u8],
    queue: &'a [u8],
    waiters: &'a [u8],
    /// Readers or permits. Empty if the part is exclusive.
    members: &'a [u8],
    token: &'a [u8],
    mode: &'a [u8],
}

/// What the server has of a part.
enum Found {
    /// The token has it. A share of it ends then.
    Mine(Option<i64>),
    /// It can be taken.
    Free(How),
    /// What is left of the holder's TTL.
    Busy(i64),
}

/// How a part is taken.
enum How {
    Lock,
    Share {
        joins: bool,
        /// Old readers, from before N was something else.
        over: Vec<Vec<u8>>,
    },
    Permits {
        used: i64,
        limit: i64,
        /// The tokens that have ended.
        over: Vec<Vec<u8>>,
    },
}

pub(crate) fn multi(mut call: Call<'_>, arguments: Arguments<'_>) -> Outcome {
    let (ttl, counter, parts) = read(arguments)?;
    let lost = call.us + 3072;
    // Every key is read before the first write, so a key of the wrong type fails the script while nothing has changed.
    let Counter { last, .. } = Counter::read(&mut call, counter, lost)?;
    let mut found = Vec::with_capacity(parts.len());
    for (place, part) in parts.iter().enumerate() {
        match part.look(&mut call)? {
            Found::Busy(left) => {
                let place = Scalar::Int(place as i64 + 1);
                return Ok(Answer::List(vec![Scalar::Int(call.us), Scalar::Int(left), word("busy"), place]));
            }
            other => found.push(other),
        }
    }

    let fence = (last + 1).max(call.us);
    let text = number_text(fence);
    call.set(counter, &text, Lifetime::Kept)?;
    let mut reply = vec![Scalar::Int(call.us), Scalar::Int(ttl)];
    for (part, found) in parts.into_iter().zip(found) {
        let is_mine = matches!(found, Found::Mine(_));
        part.take(&mut call, found, ttl, &text)?;
        reply.extend([word(if is_mine { "again" } else { "entered" }), Scalar::Int(fence)]);
    }
    Ok(Answer::List(reply))
}

fn read<'a>(arguments: Arguments<'a>) -> Done<(i64, &'a [u8], Vec<Part<'a>>)> {
    let (Some((ttl, words)), Some((counter, keys))) = (arguments.words.split_first(), arguments.keys.split_last())
    else {
        return Err(arguments.wrong("has no keys or no arguments"));
    };
    let (mut keys, mut parts) = (keys, Vec::with_capacity(words.len() / 2));
    for words in words.chunks(2) {
        let (part, rest) = match (words, keys) {
            ([token, mode @ b"exclusive"], [name, queue, waiters, rest @ ..]) => {
                (Part { name, queue, waiters, members: b"", token, mode }, rest)
            }
            ([token, mode], [name, queue, waiters, members, rest @ ..]) if *mode != b"exclusive" => {
                (Part { name, queue, waiters, members, token, mode }, rest)
            }
            _ => return Err(arguments.wrong("needs a token and a mode for each 3 or 4 keys, and the counter")),
        };
        parts.push(part);
        keys = rest;
    }
    if !keys.is_empty() {
        return Err(arguments.wrong("has too many keys"));
    }
    Ok((arguments.number("ttl", ttl)?, counter, parts))
}

/// How many waiters, or permits that have ended, a script looks at, at most.
const MOST_WAITERS: usize = 500;
const MOST_OVER: usize = 100;

impl Part<'_> {
    fn look(self, call: &mut Call<'_>) -> Done<Found> {
        let (mine, how, left) = match counts(self.mode) {
            Some((wanted, limit)) => self.look_at_semaphore(call, wanted, limit)?,
            None => self.look_at_lock(call)?,
        };
        Ok(match (mine, how) {
            (Some(mine), _) => mine,
            (None, Some(how)) if !self.is_wanted(call)? => Found::Free(how),
            _ => Found::Busy(left),
        })
    }

    fn look_at_lock(self, call: &mut Call<'_>) -> Done<(Option<Found>, Option<How>, i64)> {
        let value = call.get(self.name)?;
        let (mut mine, mut joins) = (None, false);
        if self.mode != SHARED {
            mine = value.as_deref().is_some_and(|value| holder_of(value) == self.token).then_some(Found::Mine(None));
        } else if value.as_deref().and_then(Value::read).is_some_and(|value| value.holder == SHARED) {
            mine = self.expiry(call, self.members)?;
            joins = call.zcount(self.members, at(call.now + 1), Bound::HIGHEST)? > 0;
        }
        let mut over = Vec::new();
        if self.mode == SHARED && value.is_none() {
            let old = call.zrange_some(self.members, Range::ALL, MOST_OVER)?;
            over = old.into_iter().map(|(_, token)| token).collect();
        }
        let free = value.is_none() && over.len() < MOST_OVER || joins;
        let how = if self.mode == SHARED { How::Share { joins, over } } else { How::Lock };
        Ok((mine, free.then_some(how), call.pttl(self.name)?))
    }

    /// If the hash does not have all permits, the semaphore's own script puts it right.
    fn look_at_semaphore(
        self,
        call: &mut Call<'_>,
        wanted: i64,
        limit: i64,
    ) -> Done<(Option<Found>, Option<How>, i64)> {
        let mine = self.expiry(call, self.name)?;
        let members = call.zcard(self.name)?;
        let known = call.hlen(self.members)? == if members > 0 { members + 3 } else { 0 };
        let mut used = 0;
        if members > 0 {
            let text = call.hget(self.members, b"used")?;
            used = text.as_deref().and_then(number).unwrap_or(1_000_000_000);
        }
        let over = call.zrange_some(self.name, Range::Scores(Bound::LOWEST, at(call.now)), MOST_OVER)?;
        let over: Vec<Vec<u8>> = over.into_iter().map(|(_, token)| token).collect();
        for token in &over {
            used -= call.hget(self.members, token)?.as_deref().and_then(leading_number).unwrap_or_default();
        }
        used += wanted;
        let place = over.len() as i64;
        let first = call.zrange_one(self.name, Range::Ranks(place, place))?;
        let free = known && used <= limit.max(wanted);
        let left = first.map_or(-2, |(expiry, _)| expiry - call.now);
        Ok((mine, free.then_some(How::Permits { used, limit, over }), left))
    }

    /// When the token's share ends, if it has one.
    fn expiry(self, call: &mut Call<'_>, key: &[u8]) -> Done<Option<Found>> {
        let expiry = call.zscore(key, self.token)?.filter(|expiry| *expiry > call.now);
        Ok(expiry.map(|expiry| Found::Mine(Some(expiry))))
    }

    /// Whether the token may not enter: a live waiter is ahead, or the token was given up. If the first 500 waiters are
    /// dead, it drops them and answers true, because a live waiter may be behind them. A later call looks further.
    fn is_wanted(self, call: &mut Call<'_>) -> Done<bool> {
        let Self { queue, waiters, token, .. } = self;
        if !call.exists(&[queue])? {
            return Ok(false);
        }
        if call.zscore(queue, token)?.unwrap_or(0) < -call.now {
            return Ok(true);
        }
        let members = call.zrange_some(queue, Range::Scores(at(0), Bound::HIGHEST), MOST_WAITERS)?;
        let tokens: Vec<&[u8]> = members.iter().map(|(_, token)| token.as_slice()).collect();
        let records = if tokens.is_empty() { Vec::new() } else { call.hmget(waiters, &tokens)? };
        for record in records {
            if record.as_deref().and_then(trailing_number).is_some_and(|expiry| expiry > call.now) {
                return Ok(true);
            }
        }
        if tokens.len() < MOST_WAITERS {
            return Ok(false);
        }
        call.zrem_all(queue, &tokens)?;
        call.hdel_all(waiters, &tokens)?;
        Ok(true)
    }

    fn take(self, call: &mut Call<'_>, found: Found, ttl: i64, fence: &[u8]) -> Done {
        let Self { name, members, token, mode, .. } = self;
        let new_ends = call.now + ttl;
        match found {
            Found::Mine(None) => {}
            Found::Mine(Some(expiry)) => {
                let share = if mode == SHARED { members } else { name };
                call.zadd(share, expiry.max(new_ends), token)?;
            }
            Found::Free(How::Permits { used, limit, over }) => {
                call.zadd(name, new_ends, token)?;
                let (used, limit) = (number_text(used), number_text(limit));
                let pairs: [(&[u8], &[u8]); 4] =
                    [(token, mode), (b"used", &used), (b"limit", &limit), (b"fence", fence)];
                call.hset(members, &pairs)?;
                // After the new permits, so that no key is empty meanwhile.
                for other in over.iter().filter(|other| *other != token) {
                    call.zrem(name, other)?;
                    call.hdel(members, other)?;
                }
            }
            Found::Free(How::Share { joins, over }) => {
                // N first, because a delete would let a new lock in at maxmemory.
                let keep = if joins { cut(call.pttl(name)?).max(ttl) } else { ttl };
                call.set(name, &[b"shared ", fence].concat(), Lifetime::Ms(keep))?;
                call.zadd(members, new_ends, token)?;
                for other in over.iter().filter(|other| *other != token) {
                    call.zrem(members, other)?;
                }
            }
            Found::Free(How::Lock) => call.set(name, &[token, b" ", fence].concat(), Lifetime::Ms(ttl))?,
            Found::Busy(_) => {}
        }
        if mode == SHARED || counts(mode).is_some() {
            call.expire_at_least(members, ttl)?;
        }
        call.expire_at_least(name, ttl)
    }
}
