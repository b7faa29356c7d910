//! Runs the fast path of several commands of one client. Leaves an entry undone if it is anything else, or if the
//! server refuses one of its commands. The client then sends that command to its own script.
//!
//! Keys: those of each entry; then fence, if an entry takes something. Arguments: how many entries take something, then
//! those of each entry:
//!
//! ```text
//! entry              keys                 arguments
//! acquire            N, queue             token and a space, ttl
//! release            N                    N's value
//! renew              N                    token, ttl
//! acquire-reentrant  N, queue             token, ttl
//! release-reentrant  N                    token
//! renew-reentrant    N                    token, ttl
//! share              N, queue, readers    token, ttl
//! renew-share        N, readers           token, ttl
//! unshare            N, readers           token
//! permit             N, queue, permits    token, ttl, mode
//! renew-permit       N, permits           token, ttl
//! unpermit           N, queue, permits    token
//! ```
//!
//! Answers the server's µs and the fence of all that took something, or 0 and 0; then a number for each entry: 0 if it was
//! left undone, else 1, or a renewal's TTL, or for `acquire-reentrant` one more than how many wait.

use alloc::vec;
use alloc::vec::Vec;

use leasehold_core::Scalar;

use super::acquire_fast::draw;
use super::arguments::Arguments;
use super::call::{Call, Done, at};
use super::prelude::{SHARED, channel_of, cut, waiting};
use super::text::{Value, counts, holder_of, leading_number, number_text};
use crate::answer::{Answer, Outcome};
use crate::keys::{Bound, Lifetime, Range};

enum Entry<'a> {
    Acquire { name: &'a [u8], queue: &'a [u8], token: &'a [u8], ttl: i64 },
    Release { name: &'a [u8], value: &'a [u8] },
    Renew { name: &'a [u8], token: &'a [u8], ttl: i64 },
    AcquireReentrant { name: &'a [u8], queue: &'a [u8], token: &'a [u8], ttl: i64 },
    ReleaseReentrant { name: &'a [u8], token: &'a [u8] },
    RenewReentrant { name: &'a [u8], token: &'a [u8], ttl: i64 },
    Share { name: &'a [u8], queue: &'a [u8], readers: &'a [u8], token: &'a [u8], ttl: i64 },
    RenewShare { name: &'a [u8], readers: &'a [u8], token: &'a [u8], ttl: i64 },
    Unshare { name: &'a [u8], readers: &'a [u8], token: &'a [u8] },
    Permit(Permit<'a>),
    RenewPermit { name: &'a [u8], permits: &'a [u8], token: &'a [u8], ttl: i64 },
    Unpermit { name: &'a [u8], queue: &'a [u8], permits: &'a [u8], token: &'a [u8] },
}

#[derive(Clone, Copy)]
struct Permit<'a> {
    name: &'a [u8],
    queue: &'a [u8],
    permits: &'a [u8],
    token: &'a [u8],
    ttl: i64,
    mode: &'a [u8],
    wanted: i64,
    limit: i64,
}

pub(crate) fn batch(mut call: Call<'_>, arguments: Arguments<'_>) -> Outcome {
    let Some((takes, words)) = arguments.words.split_first() else { return Err(arguments.wrong("has no arguments")) };
    let takes = arguments.number("count of entries that take something", takes)? != 0;
    let (counter, keys) = match arguments.keys.split_last() {
        Some((counter, keys)) if takes => (Some(*counter), keys),
        None if takes => return Err(arguments.wrong("has no keys")),
        _ => (None, arguments.keys),
    };
    let entries = read(arguments, keys, words)?;
    let mut fence = None;
    let mut answer = vec![Scalar::Int(0); 2];
    // The counter before any grant: if the server refuses it, nobody is granted.
    if let Some(counter) = counter {
        fence = draw(&mut call, counter)?;
        let drawn = fence.clone().map_or(Scalar::Int(0), Scalar::Text);
        answer = vec![Scalar::Text(call.us_text()), drawn];
    }
    for entry in entries {
        let done = entry.run(&mut call, fence.as_deref(), counter.unwrap_or_default()).unwrap_or(0);
        answer.push(Scalar::Int(done));
    }
    Ok(Answer::List(answer))
}

/// The entries. An unknown one ends the batch.
fn read<'a>(arguments: Arguments<'a>, mut keys: &'a [&'a [u8]], mut words: &'a [&'a [u8]]) -> Done<Vec<Entry<'a>>> {
    let mut entries = Vec::new();
    while let Some((what, rest)) = words.split_first() {
        let number = |word: &[u8]| arguments.number("ttl", word);
        let (entry, some_keys, some_words) = match (*what, keys, rest) {
            (b"acquire", [name, queue, keys @ ..], [token, ttl, words @ ..]) => {
                (Entry::Acquire { name, queue, token, ttl: number(ttl)? }, keys, words)
            }
            (b"release", [name, keys @ ..], [value, words @ ..]) => (Entry::Release { name, value }, keys, words),
            (b"renew", [name, keys @ ..], [token, ttl, words @ ..]) => {
                (Entry::Renew { name, token, ttl: number(ttl)? }, keys, words)
            }
            (b"acquire-reentrant", [name, queue, keys @ ..], [token, ttl, words @ ..]) => {
                (Entry::AcquireReentrant { name, queue, token, ttl: number(ttl)? }, keys, words)
            }
            (b"release-reentrant", [name, keys @ ..], [token, words @ ..]) => {
                (Entry::ReleaseReentrant { name, token }, keys, words)
            }
            (b"renew-reentrant", [name, keys @ ..], [token, ttl, words @ ..]) => {
                (Entry::RenewReentrant { name, token, ttl: number(ttl)? }, keys, words)
            }
            (b"share", [name, queue, readers, keys @ ..], [token, ttl, words @ ..]) => {
                (Entry::Share { name, queue, readers, token, ttl: number(ttl)? }, keys, words)
            }
            (b"renew-share", [name, readers, keys @ ..], [token, ttl, words @ ..]) => {
                (Entry::RenewShare { name, readers, token, ttl: number(ttl)? }, keys, words)
            }
            (b"unshare", [name, readers, keys @ ..], [token, words @ ..]) => {
                (Entry::Unshare { name, readers, token }, keys, words)
            }
            (b"permit", [name, queue, permits, keys @ ..], [token, ttl, mode, words @ ..]) => {
                let (wanted, limit) = counts(mode).ok_or_else(|| arguments.bad("mode", mode, "<permits>/<limit>"))?;
                let ttl = number(ttl)?;
                (Entry::Permit(Permit { name, queue, permits, token, ttl, mode, wanted, limit }), keys, words)
            }
            (b"renew-permit", [name, permits, keys @ ..], [token, ttl, words @ ..]) => {
                (Entry::RenewPermit { name, permits, token, ttl: number(ttl)? }, keys, words)
            }
            (b"unpermit", [name, queue, permits, keys @ ..], [token, words @ ..]) => {
                (Entry::Unpermit { name, queue, permits, token }, keys, words)
            }
            (
                b"acquire" | b"release" | b"renew" | b"acquire-reentrant" | b"release-reentrant" | b"renew-reentrant"
                | b"share" | b"renew-share" | b"unshare" | b"permit" | b"renew-permit" | b"unpermit",
                ..,
            ) => {
                return Err(arguments.wrong("has too few keys or arguments"));
            }
            _ => break,
        };
        entries.push(entry);
        (keys, words) = (some_keys, some_words);
    }
    Ok(entries)
}

const UNDONE: Done<i64> = Ok(0);

impl Entry<'_> {
    /// What the entry answers. An error leaves it undone.
    fn run(&self, call: &mut Call<'_>, fence: Option<&[u8]>, counter: &[u8]) -> Done<i64> {
        match *self {
            Self::Acquire { name, queue, token, ttl } => {
                let Some(fence) = fence else { return UNDONE };
                if call.exists(&[name, queue])? {
                    return UNDONE;
                }
                call.set(name, &[token, fence].concat(), Lifetime::Ms(ttl))?;
                Ok(1)
            }
            Self::Release { name, value } => {
                if call.get(name)?.as_deref() != Some(value) {
                    return UNDONE;
                }
                Ok(call.del(&[name])? as i64)
            }
            Self::Renew { name, token, ttl } => {
                if call.get(name)?.as_deref().map(holder_of) != Some(token) {
                    return UNDONE;
                }
                let ms = call.pttl(name)?.max(ttl);
                Ok(if call.pexpire(name, ms)? { ms } else { 0 })
            }
            Self::AcquireReentrant { name, queue, token, ttl } => {
                if fence.is_none() || call.exists(&[name, queue])? {
                    return UNDONE;
                }
                call.hset(name, &[(token, b"1")])?;
                let _ = call.pexpire(name, ttl);
                Ok(1 + waiting(call, name, counter))
            }
            Self::ReleaseReentrant { name, token } => {
                if call.hlen(name)? != 1 || call.hget(name, token)?.is_none() {
                    return UNDONE;
                }
                call.del(&[name])?;
                call.publish(&channel_of(name), b"0");
                Ok(1)
            }
            Self::RenewReentrant { name, token, ttl } => {
                if call.hget(name, token)?.is_none() {
                    return UNDONE;
                }
                let ms = call.pttl(name)?.max(ttl);
                Ok(if call.pexpire(name, ms)? { ms } else { 0 })
            }
            Self::RenewShare { name, readers, token, ttl } => renew_share(call, name, readers, token, ttl),
            Self::RenewPermit { name, permits, token, ttl } => renew_permit(call, name, permits, token, ttl),
            Self::Share { name, queue, readers, token, ttl } => match fence {
                Some(fence) => share(call, name, queue, readers, token, ttl, fence),
                None => UNDONE,
            },
            Self::Unshare { name, readers, token } => unshare(call, name, readers, token),
            Self::Permit(permit) => match fence {
                Some(fence) => permit.take(call, fence),
                None => UNDONE,
            },
            Self::Unpermit { name, queue, permits, token } => unpermit(call, name, queue, permits, token),
        }
    }
}

/// No client waits, and no token has a tombstone. The caller is no reader yet, or its own script raises its TTL.
fn share(
    call: &mut Call<'_>,
    name: &[u8],
    queue: &[u8],
    readers: &[u8],
    token: &[u8],
    ttl: i64,
    fence: &[u8],
) -> Done<i64> {
    if call.exists(&[queue])? {
        return UNDONE;
    }
    let joins = match call.get(name)? {
        None => false,
        Some(value) if is_shared(&value) && call.zcard(readers)? > 0 && call.zscore(readers, token)?.is_none() => true,
        Some(_) => return UNDONE,
    };
    let keep = if joins { cut(call.pttl(name)?).max(ttl) } else { ttl };
    // N first, because a delete would let a new lock in at maxmemory. Old readers count only while N is `shared`.
    call.set(name, &[b"shared ", fence].concat(), Lifetime::Ms(keep))?;
    if !joins {
        let _ = call.del(&[readers]);
    }
    if !call.zadd(readers, call.now + ttl, token)? {
        return UNDONE;
    }
    let _ = call.expire_at_least(readers, ttl);
    Ok(1)
}

/// Whether readers hold the lock, and no client waits.
fn is_shared(value: &[u8]) -> bool {
    Value::read(value).is_some_and(|value| value.holder == SHARED && !value.marked)
}

fn renew_share(call: &mut Call<'_>, name: &[u8], readers: &[u8], token: &[u8], ttl: i64) -> Done<i64> {
    let is_shared = call.get(name)?.is_some_and(|value| Value::read(&value).is_some_and(|it| it.holder == SHARED));
    let Some(expiry) = call.zscore(readers, token)?.filter(|expiry| is_shared && *expiry > call.now) else {
        return UNDONE;
    };
    let ms = ttl.max(expiry - call.now);
    // N first, always.
    let keep = call.pttl(name)?.max(ms);
    call.pexpire(name, keep)?;
    call.zadd(readers, call.now + ms, token)?;
    let _ = call.expire_at_least(readers, ms);
    Ok(ms)
}

fn renew_permit(call: &mut Call<'_>, name: &[u8], permits: &[u8], token: &[u8], ttl: i64) -> Done<i64> {
    let Some(expiry) = call.zscore(name, token)?.filter(|expiry| *expiry > call.now) else { return UNDONE };
    let ms = ttl.max(expiry - call.now);
    let keep = call.pttl(name)?.max(ms);
    call.pexpire(name, keep)?;
    let _ = call.pexpire(permits, keep);
    call.zadd(name, call.now + ms, token)?;
    Ok(ms)
}

fn unshare(call: &mut Call<'_>, name: &[u8], readers: &[u8], token: &[u8]) -> Done<i64> {
    let value = call.get(name)?;
    if !value.is_some_and(|value| is_shared(&value)) || !call.zrem(readers, token)? {
        return UNDONE;
    }
    // While a slot moves, a key that this script has emptied counts as moved.
    let _ = match call.zrange_one(readers, Range::LAST) {
        Ok(Some((latest, _))) => call.pexpire(name, latest - call.now).map(drop),
        _ => call.del(&[name]).map(drop),
    };
    Ok(1)
}

impl Permit<'_> {
    fn take(self, call: &mut Call<'_>, fence: &[u8]) -> Done<i64> {
        let Self { name, queue, permits, token, ttl, wanted, limit, .. } = self;
        // Nobody holds a permit.
        if !call.exists(&[name, queue, permits])? {
            if !call.zadd(name, call.now + ttl, token)? {
                return UNDONE;
            }
            self.write(call, wanted, fence);
            let _ = call.pexpire(name, ttl);
            let _ = call.pexpire(permits, ttl);
            return Ok(1);
        }
        if call.exists(&[queue])? || call.zcount(name, Bound::LOWEST, at(call.now))? != 0 {
            return UNDONE;
        }
        let Some(used) = used(call, permits)? else { return UNDONE };
        let used = used + wanted;
        if !is_known(call, name, permits)?
            || used > limit.max(wanted)
            || call.hget(permits, token)?.is_some()
            || !call.zadd(name, call.now + ttl, token)?
        {
            return UNDONE;
        }
        self.write(call, used, fence);
        let _ = call.expire_at_least(name, ttl);
        let _ = call.expire_at_least(permits, ttl);
        Ok(1)
    }

    fn write(self, call: &mut Call<'_>, used: i64, fence: &[u8]) {
        let (used, limit) = (number_text(used), number_text(self.limit));
        let pairs = [(self.token, self.mode), (b"used", &used), (b"limit", &limit), (b"fence", fence)];
        let _ = call.hset(self.permits, &pairs);
    }
}

fn unpermit(call: &mut Call<'_>, name: &[u8], queue: &[u8], permits: &[u8], token: &[u8]) -> Done<i64> {
    if call.exists(&[queue])? {
        return UNDONE;
    }
    let Some(mode) = call.hget(permits, token)? else { return UNDONE };
    let (Some(used), Some(returned)) = (used(call, permits)?, leading_number(&mode)) else { return UNDONE };
    if !is_known(call, name, permits)? || !call.zrem(name, token)? {
        return UNDONE;
    }
    if call.exists(&[name]) == Ok(false) {
        let _ = call.del(&[permits]);
        return Ok(1);
    }
    let _ = call.hdel(permits, token);
    let _ = call.hset(permits, &[(b"used", &number_text(used - returned))]);
    Ok(1)
}

/// How many permits are in use, if the hash says so.
fn used(call: &mut Call<'_>, permits: &[u8]) -> Done<Option<i64>> {
    Ok(call.hget(permits, b"used")?.and_then(|used| core::str::from_utf8(&used).ok()?.parse().ok()))
}

/// Whether the hash has the permits of every holder, beside `used`, `limit` and `fence`.
fn is_known(call: &mut Call<'_>, name: &[u8], permits: &[u8]) -> Done<bool> {
    Ok(call.hlen(permits)? == call.zcard(name)? + 3)
}
