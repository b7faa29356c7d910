//! Calls that wait behind few others: the server counts right, and nobody waits behind more than it accepts.

use std::collections::HashMap;

use leasehold_core::{AcquireOptions, Error, Instant, Outcome, Wait};
use leasehold_harness::Micros;

use super::{Verdict, broken};
use crate::client::{Client, Op, UserCall};
use crate::wire::{Life, Token};

/// The users that want a lock, or did so lately: each client's life and its user, and when it ended.
#[derive(Default)]
pub(crate) struct Wanting(HashMap<(Life, usize), Option<Micros>>);

impl Wanting {
    pub(crate) fn begins(&mut self, life: Life, user: usize) {
        self.0.insert((life, user), None);
    }

    pub(crate) fn ends(&mut self, life: Life, user: usize, now: Micros) {
        self.0.insert((life, user), Some(now));
    }

    /// A client is gone.
    pub(crate) fn gone(&mut self, life: Life, now: Micros) {
        let open = self.0.iter_mut().filter(|((of, _), ended)| *of == life && ended.is_none());
        open.for_each(|(_, ended)| *ended = Some(now));
    }

    /// How many want the lock, or did so at this time.
    fn since(&self, since: Micros) -> usize {
        self.0.values().filter(|ended| ended.is_none_or(|at| at >= since)).count()
    }
}

/// For how many callers an acquire waits, and how many others it accepts. None if it doesn't wait.
pub(crate) fn counts(words: &[&[u8]]) -> Option<(u64, Option<u64>)> {
    let keys: usize = std::str::from_utf8(words.get(2)?).ok()?.parse().ok()?;
    let how = std::str::from_utf8(words.get(keys + 6)?).ok()?.strip_prefix("wait")?;
    let (callers, most) = how.split_once('/').map_or((how, None), |(callers, most)| (callers, Some(most)));
    Some((callers.trim_start().parse().unwrap_or(1), most.and_then(|most| most.parse().ok())))
}

/// What the server answered a counted acquire. `records` are those of the live waiters, and `waited` says whether the token was
/// among them before.
pub(crate) fn answered(
    (token, most, waited): (Token, u64, bool),
    (told, is_refused): (u64, bool),
    records: &[(Token, u64)],
) -> Verdict {
    let elsewhere: u64 = records.iter().filter(|(other, _)| *other != token).map(|(_, callers)| callers).sum();
    let with =
        |what: &str| broken("miscounted", format!("{token:?} accepts {most} of {records:?}, told {told}: {what}"));
    match is_refused {
        _ if told != elsewhere => with("another number"),
        true if records.iter().any(|(other, _)| *other == token) => with("refused, and in the queue"),
        true if told < most => with("refused"),
        false if told >= most && !waited => with("joined"),
        _ => Ok(()),
    }
}

/// A call that was refused found as many others as it doesn't accept. If commands are not lost, no more users than that wanted the
/// lock at some time since `since`.
pub(crate) fn refused(wanting: &Wanting, since: Option<Micros>, op: &Op, result: &Result<Outcome, Error>) -> Verdict {
    let Err(Error::Busy { waiters: Some(found), .. }) = result else { return Ok(()) };
    // Without its own user.
    let others = since.map_or(u32::MAX, |since| wanting.since(since) as u32 - 1);
    match op.call {
        UserCall::Acquire(AcquireOptions { max_waiters: Some(most), .. }) if *found >= most && *found <= others => {
            Ok(())
        }
        _ => broken("refused-early", format!("{op:?} found {found} others, and at most {others} waited")),
    }
}

/// No call waits for long behind more callers of its own client than it accepts.
pub(crate) fn admitted(client: &Client, now: Instant) -> Verdict {
    let patience = client.config.response_timeout * 2 + client.config.claim_window * 2;
    let waits = |op: &&Op| op.wait() != Wait::No && !op.cancelled && matches!(op.call, UserCall::Acquire(_));
    let open = || client.open.iter().map(|op| &client.ops[*op as usize]).filter(waits);
    for (place, op) in open().enumerate().filter(|(_, op)| now.since(op.since) > patience) {
        let UserCall::Acquire(AcquireOptions { max_waiters: Some(most), .. }) = op.call else { continue };
        let before = open().take(place).filter(|other| other.name == op.name).count();
        if before >= most as usize {
            return broken("overadmitted", format!("{op:?} waits behind {before} calls"));
        }
    }
    Ok(())
}

/// A heartbeat says for how many callers it is. It counts all that have waited for a while. After a pause, it can leave before the
/// calls whose time is over are told so.
pub(crate) fn told(client: &Client, name: usize, callers: u64, now: Instant) -> Verdict {
    let known = client.config.response_timeout * 2 + client.config.claim_window;
    let is_over = |op: &Op, age| matches!(op.wait(), Wait::For(time) if age >= time);
    let waits = |op: &&Op| {
        let age = now.since(op.since);
        op.wait() != Wait::No && !op.cancelled && age > known && !is_over(op, age)
    };
    let waiting = client.waits_for(name).filter(waits).count() as u64;
    if callers >= waiting {
        return Ok(());
    }
    broken("callers-stale", format!("a waiter's record says {callers} callers, and {waiting} wait"))
}
