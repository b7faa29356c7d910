//! Commands for strings.

use alloc::vec::Vec;

use super::keyspace::{Data, Entry, Keyspace};
use crate::answer::Refusal;

/// How long a value stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lifetime {
    #[default]
    Forever,
    /// As long as the value before it.
    Kept,
    Ms(i64),
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SetOptions {
    /// `NX`
    pub(crate) only_new: bool,
    /// `XX`
    pub(crate) only_old: bool,
    /// `GET`: a value of another type is refused.
    pub(crate) answer_old: bool,
    pub(crate) lifetime: Lifetime,
}

/// What SET did.
pub(crate) struct Set {
    pub(crate) done: bool,
    /// The value before, if it was asked for.
    pub(crate) old: Option<Vec<u8>>,
}

impl Keyspace {
    pub(crate) fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Refusal> {
        Ok(self.text(key)?.cloned())
    }

    pub(crate) fn set(&mut self, key: &[u8], value: &[u8], options: SetOptions) -> Result<Set, Refusal> {
        let expires_ms = match options.lifetime {
            Lifetime::Forever => None,
            Lifetime::Kept => self.entry(key).and_then(|entry| entry.expires_ms),
            Lifetime::Ms(ms) if ms > 0 => Some(self.now_ms().checked_add(ms).ok_or(INVALID_TIME)?),
            Lifetime::Ms(_) => return Err(INVALID_TIME),
        };
        let old = if options.answer_old { self.get(key)? } else { None };
        let exists = self.entry(key).is_some();
        let done = !(options.only_new && exists || options.only_old && !exists);
        if done {
            self.put(key, Entry { data: Data::Text(value.to_vec()), expires_ms });
        }
        Ok(Set { done, old })
    }
}

const INVALID_TIME: Refusal = Refusal::new("ERR invalid expire time in 'set' command");
