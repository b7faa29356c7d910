//! Raises a quorum's last fence to the one that it agreed on, if the token still holds the lease. Never lowers it.
//!
//! Keys: N, fence. Arguments: token, fence. Answers `raised`, `gone` or `taken`.

use super::arguments::Arguments;
use super::call::Call;
use super::prelude::Counter;
use super::text::{holder_of, number_text};
use crate::answer::Outcome;
use crate::keys::Lifetime;

pub(crate) fn raise(mut call: Call<'_>, arguments: Arguments<'_>) -> Outcome {
    let [name, counter] = *arguments.keys()?;
    let [token, fence] = *arguments.words()?;
    let fence = arguments.number("fence", fence)?;
    let value = call.get(name)?;
    let Counter { last, .. } = Counter::read(&mut call, counter, 0)?;
    match value.as_deref().map(holder_of) {
        None => return Ok(call.answer("gone", 0, 0, -1, false)),
        Some(holder) if holder != token => return Ok(call.answer("taken", 0, 0, -1, false)),
        Some(_) => {}
    }
    if last < fence {
        call.set(counter, &number_text(fence), Lifetime::Forever)?;
    }
    let ms = call.pttl(name)?;
    let waiting = value.is_some_and(|value| value.contains(&b'*'));
    Ok(call.answer("raised", 0, ms, waiting.into(), false))
}
