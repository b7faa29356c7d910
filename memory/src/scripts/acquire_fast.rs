//! The fast path of an exclusive acquire: takes the lock if it is free, nobody waits, and no token has a tombstone. Changes
//! nothing otherwise.
//!
//! Keys: N, queue, fence. Arguments: token and a space, ttl.
//! Answers the fence, which is the server's µs; or both, if the last fence was not below the clock; or 0.

use alloc::vec;
use alloc::vec::Vec;

use leasehold_core::Scalar;

use super::arguments::Arguments;
use super::call::{Call, Done};
use super::text::{GREATEST, number, number_text};
use crate::answer::{Answer, Outcome};
use crate::keys::Lifetime;

pub(crate) fn acquire_fast(mut call: Call<'_>, arguments: Arguments<'_>) -> Outcome {
    let [name, queue, counter] = *arguments.keys()?;
    let [token, ttl] = *arguments.words()?;
    let ttl = arguments.number("ttl", ttl)?;
    if call.exists(&[name, queue])? {
        return Ok(Answer::Int(0));
    }
    let Some(fence) = draw(&mut call, counter)? else { return Ok(Answer::Int(0)) };
    call.set(name, &[token, fence.as_slice()].concat(), Lifetime::Ms(ttl))?;
    let us = call.us_text();
    Ok(if fence == us { Answer::Text(us) } else { Answer::List(vec![Scalar::Text(us), Scalar::Text(fence)]) })
}

/// Writes the next fence to the counter. If the server refuses that, or the counter is lost or unusual, it stays as it
/// was, the answer is None, and the slow path tells why.
pub(super) fn draw(call: &mut Call<'_>, counter: &[u8]) -> Done<Option<Vec<u8>>> {
    let us = call.us_text();
    let last = match call.replace(counter, &us) {
        Ok(last) => last,
        Err(_) => return Ok(None),
    };
    let Some(last) = last else {
        call.del(&[counter])?;
        return Ok(None);
    };
    if is_before(&last, &us) {
        return Ok(Some(us));
    }
    let Some(number) = number(&last).filter(|last| *last <= GREATEST - 4096) else {
        call.set(counter, &last, Lifetime::Kept)?;
        return Ok(None);
    };
    let fence = number_text((number + 1).max(call.us));
    call.set(counter, &fence, Lifetime::Kept)?;
    Ok(Some(fence))
}

/// Whether a counter is a fence before this time. Texts of 16 digits compare like their numbers.
pub(super) fn is_before(last: &[u8], us: &[u8]) -> bool {
    last.len() == 16 && last < us && last.iter().all(u8::is_ascii_digit)
}
