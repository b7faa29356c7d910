//! A lock's state: N is `<holder> <fence>`, where the holder is a token, or `shared` beside a sorted set of reader -> its
//! own expiry. `*` in place of the space says that clients wait, so that the fast release leaves the lock to the slow
//! one. Any other value is the token of another library's client. Readers count only while N is `shared`.

use alloc::vec;
use alloc::vec::Vec;

use super::base::{Base, cut};
use super::{EXCLUSIVE, Kind, SHARED};
use crate::keys::{Bound, Lifetime, Range};
use crate::scripts::call::{Done, at};
use crate::scripts::text::{Value, is_token, number, number_text};

pub(crate) struct LockState {
    /// The holder's token, `shared`, or the whole value if another library wrote it.
    holder: Option<Vec<u8>>,
    /// The rest of the value, if these scripts wrote it.
    mark: Option<Mark>,
    /// How many readers there are. They are 0 if `shared` stands for readers that were evicted.
    pub(crate) readers: i64,
}

struct Mark {
    clients_wait: bool,
    fence: Vec<u8>,
}

impl LockState {
    fn is_shared(&self) -> bool {
        self.holder.as_deref() == Some(SHARED)
    }

    fn write_holder(&mut self, base: &mut Base<'_>, token: &[u8], ms: i64) -> Done {
        let mark = Mark { clients_wait: base.waiting > 0, fence: number_text(base.draw()) };
        let value = mark.value(token);
        self.holder = Some(token.to_vec());
        self.mark = Some(mark);
        base.call.set(base.keys.name, &value, Lifetime::Ms(ms))?;
        base.granted_here = true;
        Ok(())
    }

    fn free(&mut self, base: &mut Base<'_>) -> Done {
        base.call.del(&[base.keys.name])?;
        self.holder = None;
        Ok(())
    }
}

impl Mark {
    fn value(&self, holder: &[u8]) -> Vec<u8> {
        [holder, if self.clients_wait { b"*" } else { b" " }, &self.fence].concat()
    }
}

impl Kind for LockState {
    const LINGERS: bool = true;

    fn read(base: &mut Base<'_>) -> Done<Self> {
        let stored = base.call.get(base.keys.name)?;
        let (holder, mark) = match stored.as_deref().map(|value| (value, Value::read(value))) {
            None => (None, None),
            Some((_, Some(value))) => {
                let mark = Mark { clients_wait: value.marked, fence: value.fence.to_vec() };
                (Some(value.holder.to_vec()), Some(mark))
            }
            Some((value, None)) => (Some(value.to_vec()), None),
        };
        let mut state = Self { holder, mark, readers: 0 };
        if state.is_shared() {
            state.readers = base.call.zcard(base.keys.members)?;
        }
        Ok(state)
    }

    fn is_mode(_: &[u8]) -> bool {
        true
    }

    fn readers(&self) -> i64 {
        self.readers
    }

    fn free_for_conversion(&mut self, base: &mut Base<'_>) -> Done {
        base.call.del(&[base.keys.name, base.keys.members])?;
        (self.holder, self.readers) = (None, 0);
        Ok(())
    }

    /// A reader counts until its own expiry and only while N is `shared`. If the readers were evicted, `shared` stays
    /// until its TTL is over and nobody enters, because the readers may still be valid.
    fn purge(&mut self, base: &mut Base<'_>) -> Done {
        if self.readers > 0 {
            let removed = base.call.zremrangebyscore(base.keys.members, Bound::LOWEST, at(base.call.now))?;
            self.readers -= removed as i64;
            if self.readers == 0 {
                self.free(base)?;
            }
        }
        Ok(())
    }

    fn held(&self, base: &mut Base<'_>, token: &[u8], _: &[u8]) -> Done<Option<Vec<u8>>> {
        if self.holder.as_deref() == Some(token) {
            return Ok(Some(EXCLUSIVE.to_vec()));
        }
        let reads = self.readers > 0 && base.call.zscore(base.keys.members, token)?.is_some();
        Ok(reads.then(|| SHARED.to_vec()))
    }

    fn propose(&mut self, _: &mut Base<'_>, _: &[u8]) -> Done {
        Ok(())
    }

    fn compatible(&self, mode: &[u8]) -> bool {
        if mode == SHARED {
            return self.holder.is_none() || self.readers > 0;
        }
        self.holder.is_none() && mode == EXCLUSIVE
    }

    /// Requires that the lock is free, or that both the lock and the mode are shared. `shared` keeps the longest TTL of
    /// its readers.
    fn hold(&mut self, base: &mut Base<'_>, token: &[u8], mode: &[u8], ms: i64) -> Done {
        if mode == EXCLUSIVE {
            return self.write_holder(base, token, ms);
        }
        if self.holder.is_some() {
            let left = cut(base.call.pttl(base.keys.name)?);
            self.write_holder(base, SHARED, left.max(ms))?;
        } else {
            // N first, because a delete would let a new lock in at maxmemory.
            self.write_holder(base, SHARED, ms)?;
            // Readers from before N was something else don't count.
            base.call.del(&[base.keys.members])?;
        }
        let new = base.call.zadd(base.keys.members, base.call.now + ms, token)?;
        self.readers += i64::from(new);
        base.call.expire_at_least(base.keys.members, ms)
    }

    fn raise(&mut self, base: &mut Base<'_>, token: &[u8], mode: &[u8], ms: i64) -> Done<i64> {
        if mode == SHARED {
            let expiry = base.call.zscore(base.keys.members, token)?.unwrap_or(0);
            let ms = ms.max(cut(expiry - base.call.now));
            self.hold(base, token, mode, ms)?;
            return Ok(ms);
        }
        let left = cut(base.call.pttl(base.keys.name)?);
        if left < ms {
            base.call.pexpire(base.keys.name, ms)?;
        }
        base.granted_here = true;
        Ok(left.max(ms))
    }

    fn give_up(&mut self, base: &mut Base<'_>, token: &[u8]) -> Done<bool> {
        if self.holder.as_deref() == Some(token) {
            self.free(base)?;
            return Ok(true);
        }
        if self.readers == 0 || !base.call.zrem(base.keys.members, token)? {
            return Ok(false);
        }
        // Only this lowers the TTL of `shared`: to the expiry of the last remaining reader.
        self.readers -= 1;
        if self.readers > 0 {
            let latest = base.call.zrange_one(base.keys.members, Range::LAST)?.map_or(0, |(expiry, _)| expiry);
            base.call.pexpire(base.keys.name, latest - base.call.now)?;
        } else {
            self.free(base)?;
        }
        Ok(true)
    }

    /// `shared` itself stands for readers that were evicted.
    fn holders(&self, base: &mut Base<'_>, till: i64) -> Done<Vec<Vec<u8>>> {
        if self.readers > 0 {
            let readers = base.call.zrange(base.keys.members, Range::Ranks(0, till))?;
            return Ok(readers.into_iter().map(|(_, token)| token).collect());
        }
        Ok(self.holder.clone().map_or_else(Vec::new, |holder| vec![holder]))
    }

    fn left(&self, base: &mut Base<'_>) -> Done<i64> {
        base.call.pttl(base.keys.name)
    }

    fn absent(&self) -> &'static str {
        if self.holder.is_some() { "taken" } else { "gone" }
    }

    /// The value is none of ours, or the key never ends.
    fn foreign(&self, base: &mut Base<'_>) -> Done<bool> {
        let Some(holder) = self.holder.as_deref().filter(|_| !base.granted_here && !self.is_shared()) else {
            return Ok(false);
        };
        Ok(!(self.mark.is_some() && is_token(holder) && base.call.pttl(base.keys.name)? >= 0))
    }

    fn mark_holder(&mut self, base: &mut Base<'_>) -> Done {
        let (Some(holder), Some(mark)) = (&self.holder, &mut self.mark) else { return Ok(()) };
        if !mark.clients_wait && (holder == SHARED || is_token(holder)) {
            mark.clients_wait = true;
            base.call.set(base.keys.name, &mark.value(holder), Lifetime::Kept)?;
        }
        Ok(())
    }

    fn holder(&self) -> Option<(&[u8], i64)> {
        let fence = self.mark.as_ref().and_then(|mark| number(&mark.fence));
        Some((self.holder.as_deref()?, fence.unwrap_or(0)))
    }
}
