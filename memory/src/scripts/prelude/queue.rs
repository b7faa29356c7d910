//! Fences, the queue, grants, and the answer. The same for every kind.

use alloc::format;
use alloc::vec::Vec;

use leasehold_core::Scalar;

use super::base::{Base, Grant};
use super::{Kind, SHARED};
use crate::answer::Refusal;
use crate::keys::Range;
use crate::scripts::arguments::{Fleet, Keys};
use crate::scripts::call::{Call, Done};
use crate::scripts::text::{Record, first_word, number_text, word};

/// A script stops once it has dropped this many dead waiters, which takes the server about 2 ms.
const MOST_SWEPT: usize = 1000;
/// How many waiters a script looks at together, at most.
const LARGEST_BLOCK: i64 = 500;
/// How many waiters a script grants, at most.
const MOST_GRANTS: usize = 64;

/// Who is first in the queue.
enum Head {
    Nobody,
    Waiter(Waiter),
    /// Not known yet, because too many waiters are dead.
    Crowded,
}

/// A live waiter.
struct Waiter {
    token: Vec<u8>,
    record: Record,
}

/// The state of a lock and its queue, while one script changes them.
pub(crate) struct Prelude<'a, K> {
    pub(crate) base: Base<'a>,
    pub(crate) kind: K,
}

/// The values of an answer. Those that are not named are 0.
#[derive(Clone, Copy, Default)]
pub(crate) struct Said {
    pub(crate) value: i64,
    pub(crate) block: i64,
    pub(crate) ms: i64,
}

impl<'a, K: Kind> Prelude<'a, K> {
    /// Reads every key, and then removes the holders whose time is over. `asked` is the mode that the caller asks for, if any.
    pub(crate) fn begin(
        call: Call<'a>,
        keys: Keys<'a>,
        used_fence: i64,
        fleet: Fleet,
        asked: Option<&[u8]>,
    ) -> Done<Self> {
        let mut lock = Self::read(call, keys, used_fence, fleet)?;
        if let Some(mode) = asked {
            lock.kind.check(&mut lock.base, mode)?;
        }
        lock.purge()?;
        Ok(lock)
    }

    /// Reads every key.
    pub(crate) fn read(call: Call<'a>, keys: Keys<'a>, used_fence: i64, fleet: Fleet) -> Done<Self> {
        let mut base = Base::read(call, keys, used_fence, fleet)?;
        let kind = K::read(&mut base)?;
        Ok(Self { base, kind })
    }

    pub(crate) fn purge(&mut self) -> Done {
        self.kind.purge(&mut self.base)
    }

    /// How many fences a grant may use, from the script's fence on. Never more than about a millisecond ahead of the
    /// clock.
    pub(crate) fn block(&mut self, wanted: i64) -> i64 {
        let most = self.base.call.us + 1024 - self.base.draw();
        wanted.min(most).max(1)
    }

    pub(crate) fn held(&mut self, token: &[u8], asked: &[u8]) -> Done<Option<Vec<u8>>> {
        self.kind.held(&mut self.base, token, asked)
    }

    pub(crate) fn hold(&mut self, token: &[u8], mode: &[u8], ms: i64) -> Done {
        self.kind.hold(&mut self.base, token, mode, ms)
    }

    pub(crate) fn raise(&mut self, token: &[u8], mode: &[u8], ms: i64) -> Done<i64> {
        self.kind.raise(&mut self.base, token, mode, ms)
    }

    pub(crate) fn give_up(&mut self, token: &[u8]) -> Done<bool> {
        self.kind.give_up(&mut self.base, token)
    }

    pub(crate) fn take(&mut self, token: &[u8]) -> Done<bool> {
        self.kind.take(&mut self.base, token)
    }

    pub(crate) fn holders(&mut self, till: i64) -> Done<Vec<Vec<u8>>> {
        self.kind.holders(&mut self.base, till)
    }

    /// Removes a waiter from the queue.
    pub(crate) fn drop_waiter(&mut self, token: &[u8]) -> Done {
        self.base.call.zrem(self.base.keys.queue, token)?;
        self.base.call.hdel(self.base.keys.waiters, token)?;
        self.base.waiting -= 1;
        self.base.moved = true;
        Ok(())
    }

    /// A token's score in the queue: when it joined, or the negative end of its tombstone in server ms.
    pub(crate) fn score(&mut self, token: &[u8]) -> Done<i64> {
        if self.base.waiting + self.base.tombstones <= 0 {
            return Ok(0);
        }
        Ok(self.base.call.zscore(self.base.keys.queue, token)?.unwrap_or(0))
    }

    /// Removes a token from the queue. Returns whether it was there.
    pub(crate) fn leave(&mut self, token: &[u8]) -> Done<bool> {
        if self.score(token)? <= 0 {
            return Ok(false);
        }
        self.drop_waiter(token)?;
        Ok(true)
    }

    pub(crate) fn has_tombstone(&mut self, token: &[u8]) -> Done<bool> {
        Ok(self.base.tombstones > 0 && self.score(token)? < -self.base.call.now)
    }

    /// Leaves a tombstone for a token: it can neither wait nor come back. Expired ones are deleted first, because a
    /// delete is allowed at maxmemory.
    pub(crate) fn leave_tombstone(&mut self, token: &[u8], ms: i64) -> Done {
        if ms == 0 {
            return Ok(());
        }
        self.base.remove_old_tombstones()?;
        self.leave(token)?;
        let queue = self.base.keys.queue;
        self.base.call.zadd(queue, -self.base.call.now - ms, token)?;
        self.base.tombstones = self.base.count_tombstones()?;
        self.base.call.expire_at_least(queue, ms)
    }

    /// The first live waiter. Dead waiters before it are dropped, in blocks. The first block is small, because most often
    /// no waiter is dead.
    fn head(&mut self) -> Done<Head> {
        let mut size = 1;
        while self.base.waiting > 0 {
            if self.base.swept >= MOST_SWEPT {
                self.base.crowded = true;
                return Ok(Head::Crowded);
            }
            let first = Range::Ranks(self.base.tombstones, self.base.tombstones + size - 1);
            let members = self.base.call.zrange(self.base.keys.queue, first)?;
            if members.is_empty() {
                return Err(NO_WAITER);
            }
            let tokens: Vec<&[u8]> = members.iter().map(|(_, token)| token.as_slice()).collect();
            let records = self.base.call.hmget(self.base.keys.waiters, &tokens)?;
            for (at, (token, record)) in tokens.iter().zip(records).enumerate() {
                if let Some(record) = record.as_deref().and_then(Record::read)
                    && record.expiry > self.base.call.now
                {
                    self.sweep(tokens.get(..at).unwrap_or_default())?;
                    return Ok(Head::Waiter(Waiter { token: token.to_vec(), record }));
                }
            }
            self.sweep(&tokens)?;
            size = (10 * size).min(LARGEST_BLOCK);
        }
        Ok(Head::Nobody)
    }

    /// Drops the first waiters, which are dead.
    fn sweep(&mut self, tokens: &[&[u8]]) -> Done {
        if tokens.is_empty() {
            return Ok(());
        }
        self.base.call.zrem_all(self.base.keys.queue, tokens)?;
        self.base.call.hdel_all(self.base.keys.waiters, tokens)?;
        self.base.waiting -= tokens.len() as i64;
        self.base.swept += tokens.len();
        self.base.moved = true;
        Ok(())
    }

    /// Whether a live waiter is there, or may be there.
    pub(crate) fn has_waiter(&mut self) -> Done<bool> {
        Ok(!matches!(self.head()?, Head::Nobody))
    }

    /// Grants the head of the queue, or up to 64 readers or permits, for the waiter's claim window. The caller itself
    /// gets its whole TTL. A waiter leaves the queue before it is written elsewhere, so that a grant is allowed at
    /// maxmemory.
    pub(crate) fn grant(&mut self, caller: Option<&[u8]>) -> Done {
        for turn in 0..if self.base.is_mixed() { 0 } else { MOST_GRANTS + 1 } {
            let Head::Waiter(Waiter { token, record }) = self.head()? else { return Ok(()) };
            let is_caller = caller == Some(token.as_slice());
            let fits = self.kind.compatible(&record.mode);
            if turn == MOST_GRANTS || !fits {
                // No release grants the permits of a rate. So its new first waiter learns when to ask.
                if self.kind.per() > 0 && self.base.moved && !is_caller {
                    let ms = if fits { 0 } else { self.kind.left(&mut self.base)?.max(0) };
                    self.base.next = Some((token, ms));
                }
                return Ok(());
            }
            let ms = if is_caller { record.ttl } else { record.ttl.min(record.claim) };
            self.drop_waiter(&token)?;
            self.hold(&token, &record.mode, ms)?;
            let block = self.block(record.block);
            // Only a reader or permits leave room for the next waiter. Else it isn't that waiter's turn, and it isn't dropped.
            let leaves_room = record.mode == SHARED || record.mode.first().is_some_and(u8::is_ascii_digit);
            let granted = Grant { token, mode: first_word(&record.mode).to_vec(), block, ms };
            if is_caller {
                self.base.mine = Some(granted);
            } else {
                self.base.grants.push(granted);
            }
            if !leaves_room {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Grants the head of the queue, and answers.
    pub(crate) fn grant_and_answer(&mut self, status: &str, said: Said) -> Done<Vec<Scalar>> {
        self.grant(None)?;
        self.answer(status, said)
    }

    /// Writes the last fence, publishes the grants, and returns the answer.
    pub(crate) fn answer(&mut self, status: &str, said: Said) -> Done<Vec<Scalar>> {
        self.base.write_counter()?;
        let foreign = self.kind.foreign(&mut self.base)?;
        let Said { value, block, ms } = said;
        let numbers = [value, block, self.base.call.us, ms, self.base.waiting, foreign.into()];
        let reply = core::iter::once(word(status)).chain(numbers.map(Scalar::Int)).collect();
        let grants = core::mem::take(&mut self.base.grants);
        if !grants.is_empty() {
            let (fence, us, waiting) = (self.base.draw(), self.base.call.us, self.base.waiting);
            for Grant { token, mode, block, ms } in grants {
                let numbers = format!(" {fence} {block} {us} {ms} {waiting} ");
                let words = [b"grant ", token.as_slice(), b" ", &mode, numbers.as_bytes(), self.base.keys.name];
                self.base.call.publish_to(&token, &words.concat());
            }
        }
        if let Some((next, ms)) = self.base.next.take() {
            let payload = [b"next", next.as_slice(), &number_text(ms), self.base.keys.name].join(&b' ');
            self.base.call.publish_to(&next, &payload);
        }
        self.kind.announce(&mut self.base);
        Ok(reply)
    }
}

/// A reentrant lock's waiters are not in the queue, so its clients call with the fleet `mixed`, which asks for no head.
const NO_WAITER: Refusal = Refusal::new("ERR Error running script: the lock has waiters, but its queue is empty");
