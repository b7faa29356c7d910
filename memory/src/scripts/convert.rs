//! Gives a lease a new token: in the other mode, or in the same mode with exactly this TTL. The token is new because a
//! delayed copy of this call would otherwise undo a later one. A token of another client adopts the lease, in the mode that
//! it has. Only a lock has two modes.
//!
//! Keys: those of the lock. Arguments: old token, new token, new mode, ttl, block, tombstone (ms, 0: none), used fence, fleet.
//! Answers `converted`, `again`, `conflict`, `gone` or `taken`.

use super::arguments::Arguments;
use super::call::Call;
use super::prelude::{EXCLUSIVE, Kind, Prelude, Said, cut};
use super::text::client_of;
use crate::answer::{Answer, Outcome};

pub(crate) fn convert<K: Kind>(call: Call<'_>, arguments: Arguments<'_>) -> Outcome {
    let keys = arguments.lock_keys()?;
    let [old, new, mode, ttl, block, tombstone, used_fence, fleet] = *arguments.words()?;
    let (ttl, block) = (arguments.number("ttl", ttl)?, arguments.number("block", block)?);
    let (tombstone, used_fence) = (arguments.number("tombstone", tombstone)?, arguments.used_fence(used_fence)?);
    let mut lock = Prelude::<K>::begin(call, keys, used_fence, arguments.fleet(fleet)?, Some(mode))?;
    let (holds, held_before) = (lock.held(new, mode)?, lock.held(old, mode)?);
    let adopts = client_of(old) != client_of(new);
    let answered = if lock.has_tombstone(new)? {
        // The lease was given up, or a copy of this call has already answered conflict.
        let status = if held_before.is_some() { "conflict" } else { "gone" };
        lock.grant_and_answer(status, Said::default())
    } else if holds.as_deref() == Some(mode) {
        lock.leave_tombstone(old, tombstone)?;
        let ms = lock.raise(new, mode, ttl)?;
        let block = lock.block(block);
        let value = lock.base.draw();
        lock.grant_and_answer("again", Said { value, block, ms })
    } else if holds.is_none() && held_before.is_none() {
        // A late command may have put the client's own token into the queue. Another client's token keeps its place there.
        lock.leave_tombstone(old, if adopts { 0 } else { tombstone })?;
        lock.grant(None)?;
        let absent = lock.kind.absent();
        lock.answer(absent, Said::default())
    } else if holds.is_none() && held_before.as_deref() == Some(mode) {
        if adopts {
            // The former holder may use the fences of its block until it learns of this.
            lock.base.pass(lock.base.call.us + 2022);
        }
        lock.give_up(old)?;
        lock.hold(new, mode, ttl)?;
        let block = lock.block(block);
        let value = lock.base.draw();
        lock.leave_tombstone(old, tombstone)?;
        let reply = lock.grant_and_answer("converted", Said { value, block, ms: ttl })?;
        if adopts {
            let payload = [b"revoked", old, keys.name].join(&b' ');
            lock.base.call.publish_to(old, &payload);
        }
        Ok(reply)
    } else if holds.is_some() || adopts || !K::LINGERS || mode == EXCLUSIVE && lock.kind.readers() > 1 {
        // A copy of this call must not convert the lease later, when the other readers are gone.
        if holds.is_none() {
            lock.leave_tombstone(new, 60_000)?;
        }
        lock.grant_and_answer("conflict", Said::default())
    } else {
        let ms = cut(lock.base.call.pttl(keys.name)?).max(ttl);
        lock.kind.free_for_conversion(&mut lock.base)?;
        lock.hold(new, mode, ms)?;
        let block = lock.block(block);
        let value = lock.base.draw();
        lock.leave_tombstone(old, tombstone)?;
        lock.grant_and_answer("converted", Said { value, block, ms })
    };
    answered.map(Answer::List)
}
