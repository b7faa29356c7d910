//! A reentrant lock's state, in the wire format of Redisson's RLock: N is a hash of the one holder -> its count, always
//! with a TTL. Redisson's clients see no queue. A release publishes on the lock's channel, and everybody who waits there
//! tries again.

use alloc::vec;
use alloc::vec::Vec;

use super::base::{Base, cut};
use super::{EXCLUSIVE, Kind};
use crate::answer::Refusal;
use crate::scripts::call::{Call, Done};
use crate::scripts::text::number;

pub(crate) struct ReentrantState {
    holder: Option<Vec<u8>>,
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
pub(crate) fn one_holder(fields: Vec<(Vec<u8>, Vec<u8>)>) -> Done<Option<Vec<u8>>> {
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

impl Kind for ReentrantState {
    const LINGERS: bool = false;

    fn read(base: &mut Base<'_>) -> Done<Self> {
        let holder = one_holder(base.call.hgetall(base.keys.name)?)?;
        base.waiting = waiting(&base.call, base.keys.name, base.keys.fence);
        Ok(Self { holder, channel: channel_of(base.keys.name) })
    }

    fn is_mode(_: &[u8]) -> bool {
        true
    }

    fn purge(&mut self, _: &mut Base<'_>) -> Done {
        Ok(())
    }

    fn held(&self, _: &mut Base<'_>, token: &[u8], _: &[u8]) -> Done<Option<Vec<u8>>> {
        Ok((self.holder.as_deref() == Some(token)).then(|| EXCLUSIVE.to_vec()))
    }

    fn propose(&mut self, _: &mut Base<'_>, _: &[u8]) -> Done {
        Ok(())
    }

    fn compatible(&self, _: &[u8]) -> bool {
        self.holder.is_none()
    }

    fn hold(&mut self, base: &mut Base<'_>, token: &[u8], _: &[u8], ms: i64) -> Done {
        base.call.hset(base.keys.name, &[(token, b"1")])?;
        base.call.pexpire(base.keys.name, ms)?;
        self.holder = Some(token.to_vec());
        Ok(())
    }

    fn raise(&mut self, base: &mut Base<'_>, _: &[u8], _: &[u8], ms: i64) -> Done<i64> {
        let left = cut(base.call.pttl(base.keys.name)?);
        if left < ms {
            base.call.pexpire(base.keys.name, ms)?;
        }
        Ok(left.max(ms))
    }

    fn give_up(&mut self, base: &mut Base<'_>, token: &[u8]) -> Done<bool> {
        if self.holder.as_deref() != Some(token) {
            return Ok(false);
        }
        base.call.del(&[base.keys.name])?;
        self.holder = None;
        base.call.publish(&self.channel, b"0");
        Ok(true)
    }

    fn holders(&self, _: &mut Base<'_>, _: i64) -> Done<Vec<Vec<u8>>> {
        Ok(self.holder.clone().map_or_else(Vec::new, |holder| vec![holder]))
    }

    fn left(&self, base: &mut Base<'_>) -> Done<i64> {
        base.call.pttl(base.keys.name)
    }

    fn absent(&self) -> &'static str {
        if self.holder.is_some() { "taken" } else { "gone" }
    }

    /// Clients of other libraries don't matter here: all waiters poll in addition to the messages.
    fn foreign(&self, _: &mut Base<'_>) -> Done<bool> {
        Ok(false)
    }

    /// Its waiters never join the queue.
    fn mark_holder(&mut self, _: &mut Base<'_>) -> Done {
        Ok(())
    }

    fn holder(&self) -> Option<(&[u8], i64)> {
        None
    }
}
