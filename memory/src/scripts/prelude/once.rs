//! A once's state. The holder's field is `once <fence>`. Beside N is the result, if there is one: `<writer's token> <its fence>
//! <value>`. Then nobody is granted the lock.

use alloc::vec::Vec;

use super::base::{Base, ToStore};
use super::one_holder::{Fields, OneHolder, Rules};
use crate::answer::Refusal;
use crate::keys::Lifetime;
use crate::scripts::call::Done;
use crate::scripts::text::{GREATEST, number, number_text};

pub(crate) const ONCE: &[u8] = b"once";

const NOT_A_ONCE: Refusal = Refusal::new("WRONGTYPE the hash is no once");

pub(crate) type OnceState = OneHolder<Once>;

pub(crate) struct Once {
    /// The digits of the holder's fence.
    fence: Vec<u8>,
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

impl Rules for Once {
    fn read(base: &mut Base<'_>, fields: Fields) -> Done<(Option<Vec<u8>>, Self)> {
        let mut fields = fields.into_iter();
        let (holder, fence) = match (fields.next(), fields.next()) {
            (None, _) => (None, Vec::new()),
            (Some((token, field)), None) => (Some(token), fence_in(&field).ok_or(NOT_A_ONCE)?.to_vec()),
            _ => return Err(NOT_A_ONCE),
        };
        let result = base.call.get(base.keys.members)?.and_then(|record| Stored::read(&record));
        Ok((holder, Self { fence, result }))
    }

    fn held(_: &[u8]) -> &[u8] {
        ONCE
    }

    fn compatible(&self, mode: &[u8]) -> bool {
        self.result.is_none() && mode == ONCE
    }

    fn field(&mut self, base: &mut Base<'_>, _: &[u8], _: i64) -> Vec<u8> {
        self.fence = number_text(base.draw());
        [b"once ".as_slice(), &self.fence].concat()
    }

    fn epoch(&self) -> Option<i64> {
        number(&self.fence)
    }

    /// Stores the result that the release brings. A token that lost the lock may have it again, by a late copy of its acquire. Then
    /// its work had another fence, and its result is none.
    fn given_back(&mut self, base: &mut Base<'_>, token: &[u8]) -> Done<bool> {
        if let Some(ToStore { keep, value, fence }) = base.stores {
            if fence != self.fence {
                return Ok(false);
            }
            let record = [token, &self.fence, value].join(&b' ');
            base.call.set(base.keys.members, &record, Lifetime::Ms(keep))?;
            let fence = number(&self.fence).unwrap_or(GREATEST);
            self.result = Some(Stored { writer: token.to_vec(), fence, value: value.to_vec() });
        }
        Ok(true)
    }

    /// A copy of the release has stored the result.
    fn gave_back(&self, token: &[u8]) -> bool {
        self.result.as_ref().is_some_and(|stored| stored.writer == token)
    }

    fn result(&self) -> Option<(i64, &[u8])> {
        self.result.as_ref().map(|stored| (stored.fence, stored.value.as_slice()))
    }
}
