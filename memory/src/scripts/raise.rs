//! Raises a quorum's last fence to the one that it agreed on, if the token still holds the lease. Never lowers it.
//!
//! Keys: N, fence; for a reader's lease also readers. Arguments: token, fence. Answers `raised`, `gone` or `taken`.

use super::arguments::Arguments;
use super::call::Call;
use super::prelude::{Counter, SHARED};
use super::text::{holder_of, number_text};
use crate::answer::Outcome;
use crate::keys::Lifetime;

pub(crate) fn raise(mut call: Call<'_>, arguments: Arguments<'_>) -> Outcome {
    let (name, counter, readers) = match *arguments.keys {
        [name, counter] => (name, counter, None),
        [name, counter, readers] => (name, counter, Some(readers)),
        _ => return Err(arguments.wrong("needs 2 keys, or 3 for a reader's lease")),
    };
    let [token, fence] = *arguments.words()?;
    let fence = arguments.number("fence", fence)?;
    let value = call.get(name)?;
    let Counter { last, .. } = Counter::read(&mut call, counter, 0)?;
    let Some(holder) = value.as_deref().map(holder_of) else { return Ok(call.answer("gone", 0, 0, -1, false)) };
    let expiry = match readers.filter(|_| holder == SHARED) {
        Some(readers) => Some(call.zscore(readers, token)?.unwrap_or(0)),
        None => None,
    };
    if holder != token && expiry.is_none_or(|expiry| expiry <= call.now) {
        return Ok(call.answer("taken", 0, 0, -1, false));
    }
    if last < fence {
        call.set(counter, &number_text(fence), Lifetime::Kept)?;
    }
    let ms = match expiry {
        Some(expiry) => expiry - call.now,
        None => call.pttl(name)?,
    };
    let waiting = value.is_some_and(|value| value.contains(&b'*'));
    Ok(call.answer("raised", 0, ms, waiting.into(), false))
}
