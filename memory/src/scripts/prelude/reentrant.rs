//! A reentrant lock's state, in the wire format of Redisson's RLock: the holder's field is its count. Redisson's clients see no
//! queue. A release publishes on the lock's channel, and everybody who waits there tries again.

use alloc::vec::Vec;

use super::EXCLUSIVE;
use super::base::Base;
use super::one_holder::{Fields, OneHolder, Rules};
use crate::answer::Refusal;
use crate::scripts::call::{Call, Done};
use crate::scripts::text::number;

pub(crate) type ReentrantState = OneHolder<Reentrant>;

pub(crate) struct Reentrant {
    channel: Vec<u8>,
}

pub(crate) const NOT_REENTRANT: Refusal = Refusal::new("WRONGTYPE the hash is no reentrant lock");

/// Where Redisson's clients listen when they wait for the lock.
pub(crate) fn channel_of(name: &[u8]) -> Vec<u8> {
    let tagged = name.contains(&b'{');
    let (open, close): (&[u8], &[u8]) = if tagged { (b"", b"") } else { (b"{", b"}") };
    [b"redisson_lock__channel:", open, name, close].concat()
}

/// The one holder of a hash in Redisson's format: `<id>:<thread>` -> its count.
pub(crate) fn one_owner(fields: Fields) -> Done<Option<Vec<u8>>> {
    let mut fields = fields.into_iter();
    let (first, None) = (fields.next(), fields.next()) else { return Err(NOT_REENTRANT) };
    let Some((holder, count)) = first else { return Ok(None) };
    let thread = holder.rsplit(|byte| *byte == b':').next().filter(|thread| thread.len() < holder.len());
    match (thread.and_then(number), number(&count)) {
        (Some(_), Some(_)) => Ok(Some(holder)),
        _ => Err(NOT_REENTRANT),
    }
}

/// How many clients wait for the lock, perhaps with the caller. In a cluster, they listen at any node or on the shard, and
/// a node knows only its own listeners. There, another client counts as waiting.
pub(crate) fn waiting(call: &Call<'_>, name: &[u8], counter: &[u8]) -> i64 {
    if counter.contains(&b'{') { 2 } else { call.listening(&channel_of(name)) }
}

impl Rules for Reentrant {
    fn read(base: &mut Base<'_>, fields: Fields) -> Done<(Option<Vec<u8>>, Self)> {
        let holder = one_owner(fields)?;
        base.waiting = waiting(&base.call, base.keys.name, base.keys.fence);
        Ok((holder, Self { channel: channel_of(base.keys.name) }))
    }

    fn held(_: &[u8]) -> &[u8] {
        EXCLUSIVE
    }

    fn compatible(&self, _: &[u8]) -> bool {
        true
    }

    fn field(&mut self, _: &mut Base<'_>, _: &[u8], _: i64) -> Vec<u8> {
        b"1".to_vec()
    }

    fn given_back(&mut self, base: &mut Base<'_>, _: &[u8]) -> Done<bool> {
        base.call.publish(&self.channel, b"0");
        Ok(true)
    }
}
