//! The arguments, the clock, the counter of fences, and what changes while the script runs.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::answer::Refusal;
use crate::keys::{Bound, Lifetime};
use crate::scripts::arguments::{Fleet, Keys};
use crate::scripts::call::{Call, Done, above, at};
use crate::scripts::text::{GREATEST, number, number_text};

pub(crate) struct Base<'a> {
    pub(crate) call: Call<'a>,
    pub(crate) keys: Keys<'a>,
    pub(crate) fleet: Fleet,
    /// How many wait.
    pub(crate) waiting: i64,
    /// How many tombstones it has.
    pub(crate) tombstones: i64,
    /// Whether more waiters are dead, or more permits expired, than one script removes.
    pub(crate) crowded: bool,
    /// How many dead waiters were dropped.
    pub(crate) swept: usize,
    /// Whether a waiter has left the queue.
    pub(crate) moved: bool,
    /// The new first waiter of a rate, which is told in how many ms to ask.
    pub(crate) next: Option<(Vec<u8>, i64)>,
    /// Whether N was written by this script.
    pub(crate) granted_here: bool,
    /// What is published at the end.
    pub(crate) grants: Vec<Grant>,
    /// The caller's own grant, if the queue reached it.
    pub(crate) mine: Option<Grant>,
    /// The result that the release of a once brings.
    pub(crate) stores: Option<ToStore<'a>>,
    /// The counter as it was.
    stored: Option<i64>,
    /// The last fence of the server.
    last: i64,
    /// The fence for all grants of this script, if it grants anything.
    fence: Option<i64>,
}

/// A result, which is to be stored.
#[derive(Clone, Copy)]
pub(crate) struct ToStore<'a> {
    /// How long to keep it, in ms.
    pub(crate) keep: i64,
    pub(crate) value: &'a [u8],
    /// The digits of the fence with which its writer worked.
    pub(crate) fence: &'a [u8],
}

pub(crate) struct Grant {
    pub(crate) token: Vec<u8>,
    pub(crate) mode: Vec<u8>,
    pub(crate) block: i64,
    pub(crate) ms: i64,
}

/// The counter of fences.
pub(crate) struct Counter {
    pub(crate) stored: Option<i64>,
    pub(crate) last: i64,
}

impl Counter {
    /// A counter that these scripts can't have written stops the script before it grants anything. A lost one begins
    /// at `lost`.
    pub(crate) fn read(call: &mut Call<'_>, key: &[u8], lost: i64) -> Done<Self> {
        let stored = match call.get(key) {
            Ok(None) => return Ok(Self { stored: None, last: lost }),
            Ok(Some(text)) => number(&text),
            Err(refusal) if refusal == Refusal::WRONG_TYPE => None,
            Err(refusal) => return Err(refusal),
        };
        match stored.filter(|last| *last <= GREATEST - 4096) {
            Some(last) => Ok(Self { stored, last }),
            None => Err(format!("BADFENCE {} holds no fence of this version", String::from_utf8_lossy(key)).into()),
        }
    }
}

/// A longer TTL is none of ours.
pub(crate) fn cut(ms: i64) -> i64 {
    ms.min(leasehold_lua::CUT_TTL)
}

impl<'a> Base<'a> {
    pub(crate) fn read(mut call: Call<'a>, keys: Keys<'a>, used_fence: i64, fleet: Fleet) -> Done<Self> {
        // A lost counter begins above each fence that a block can still contain.
        let lost = call.us + 3072;
        let Counter { stored, last } = Counter::read(&mut call, keys.fence, lost)?;
        let mut base = Self {
            call,
            keys,
            fleet,
            waiting: 0,
            tombstones: 0,
            crowded: false,
            swept: 0,
            moved: false,
            next: None,
            granted_here: false,
            grants: Vec::new(),
            mine: None,
            stores: None,
            stored,
            last,
            fence: None,
        };
        base.pass(used_fence);
        base.read_queue()?;
        Ok(base)
    }

    /// Makes the next fence greater than this one, which was used. A wrong number can't move the counter far.
    pub(crate) fn pass(&mut self, used_fence: i64) {
        self.last = self.last.max(used_fence.min(self.last.max(self.call.us) + 2048));
    }

    /// The fence of this script. It is greater than every fence before it on this server.
    pub(crate) fn draw(&mut self) -> i64 {
        *self.fence.get_or_insert((self.last + 1).max(self.call.us))
    }

    /// Reads the queue. The tombstones are its members with a negative score.
    fn read_queue(&mut self) -> Done {
        self.waiting = self.call.zcard(self.keys.queue)?;
        if self.waiting > 0 {
            self.tombstones = self.count_tombstones()?;
            self.waiting -= self.tombstones;
            // Fails here, before the first write, if the key has another type.
            self.call.hlen(self.keys.waiters)?;
        }
        Ok(())
    }

    pub(crate) fn count_tombstones(&mut self) -> Done<i64> {
        self.call.zcount(self.keys.queue, Bound::LOWEST, above(0))
    }

    /// A delete is allowed at maxmemory.
    pub(crate) fn remove_old_tombstones(&mut self) -> Done {
        self.call.zremrangebyscore(self.keys.queue, at(-self.call.now), above(0)).map(drop)
    }

    /// Writes the last fence if it has changed.
    pub(crate) fn write_counter(&mut self) -> Done {
        let raised = self.stored.is_some_and(|stored| self.last > stored);
        if self.fence.is_none() && !raised {
            return Ok(());
        }
        if self.fence.is_none() || self.tombstones > 0 {
            // Perhaps nothing was written yet. A delete first, because a release must be allowed at maxmemory.
            self.remove_old_tombstones()?;
        }
        let last = self.fence.unwrap_or(self.last);
        self.call.set(self.keys.fence, &number_text(last), Lifetime::Kept)
    }

    pub(crate) fn is_mixed(&self) -> bool {
        self.fleet == Fleet::Mixed
    }
}
