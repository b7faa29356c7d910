//! A once's state. N is a hash of the one holder -> `once <fence>`, always with a TTL. Beside it is the result, if there is
//! one: `<writer's token> <its fence> <value>`. Then nobody is granted the lock.

use alloc::vec;
use alloc::vec::Vec;

use super::Kind;
use super::base::{Base, cut};
use crate::answer::Refusal;
use crate::keys::Lifetime;
use crate::scripts::call::Done;
use crate::scripts::text::{GREATEST, number, number_text};

pub(crate) const ONCE: &[u8] = b"once";

const NOT_A_ONCE: Refusal = Refusal::new("WRONGTYPE the hash is no once");

pub(crate) struct OnceState {
    /// The token and the digits of its fence.
    holder: Option<(Vec<u8>, Vec<u8>)>,
    result: Option<Stored>,
}

/// A stored result.
struct Stored {
    writer: Vec<u8>,
    fence: i64,
    value: Vec<u8>,
}

impl Stored {
    fn read(record: &[u8]) -> Option<Self> {
        let mut words = record.splitn(3, |byte| *byte == b' ');
        let [writer, fence, value] = core::array::from_fn(|_| words.next());
        let writer = writer.filter(|writer| !writer.is_empty() && !writer.iter().any(u8::is_ascii_whitespace))?;
        Some(Self { writer: writer.to_vec(), fence: number(fence?)?, value: value?.to_vec() })
    }
}

/// The fence in the field of a once's holder.
pub(crate) fn fence_in(field: &[u8]) -> Option<&[u8]> {
    field.strip_prefix(b"once ").filter(|fence| number(fence).is_some())
}

impl Kind for OnceState {
    const LINGERS: bool = false;

    fn read(base: &mut Base<'_>) -> Done<Self> {
        let mut fields = base.call.hgetall(base.keys.name)?.into_iter();
        let holder = match (fields.next(), fields.next()) {
            (None, _) => None,
            (Some((token, field)), None) => Some((token, fence_in(&field).ok_or(NOT_A_ONCE)?.to_vec())),
            _ => return Err(NOT_A_ONCE),
        };
        let result = base.call.get(base.keys.members)?.and_then(|record| Stored::read(&record));
        Ok(Self { holder, result })
    }

    fn is_mode(_: &[u8]) -> bool {
        true
    }

    fn purge(&mut self, _: &mut Base<'_>) -> Done {
        Ok(())
    }

    fn held(&self, _: &mut Base<'_>, token: &[u8], _: &[u8]) -> Done<Option<Vec<u8>>> {
        Ok(self.holder.as_ref().filter(|(holder, _)| holder == token).map(|_| ONCE.to_vec()))
    }

    fn propose(&mut self, _: &mut Base<'_>, _: &[u8]) -> Done {
        Ok(())
    }

    fn compatible(&self, mode: &[u8]) -> bool {
        self.holder.is_none() && self.result.is_none() && mode == ONCE
    }

    fn hold(&mut self, base: &mut Base<'_>, token: &[u8], _: &[u8], ms: i64) -> Done {
        let fence = number_text(base.draw());
        base.call.hset(base.keys.name, &[(token, &[b"once ".as_slice(), &fence].concat())])?;
        base.call.pexpire(base.keys.name, ms)?;
        self.holder = Some((token.to_vec(), fence));
        Ok(())
    }

    fn raise(&mut self, base: &mut Base<'_>, _: &[u8], _: &[u8], ms: i64) -> Done<i64> {
        let left = cut(base.call.pttl(base.keys.name)?);
        if left < ms {
            base.call.pexpire(base.keys.name, ms)?;
        }
        Ok(left.max(ms))
    }

    /// Also stores the result that the release brings. True if a copy of the release has stored it.
    fn give_up(&mut self, base: &mut Base<'_>, token: &[u8]) -> Done<bool> {
        let Some((_, fence)) = self.holder.take_if(|(holder, _)| holder == token) else {
            return Ok(self.result.as_ref().is_some_and(|stored| stored.writer == token));
        };
        base.call.del(&[base.keys.name])?;
        if let Some((keep, value)) = base.stores {
            let record = [token, &fence, value].join(&b' ');
            base.call.set(base.keys.members, &record, Lifetime::Ms(keep))?;
            let fence = number(&fence).unwrap_or(GREATEST);
            self.result = Some(Stored { writer: token.to_vec(), fence, value: value.to_vec() });
        }
        Ok(true)
    }

    fn holders(&self, _: &mut Base<'_>, _: i64) -> Done<Vec<Vec<u8>>> {
        Ok(self.holder.as_ref().map_or_else(Vec::new, |(holder, _)| vec![holder.clone()]))
    }

    fn left(&self, base: &mut Base<'_>) -> Done<i64> {
        base.call.pttl(base.keys.name)
    }

    fn absent(&self) -> &'static str {
        if self.holder.is_some() { "taken" } else { "gone" }
    }

    /// No other library has this kind of lock.
    fn foreign(&self, _: &mut Base<'_>) -> Done<bool> {
        Ok(false)
    }

    /// Its release always runs the whole script.
    fn mark_holder(&mut self, _: &mut Base<'_>) -> Done {
        Ok(())
    }

    fn holder(&self) -> Option<(&[u8], i64)> {
        None
    }

    fn result(&self) -> Option<(i64, &[u8])> {
        self.result.as_ref().map(|stored| (stored.fence, stored.value.as_slice()))
    }
}
