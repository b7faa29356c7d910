//! A semaphore's state: N is a sorted set of token -> expiry (ms), beside a hash of token -> mode with the sum `used`, the
//! `limit` and the last `fence`. A mode is `<permits>/<limit>`. The limit of the latest acquire counts. A request for
//! more than the limit is granted when everything else is free. The mode of a rate is `<permits>/<limit>/<per>`, and the hash has `per`,
//! too. Its permits count for `per` ms from their grant on: no release gives them back, and nothing renews them.

use alloc::vec::Vec;

use super::Kind;
use super::base::{Base, cut};
use crate::answer::Refusal;
use crate::keys::{Bound, Range};
use crate::scripts::call::{Done, at};
use crate::scripts::text::{is_token, leading_number, number, number_text};

pub(crate) struct SemaphoreState {
    /// How many tokens hold permits.
    members: i64,
    /// How many fields the hash has.
    known: i64,
    used: i64,
    limit: i64,
    /// How long the permits of a rate count, in ms. 0 without a rate.
    per: i64,
    /// Whether the hash has all that it must have.
    is_whole: bool,
}

const ANOTHER_RATE: Refusal = Refusal::new("WRONGTYPE the semaphore has another `per`, or none");
pub(crate) const NOT_A_SEMAPHORE: Refusal = Refusal::new("WRONGTYPE the sorted set is no semaphore");
/// How many expired permits a script removes, at most. This takes the server about a millisecond. The others count as used
/// until the next call.
const MOST_OVER: usize = 100;
const NOT_A_NUMBER: Refusal = Refusal::new("ERR Error running script: a count of the semaphore is no number");

/// Unknown permits count as more than the limit: somebody deleted the hash under its holders.
fn permits(mode: Option<&[u8]>) -> i64 {
    mode.and_then(leading_number).unwrap_or(1_000_000_000)
}

/// The numbers of a mode: permits, limit, and the `per` of a rate. None if it is no mode of a semaphore.
fn numbers(mode: &[u8]) -> Option<(i64, i64, Option<i64>)> {
    let mut parts = mode.split(|byte| *byte == b'/').map(number);
    let (permits, limit) = (parts.next()??, parts.next()??);
    let per = match parts.next() {
        None => None,
        Some(per) => Some(per?),
    };
    parts.next().is_none().then_some((permits, limit, per))
}

fn per_of(mode: &[u8]) -> i64 {
    numbers(mode).and_then(|(_, _, per)| per).unwrap_or(0)
}

fn limit_of(mode: &[u8]) -> Done<i64> {
    numbers(mode).map(|(_, limit, _)| limit).ok_or(NOT_A_NUMBER)
}

impl SemaphoreState {
    fn count(text: Option<&Option<Vec<u8>>>) -> Done<i64> {
        let Some(Some(text)) = text else { return Ok(0) };
        core::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(NOT_A_NUMBER)
    }

    fn permits_of(base: &mut Base<'_>, token: &[u8]) -> Done<i64> {
        Ok(permits(base.call.hget(base.keys.members, token)?.as_deref()))
    }

    fn save(&mut self, base: &mut Base<'_>) -> Done {
        let key = base.keys.members;
        if self.members == 0 {
            base.call.del(&[key])?;
            self.used = 0;
            return Ok(());
        }
        let (used, limit) = (number_text(self.used), number_text(self.limit));
        base.call.hset(key, &[(b"used", &used), (b"limit", &limit)])?;
        if self.known == 0 {
            let ms = cut(base.call.pttl(base.keys.name)?);
            if ms > 0 {
                base.call.pexpire(key, ms)?;
            }
        }
        Ok(())
    }
}

impl Kind for SemaphoreState {
    const LINGERS: bool = false;

    fn read(base: &mut Base<'_>) -> Done<Self> {
        let members = base.call.zcard(base.keys.name)?;
        if members > 0 {
            let first = base.call.zrange_one(base.keys.name, Range::FIRST)?;
            if !first.is_some_and(|(_, token)| is_token(&token)) {
                return Err(NOT_A_SEMAPHORE);
            }
        }
        let known = base.call.hlen(base.keys.members)?;
        let (mut used, mut limit, mut per) = (0, 0, 0);
        if known > 0 {
            let counts = base.call.hmget(base.keys.members, &[b"used", b"limit", b"per"])?;
            (used, limit, per) =
                (Self::count(counts.first())?, Self::count(counts.get(1))?, Self::count(counts.get(2))?);
        }
        let fields = if per > 0 { 4 } else { 3 };
        let is_whole = known == if members > 0 { members + fields } else { 0 };
        Ok(Self { members, known, used, limit, per, is_whole })
    }

    /// Another `per` is another kind. Permits that have all ended are nobody's.
    fn check(&mut self, base: &mut Base<'_>, mode: &[u8]) -> Done {
        if self.members == 0 || !self.is_whole || per_of(mode) == self.per {
            return Ok(());
        }
        let last = base.call.zrange_one(base.keys.name, Range::LAST)?;
        if last.is_some_and(|(expiry, _)| expiry > base.call.now) {
            return Err(ANOTHER_RATE);
        }
        base.call.del(&[base.keys.name, base.keys.members])?;
        (self.members, self.known, self.used, self.limit) = (0, 0, 0, 0);
        Ok(())
    }

    fn per(&self) -> i64 {
        self.per
    }

    fn is_mode(mode: &[u8]) -> bool {
        numbers(mode).is_some()
    }

    fn purge(&mut self, base: &mut Base<'_>) -> Done {
        if !self.is_whole {
            self.used = 0;
            for (_, token) in base.call.zrange(base.keys.name, Range::ALL)? {
                self.used += Self::permits_of(base, &token)?;
            }
            // The result is written with the next change, because a release must be allowed at maxmemory.
            if self.members == 0 {
                self.save(base)?;
            }
        }
        if self.members > 0 {
            let over = Range::Scores(Bound::LOWEST, at(base.call.now));
            let over = base.call.zrange_some(base.keys.name, over, MOST_OVER)?;
            for (_, token) in &over {
                self.take(base, token)?;
            }
            base.crowded = over.len() == MOST_OVER && self.members > 0;
        }
        Ok(())
    }

    fn held(&self, base: &mut Base<'_>, token: &[u8], asked: &[u8]) -> Done<Option<Vec<u8>>> {
        let expiry = if self.members > 0 { base.call.zscore(base.keys.name, token)? } else { None };
        if expiry.is_none_or(|expiry| expiry <= base.call.now) {
            return Ok(None);
        }
        let mode = base.call.hget(base.keys.members, token)?;
        let is_other = |mode: &Vec<u8>| permits(Some(mode)) != permits(Some(asked));
        Ok(Some(mode.filter(is_other).unwrap_or_else(|| asked.to_vec())))
    }

    /// A new acquire brings the limit along.
    fn propose(&mut self, base: &mut Base<'_>, mode: &[u8]) -> Done {
        self.limit = limit_of(mode)?;
        if self.members > 0 { self.save(base) } else { Ok(()) }
    }

    fn compatible(&self, mode: &[u8]) -> bool {
        let fits = |wanted: i64| self.used + wanted <= self.limit.max(wanted);
        leading_number(mode).is_some_and(fits) && (self.members == 0 || per_of(mode) == self.per)
    }

    fn hold(&mut self, base: &mut Base<'_>, token: &[u8], mode: &[u8], ms: i64) -> Done {
        if self.members == 0 {
            self.per = per_of(mode);
        }
        // The millisecond of the grant has begun before it. So the window lasts for the one after its last.
        let ms = if self.per > 0 { self.per + 1 } else { ms };
        if base.call.zadd(base.keys.name, base.call.now + ms, token)? {
            self.members += 1;
            self.used += permits(Some(mode));
            // All holders had ended, and the limit with them. The limit of the first waiter counts.
            if self.limit == 0 {
                self.limit = limit_of(mode)?;
            }
            let fence = number_text(base.draw());
            base.call.hset(base.keys.members, &[(token, mode), (b"fence", &fence)])?;
            if self.per > 0 {
                base.call.hset(base.keys.members, &[(b"per", &number_text(self.per))])?;
            }
            self.save(base)?;
        }
        base.call.expire_at_least(base.keys.name, ms)?;
        base.call.expire_at_least(base.keys.members, ms)
    }

    fn raise(&mut self, base: &mut Base<'_>, token: &[u8], mode: &[u8], ms: i64) -> Done<i64> {
        let expiry = base.call.zscore(base.keys.name, token)?.unwrap_or(0);
        let rest = cut(expiry - base.call.now);
        if self.per > 0 {
            return Ok(rest);
        }
        let ms = ms.max(rest);
        self.hold(base, token, mode, ms)?;
        Ok(ms)
    }

    fn give_up(&mut self, base: &mut Base<'_>, token: &[u8]) -> Done<bool> {
        if self.per == 0 {
            return self.take(base, token);
        }
        let expiry = if self.members > 0 { base.call.zscore(base.keys.name, token)? } else { None };
        Ok(expiry.is_some_and(|expiry| expiry > base.call.now))
    }

    fn take(&mut self, base: &mut Base<'_>, token: &[u8]) -> Done<bool> {
        if !base.call.zrem(base.keys.name, token)? {
            return Ok(false);
        }
        self.used -= Self::permits_of(base, token)?;
        base.call.hdel(base.keys.members, token)?;
        self.members -= 1;
        self.save(base)?;
        Ok(true)
    }

    fn holders(&self, base: &mut Base<'_>, till: i64) -> Done<Vec<Vec<u8>>> {
        let holders = base.call.zrange(base.keys.name, Range::Ranks(0, till))?;
        Ok(holders.into_iter().map(|(_, token)| token).collect())
    }

    /// When the first permits are free at the latest, unless they are renewed.
    fn left(&self, base: &mut Base<'_>) -> Done<i64> {
        let first = base.call.zrange_one(base.keys.name, Range::FIRST)?;
        Ok(first.map_or(-2, |(expiry, _)| expiry - base.call.now))
    }

    /// Never `taken`, because other holders don't take its place.
    fn absent(&self) -> &'static str {
        "gone"
    }

    /// No other library uses this format.
    fn foreign(&self, _: &mut Base<'_>) -> Done<bool> {
        Ok(false)
    }

    /// A release always looks into the queue.
    fn mark_holder(&mut self, _: &mut Base<'_>) -> Done {
        Ok(())
    }

    fn holder(&self) -> Option<(&[u8], i64)> {
        None
    }
}
