//! Raises the TTL of a lease that the token still holds. Never creates a lease. A TTL of 0 only asks. A TTL below 0 is
//! added to the time that is left, so that the client can wait for replicas afterwards. `renewed` always follows a write,
//! even if the TTL stays the same, so that a primary that has become a replica refuses it.
//!
//! Keys: N; for a reader's lease also `readers`; for permits also `permits`. Arguments: token, ttl.
//! Answers `renewed`, `gone` or `taken`.

use super::arguments::Arguments;
use super::call::{Call, Done, above};
use super::prelude::SHARED;
use super::text::{Value, holder_of, is_token};
use crate::answer::Outcome;
use crate::keys::Bound;

/// The renewal of a lock.
pub(crate) fn renew(mut call: Call<'_>, arguments: Arguments<'_>) -> Outcome {
    let (name, readers) = match *arguments.keys {
        [name] => (name, None),
        [name, readers] => (name, Some(readers)),
        _ => return Err(arguments.wrong("needs 1 key, or 2 for a reader's lease")),
    };
    let [token, ttl] = *arguments.words()?;
    let ttl = arguments.number("ttl", ttl)?;
    let value = call.get(name)?;
    let holder = value.as_deref().map(holder_of);
    let mut free = value.is_none();
    match readers {
        None if holder == Some(token) => {
            let ms = raised(call.pttl(name)?, ttl);
            if ms > 0 {
                call.pexpire(name, ms)?;
            }
            return Ok(call.answer("renewed", 0, ms, -1, false));
        }
        None => {}
        Some(readers) => {
            let expiry = call.zscore(readers, token)?.unwrap_or(0);
            if holder != Some(SHARED) {
                // These readers are from before N was something else. Readers count only while N is `shared`.
                call.del(&[readers])?;
            } else if expiry > call.now {
                let ms = raised(expiry - call.now, ttl);
                return renew_member(&mut call, name, readers, token, ms);
            } else if call.zcount(readers, above(call.now), Bound::HIGHEST)? == 0 {
                free = true;
            }
        }
    }
    match value.filter(|_| !free) {
        None => Ok(call.answer("gone", 0, 0, -1, false)),
        Some(value) => {
            let foreign = !is_ours(&mut call, name, &value)?;
            Ok(call.answer("taken", 0, 0, -1, foreign))
        }
    }
}

/// What is left of a lease, raised to a TTL, or with a negative one added to it.
fn raised(left: i64, ttl: i64) -> i64 {
    if ttl < 0 { left - ttl } else { left.max(ttl) }
}

fn renew_member(call: &mut Call<'_>, name: &[u8], readers: &[u8], token: &[u8], ms: i64) -> Outcome {
    // N first, always. PEXPIRE is allowed at maxmemory, and so is ZADD after it.
    let keep = call.pttl(name)?.max(ms);
    call.pexpire(name, keep)?;
    call.zadd(readers, call.now + ms, token)?;
    call.expire_at_least(readers, ms)?;
    Ok(call.answer("renewed", 0, ms, -1, false))
}

/// Whether these scripts wrote the value, and it has a TTL.
fn is_ours(call: &mut Call<'_>, name: &[u8], value: &[u8]) -> Done<bool> {
    let Some(Value { holder, .. }) = Value::read(value) else { return Ok(false) };
    Ok(holder == SHARED || is_token(holder) && call.pttl(name)? >= 0)
}

/// The renewal of permits.
pub(crate) fn semaphore_renew(mut call: Call<'_>, arguments: Arguments<'_>) -> Outcome {
    let [name, permits] = *arguments.keys()?;
    let [token, ttl] = *arguments.words()?;
    let ttl = arguments.number("ttl", ttl)?;
    let expiry = call.zscore(name, token)?.unwrap_or(0);
    if expiry <= call.now {
        return Ok(call.answer("gone", 0, 0, -1, false));
    }
    let ms = raised(expiry - call.now, ttl);
    // The TTLs first. PEXPIRE is allowed at maxmemory, and so is ZADD after it.
    let keep = call.pttl(name)?.max(ms);
    call.pexpire(name, keep)?;
    call.pexpire(permits, keep)?;
    call.zadd(name, call.now + ms, token)?;
    Ok(call.answer("renewed", 0, ms, -1, false))
}

/// The renewal of a reentrant lock.
pub(crate) fn reentrant_renew(mut call: Call<'_>, arguments: Arguments<'_>) -> Outcome {
    let [name] = *arguments.keys()?;
    let [token, ttl] = *arguments.words()?;
    let ttl = arguments.number("ttl", ttl)?;
    if call.hget(name, token)?.is_none() {
        let status = if call.exists(&[name])? { "taken" } else { "gone" };
        return Ok(call.answer(status, 0, 0, -1, false));
    }
    let ms = raised(call.pttl(name)?, ttl);
    if ms > 0 {
        call.pexpire(name, ms)?;
    }
    Ok(call.answer("renewed", 0, ms, -1, false))
}
