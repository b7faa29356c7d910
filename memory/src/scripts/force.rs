//! Takes the lock from all of its holders, notifies them, and grants the next waiter. For operators.
//!
//! Keys: those of the lock. Arguments: which (leases, any), used fence (0), fleet. Answers `released`, with the number of
//! holders as its value, or `taken`.

use super::arguments::Arguments;
use super::call::Call;
use super::prelude::{Kind, Prelude, Said};
use crate::answer::{Answer, Outcome};

/// How long a victim's tombstone lasts.
const TOMBSTONE_MS: i64 = 60_000;

pub(crate) fn force<K: Kind>(call: Call<'_>, arguments: Arguments<'_>) -> Outcome {
    let keys = arguments.lock_keys()?;
    let [which, used_fence, fleet] = *arguments.words()?;
    let (used_fence, fleet) = (arguments.used_fence(used_fence)?, arguments.fleet(fleet)?);
    let mut lock = Prelude::<K>::read(call, keys, used_fence, fleet)?;
    // Without a TTL it is no lease, but another library's key or other data.
    if which != b"any" && lock.base.call.pttl(keys.name)? == -1 {
        return Ok(Answer::List(lock.answer("taken", Said::default())?));
    }
    // Those that are over are no holders, and one purge may leave some of them.
    loop {
        lock.purge()?;
        if !lock.base.crowded {
            break;
        }
    }
    // A victim that is not notified yet may use the fences of its block.
    lock.base.pass(lock.base.call.us + 2022);
    lock.base.draw();
    let victims = lock.holders(-1)?;
    for token in &victims {
        lock.take(token)?;
        lock.leave_tombstone(token, TOMBSTONE_MS)?;
    }
    let reply = lock.grant_and_answer("released", Said { value: victims.len() as i64, ..Said::default() })?;
    for token in &victims {
        let payload = [b"revoked", token.as_slice(), keys.name].join(&b' ');
        lock.base.call.publish_to(token, &payload);
    }
    Ok(Answer::List(reply))
}
