//! Takes the lock, waits for it, shows that a waiter is alive, or refills a lease. Idempotent for each token.
//!
//! Keys: those of the lock. Arguments: token, mode, ttl, how, claim window, block, used fence (0), fleet.
//! Answers `entered`, `again`, `waiting`, `busy`, `done`, `gone`, `taken` or `conflict`.

use alloc::vec::Vec;

use leasehold_core::Scalar;

use super::arguments::{Arguments, Fleet, Keys};
use super::call::{Call, Done};
use super::prelude::{Kind, LockState, Prelude, Said};
use super::text::{GREATEST, Record, Value, is_token, number, trailing_number};
use crate::answer::{Answer, Outcome, Refusal};
use crate::keys::{Lifetime, Range};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Try,
    /// For so many callers of one client. With `most`, the script also counts those of other tokens, and the token does not
    /// join the queue if they are so many.
    Wait {
        callers: i64,
        most: Option<i64>,
    },
    /// Only raises what the token holds.
    Refill,
}

#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    token: &'a [u8],
    mode: &'a [u8],
    ttl: i64,
    how: How,
    claim: i64,
    block: i64,
    fleet: Fleet,
}

pub(crate) fn acquire<K: Kind + EarlyReturn>(mut call: Call<'_>, arguments: Arguments<'_>) -> Outcome {
    let keys = arguments.lock_keys()?;
    let [token, mode, ttl, how, claim, block, used_fence, fleet] = *arguments.words()?;
    let used_fence = arguments.used_fence(used_fence)?;
    let how = How::read(how).ok_or_else(|| arguments.bad("way to acquire", how, "try, wait or refill"))?;
    if !K::is_mode(mode) {
        return Err(arguments.bad("mode", mode, "<permits>/<limit> or <permits>/<limit>/<per>"));
    }
    let request = Request {
        token,
        mode,
        ttl: arguments.number("ttl", ttl)?,
        how,
        claim: arguments.number("claim window", claim)?,
        block: arguments.number("block", block)?,
        fleet: arguments.fleet(fleet)?,
    };
    if let Some(answer) = K::return_early(&mut call, keys, request)? {
        return Ok(answer);
    }
    let prelude = Prelude::<K>::begin(call, keys, used_fence, request.fleet, Some(mode))?;
    Acquire { prelude, request }.run().map(Answer::List)
}

impl How {
    fn read(word: &[u8]) -> Option<Self> {
        match word {
            b"try" => Some(Self::Try),
            b"wait" => Some(Self::Wait { callers: 1, most: None }),
            b"refill" => Some(Self::Refill),
            _ => {
                let mut numbers = word.strip_prefix(b"wait ")?.splitn(2, |byte| *byte == b'/').map(number);
                let callers = numbers.next()??;
                let most = numbers.next().map_or(Some(None), |most| most.map(Some))?;
                Some(Self::Wait { callers, most })
            }
        }
    }
}

struct Acquire<'a, K> {
    prelude: Prelude<'a, K>,
    request: Request<'a>,
}

impl<K: Kind> Acquire<'_, K> {
    fn run(mut self) -> Done<Vec<Scalar>> {
        let Request { token, mode, ttl, how, block, .. } = self.request;
        let holds = self.prelude.held(token, mode)?;
        if self.prelude.has_tombstone(token)? {
            return self.prelude.grant_and_answer("gone", Said::default());
        }
        if holds.as_deref() == Some(mode) {
            let ms = self.prelude.raise(token, mode, ttl)?;
            let (value, block) = match self.prelude.kind.epoch() {
                Some(epoch) => (epoch, 1),
                None => (self.prelude.base.draw(), self.prelude.block(block)),
            };
            return self.prelude.grant_and_answer("again", Said { value, block, ms });
        }
        if how == How::Refill {
            self.prelude.grant(None)?;
            let absent = self.prelude.kind.absent();
            return self.prelude.answer(absent, Said::default());
        }
        if holds.is_some() {
            return self.prelude.grant_and_answer("conflict", Said::default());
        }
        if let Some((value, result)) = self.prelude.kind.result() {
            let result = Scalar::Text(result.to_vec());
            self.prelude.leave(token)?;
            let mut reply = self.prelude.answer("done", Said { value, ..Said::default() })?;
            reply.push(result);
            return Ok(reply);
        }

        // Refresh the record before dead waiters are dropped, or a late head would drop itself.
        let queued = self.prelude.score(token)? > 0;
        if queued {
            self.write_record()?;
        } else {
            self.prelude.kind.propose(&mut self.prelude.base, mode)?;
        }

        // First grant the waiters ahead of the caller. That may be all readers up to the caller.
        self.prelude.grant(Some(token))?;
        if let Some(mine) = self.prelude.base.mine.take() {
            let value = self.prelude.base.draw();
            return self.prelude.answer("entered", Said { value, block: mine.block, ms: mine.ms });
        }
        if self.may_enter()? {
            if queued {
                self.prelude.drop_waiter(token)?;
            }
            self.prelude.hold(token, mode, ttl)?;
            let value = self.prelude.base.draw();
            let block = self.prelude.block(block);
            return self.prelude.answer("entered", Said { value, block, ms: ttl });
        }
        let (elsewhere, is_full) = match how {
            How::Wait { most: Some(most), .. } => {
                let elsewhere = self.callers_elsewhere()?;
                (Some(elsewhere), !queued && elsewhere >= most)
            }
            _ => (None, how == How::Try),
        };
        let reply = if is_full || self.prelude.base.is_mixed() { self.be_busy() } else { self.wait(queued) };
        let mut reply = reply?;
        reply.extend(elsewhere.map(Scalar::Int));
        Ok(reply)
    }

    /// How many callers wait with other tokens. Of the waiters behind the first 1,000, each counts as one caller.
    fn callers_elsewhere(&mut self) -> Done<i64> {
        let base = &mut self.prelude.base;
        let first = Range::Ranks(base.tombstones, base.tombstones + MOST_COUNTED - 1);
        let members = base.call.zrange(base.keys.queue, first)?;
        let tokens: Vec<&[u8]> = members.iter().map(|(_, token)| token.as_slice()).collect();
        let records = if tokens.is_empty() { Vec::new() } else { base.call.hmget(base.keys.waiters, &tokens)? };
        let mut sum = (base.waiting - MOST_COUNTED).max(0);
        for (other, record) in tokens.iter().zip(records) {
            let Some(record) = record.as_deref().and_then(Record::read) else { continue };
            if *other != self.request.token && record.expiry > base.call.now {
                sum = sum.saturating_add(record.callers);
            }
        }
        Ok(sum)
    }

    fn may_enter(&mut self) -> Done<bool> {
        let compatible = self.prelude.kind.compatible(self.request.mode);
        Ok(compatible && (self.prelude.base.is_mixed() || !self.prelude.has_waiter()?))
    }

    fn be_busy(&mut self) -> Done<Vec<Scalar>> {
        let ms = self.prelude.kind.left(&mut self.prelude.base)?;
        let block = self.prelude.base.crowded.into();
        let reply = self.prelude.answer("busy", Said { value: 0, block, ms })?;
        let (reply, foreign) = self.with_holder(reply)?;
        // The holder may only keep the lock for its own next caller.
        if K::LINGERS && !self.prelude.base.is_mixed() && !foreign {
            self.tell_holders(b"tried ")?;
        }
        Ok(reply)
    }

    fn wait(&mut self, queued: bool) -> Done<Vec<Scalar>> {
        if !queued {
            self.join()?;
        }
        self.prelude.kind.mark_holder(&mut self.prelude.base)?;
        let base = &mut self.prelude.base;
        let rank = base.call.zrank(base.keys.queue, self.request.token)?.ok_or(NO_PLACE)?;
        let position = rank - base.tombstones + 1;
        let ms = self.prelude.kind.left(&mut self.prelude.base)?;
        let block = self.prelude.base.crowded.into();
        let reply = self.prelude.answer("waiting", Said { value: position, block, ms })?;
        let (reply, foreign) = self.with_holder(reply)?;
        if position == 1 && !foreign && self.prelude.kind.per() == 0 {
            self.tell_holders(b"wanted ")?;
        }
        Ok(reply)
    }

    /// Every call of a waiter refreshes its record with the arguments of that call.
    fn write_record(&mut self) -> Done {
        let Request { token, claim, .. } = self.request;
        let base = &mut self.prelude.base;
        let record = self.request.record(base.call.now);
        base.call.hset(base.keys.waiters, &[(token, &record)])?;
        base.call.expire_at_least(base.keys.queue, claim)?;
        base.call.expire_at_least(base.keys.waiters, claim)
    }

    fn join(&mut self) -> Done {
        let base = &mut self.prelude.base;
        // Fails before the first write, if the key has another type.
        base.call.hlen(base.keys.waiters)?;
        let last = if base.waiting > 0 { base.call.zrange_one(base.keys.queue, Range::LAST)? } else { None };
        let score = last.map_or(0, |(score, _)| score) + 1;
        base.call.zadd(base.keys.queue, score.max(base.call.us), self.request.token)?;
        base.waiting += 1;
        self.write_record()
    }

    /// Tells at most 64 holders.
    fn tell_holders(&mut self, what: &[u8]) -> Done {
        for holder in self.prelude.holders(63)? {
            let payload = [what, self.prelude.base.keys.name].concat();
            self.prelude.base.call.publish_to(&holder, &payload);
        }
        Ok(())
    }

    /// Adds who holds the lock, and since which fence, if that is known of one client: for the error of a caller that
    /// gets nothing. Also returns whether the holder is another library's client.
    fn with_holder(&mut self, mut reply: Vec<Scalar>) -> Done<(Vec<Scalar>, bool)> {
        let foreign = reply.last() != Some(&Scalar::Int(0));
        let mut some = self.prelude.holders(1)?;
        let one = if some.len() == 1 { some.pop().unwrap_or_default() } else { Vec::new() };
        let since = match self.prelude.kind.holder() {
            Some((holder, fence)) if K::LINGERS && holder == one => fence,
            _ => 0,
        };
        reply.push(Scalar::Text(one));
        reply.push(Scalar::Int(since));
        Ok((reply, foreign))
    }
}

impl Request<'_> {
    fn record(&self, now: i64) -> Vec<u8> {
        let Self { mode, ttl, claim, block, how, .. } = *self;
        let callers = if let How::Wait { callers, .. } = how { callers } else { 1 };
        Record { mode: mode.to_vec(), ttl, claim, block, callers, expiry: now + claim }.write()
    }
}

/// Of how many waiters the callers are counted.
const MOST_COUNTED: i64 = 1000;

/// With a claim window of 0, the queue has ended before the script has.
const NO_PLACE: Refusal = Refusal::new("ERR Error running script: the caller's place in the queue is already over");

/// What a kind answers early, for the most frequent calls. It does what the rest of the script would do, but it doesn't read the
/// counter of fences.
pub(super) trait EarlyReturn {
    /// The answer, if the call is one of these.
    fn return_early(_: &mut Call<'_>, _: Keys<'_>, _: Request<'_>) -> Done<Option<Answer>> {
        Ok(None)
    }
}

impl<R> EarlyReturn for super::prelude::OneHolder<R> {}
impl EarlyReturn for super::prelude::SemaphoreState {}

impl EarlyReturn for LockState {
    /// Another client holds the lock exclusively, so nobody can be granted. The caller joins the queue, shows that it is
    /// alive, or hears that the lock is busy. Not if the first waiter is dead, if the caller has a tombstone, or if the holder's
    /// key never ends.
    fn return_early(call: &mut Call<'_>, keys: Keys<'_>, request: Request<'_>) -> Done<Option<Answer>> {
        let Request { token, how, claim, fleet, .. } = request;
        let counts = matches!(how, How::Wait { most: Some(_), .. });
        if how == How::Refill || counts || fleet == Fleet::Mixed {
            return Ok(None);
        }
        let stored = call.get(keys.name)?.unwrap_or_default();
        let Some(value) = Value::read(&stored).filter(|value| is_token(value.holder) && value.holder != token) else {
            return Ok(None);
        };
        let left = call.pttl(keys.name)?;
        let last = call.zrange_one(keys.queue, Range::LAST)?;
        // Tombstones have negative scores. So if the last one is a tombstone, nobody waits.
        let tail = last.as_ref().map_or(0, |(score, _)| *score);
        if left <= 0 {
            return Ok(None);
        }
        let mut waiting = 0;
        if tail > 0 {
            let first = call.first_waiter(keys.queue)?.unwrap_or_default();
            waiting = call.count_waiters(keys.queue)?;
            if first != token && !is_alive(call, keys, &first)? {
                return Ok(None);
            }
        }
        // How many are behind the caller, if it is in the queue. All waiters are behind a tombstone. A waiter without a
        // subscription tries, and stays alive by that.
        let behind = if last.is_some() { call.zrevrank(keys.queue, token)? } else { None };
        if behind.is_some_and(|behind| behind >= waiting || how == How::Try) {
            return Ok(None);
        }
        let (mut what, mut position): (&[u8], _) = (b"tried ", 1);
        if how != How::Try {
            call.hset(keys.waiters, &[(token, &request.record(call.now))])?;
            if behind.is_none() {
                call.zadd(keys.queue, call.us.max(tail + 1), token)?;
                waiting += 1;
            }
            // The queue lives as long as each of its tombstones.
            if last.is_none() || -tail - call.now < claim && call.pttl(keys.queue)? < claim {
                call.pexpire(keys.queue, claim)?;
            }
            if tail <= 0 || call.pttl(keys.waiters)? < claim {
                call.pexpire(keys.waiters, claim)?;
            }
            if !value.marked {
                let marked = [value.holder, b"*", value.fence].concat();
                call.set(keys.name, &marked, Lifetime::Kept)?;
            }
            (what, position) = (b"wanted ", waiting - behind.unwrap_or(0));
        }
        if position == 1 {
            call.publish_to(value.holder, &[what, keys.name].concat());
        }
        let (status, position) = if how == How::Try { ("busy", 0) } else { ("waiting", position) };
        let since = number(value.fence).unwrap_or(GREATEST);
        let Answer::List(mut reply) = call.answer(status, position, left, waiting, false) else { return Ok(None) };
        reply.push(Scalar::Text(value.holder.to_vec()));
        reply.push(Scalar::Int(since));
        Ok(Some(Answer::List(reply)))
    }
}

/// Whether a waiter's heartbeat is not over.
fn is_alive(call: &mut Call<'_>, keys: Keys<'_>, first: &[u8]) -> Done<bool> {
    let record = call.hget(keys.waiters, first)?.unwrap_or_default();
    Ok(trailing_number(&record).is_some_and(|expiry| expiry > call.now))
}
