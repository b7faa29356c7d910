//! Gives up whatever a token has: the lock, a reader's share of it, or its place in the queue.
//!
//! Keys: those of the lock. Arguments: token, tombstone (ms, 0: none), used fence, fleet; for a once with a result: token,
//! tombstone, keep (ms), value, the fence of its work, fleet.
//! Answers `released`, `left`, `gone` or `taken`.

use super::acquire_fast::is_before;
use super::arguments::{Arguments, Fleet, Keys};
use super::call::{Call, Done, at};
use super::prelude::{
    EXCLUSIVE, ElectionState, Kind, LockState, OnceState, Prelude, ReentrantState, Said, SemaphoreState, ToStore,
};
use super::text::{Record, Value, number_text};
use crate::answer::{Answer, Outcome};
use crate::keys::{Bound, Lifetime, Range};

pub(crate) fn release<K: Kind + HandOver>(mut call: Call<'_>, arguments: Arguments<'_>) -> Outcome {
    let keys = arguments.lock_keys()?;
    let (token, tombstone, used_fence, fleet, stores) = match *arguments.words {
        [token, tombstone, keep, value, fence, fleet] if K::STORES => {
            let keep = arguments.number("time to keep", keep)?;
            (token, tombstone, fence, fleet, Some(ToStore { keep, value, fence }))
        }
        _ => {
            let [token, tombstone, used_fence, fleet] = *arguments.words()?;
            (token, tombstone, used_fence, fleet, None)
        }
    };
    let (tombstone, used_fence) = (arguments.number("tombstone", tombstone)?, arguments.used_fence(used_fence)?);
    let fleet = arguments.fleet(fleet)?;
    if tombstone == 0
        && used_fence == 0
        && fleet == Fleet::Native
        && let Some(answer) = K::hand_over(&mut call, keys, token)?
    {
        return Ok(answer);
    }
    let mut prelude = Prelude::<K>::begin(call, keys, used_fence, fleet, None)?;
    prelude.base.stores = stores;
    let status = if prelude.give_up(token)? {
        "released"
    } else if prelude.leave(token)? {
        "left"
    } else {
        prelude.kind.absent()
    };
    prelude.leave_tombstone(token, tombstone)?;
    let reply = prelude.grant_and_answer(status, Said::default())?;
    // All who wait for a result are told at once, so a dead waiter delays nobody.
    if status == "released" && prelude.kind.result().is_some() {
        let waiters = Range::Scores(at(0), Bound::HIGHEST);
        let payload = [b"done ", keys.name].concat();
        for (_, waiter) in prelude.base.call.zrange_some(keys.queue, waiters, MOST_TOLD)? {
            prelude.base.call.publish_to(&waiter, &payload);
        }
    }
    Ok(Answer::List(reply))
}

/// How many waiters one release tells that there is a result. The others ask with their next heartbeat.
const MOST_TOLD: usize = 64;

/// The fast path of an exclusive release: gives the lock back if nobody waits. Changes nothing otherwise.
///
/// Key: N. Argument: N's value, as the acquire wrote it. Answers 1, or 0.
pub(crate) fn release_fast(mut call: Call<'_>, arguments: Arguments<'_>) -> Outcome {
    let [name] = *arguments.keys()?;
    let [value] = *arguments.words()?;
    if call.get(name)?.as_deref() != Some(value) {
        return Ok(Answer::Int(0));
    }
    Ok(Answer::count(call.del(&[name])?))
}

/// What a kind answers early, for the most frequent release.
pub(crate) trait HandOver {
    /// Whether a release can bring a result.
    const STORES: bool = false;

    /// The answer, if the call is that release.
    fn hand_over(_: &mut Call<'_>, _: Keys<'_>, _: &[u8]) -> Done<Option<Answer>> {
        Ok(None)
    }
}

impl HandOver for ElectionState {}
impl HandOver for ReentrantState {}
impl HandOver for SemaphoreState {}
impl HandOver for OnceState {
    const STORES: bool = true;
}

impl HandOver for LockState {
    /// The exclusive holder hands the lock over to the first waiter, which wants it exclusively. Not if that one is dead.
    fn hand_over(call: &mut Call<'_>, keys: Keys<'_>, token: &[u8]) -> Done<Option<Answer>> {
        let stored = call.get(keys.name)?.unwrap_or_default();
        if !Value::read(&stored).is_some_and(|value| value.marked && value.holder == token) {
            return Ok(None);
        }
        let first = call.first_waiter(keys.queue)?;
        let record = match &first {
            Some(first) => call.hget(keys.waiters, first)?,
            None => None,
        };
        let (Some(next), Some(record)) = (first, record.and_then(|record| Record::read(&record))) else {
            return Ok(None);
        };
        if record.mode != EXCLUSIVE || record.expiry <= call.now {
            return Ok(None);
        }
        let us = call.us_text();
        match call.replace(keys.fence, &us) {
            Ok(Some(last)) if is_before(&last, &us) => {}
            // The last fence is unusual. The slow path finds the counter as it was.
            Ok(Some(last)) => return call.set(keys.fence, &last, Lifetime::Kept).map(|()| None),
            Ok(None) => return call.del(&[keys.fence]).map(|_| None),
            // The server is at maxmemory.
            Err(_) => return Ok(None),
        }
        call.zrem(keys.queue, &next)?;
        call.hdel(keys.waiters, &next)?;
        let waiting = call.count_waiters(keys.queue)?;
        let mark: &[u8] = if waiting > 0 { b"*" } else { b" " };
        let ms = record.ttl.min(record.claim);
        call.set(keys.name, &[&next, mark, &us].concat(), Lifetime::Ms(ms))?;
        let (block, ms, left) = (number_text(record.block.clamp(1, 1024)), number_text(ms), number_text(waiting));
        let words = [b"grant", next.as_slice(), EXCLUSIVE, &us, &block, &us, &ms, &left, keys.name];
        call.publish_to(&next, &words.join(&b' '));
        Ok(Some(call.answer("released", 0, 0, waiting, false)))
    }
}
