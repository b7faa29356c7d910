//! A server's keys: three types, which expire lazily by the server's clock in milliseconds.

use alloc::vec::Vec;

use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;

use super::sorted_set::SortedSet;
use crate::answer::Refusal;

/// Fields in the order in which they were set, as in a small hash on a server.
pub(crate) type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// The value of a key.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    Text(Vec<u8>),
    Sorted(SortedSet),
    Hash(Fields),
    /// A type that no command here makes, for example a list.
    Other,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) data: Data,
    /// In server milliseconds. The key still exists during this millisecond.
    pub(crate) expires_ms: Option<i64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Keyspace {
    entries: HashMap<Vec<u8>, Entry>,
    now_us: u64,
}

impl Keyspace {
    pub(crate) const fn now_us(&self) -> u64 {
        self.now_us
    }

    pub(crate) const fn set_now_us(&mut self, now_us: u64) {
        self.now_us = now_us;
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    pub(crate) const fn now_ms(&self) -> i64 {
        (self.now_us / 1000) as i64
    }

    /// The key's entry. An expired one is removed first.
    pub(crate) fn entry(&mut self, key: &[u8]) -> Option<&mut Entry> {
        let now = self.now_ms();
        // One look-up: this is where scripts spend their time.
        let EntryRef::Occupied(found) = self.entries.entry_ref(key) else { return None };
        if found.get().is_over(now) {
            found.remove();
            return None;
        }
        Some(found.into_mut())
    }

    pub(crate) fn put(&mut self, key: &[u8], entry: Entry) {
        match self.entries.get_mut(key) {
            Some(old) => *old = entry,
            None => {
                self.entries.insert(key.to_vec(), entry);
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        self.entry(key).is_some() && self.entries.remove(key).is_some()
    }

    pub(crate) fn text(&mut self, key: &[u8]) -> Result<Option<&Vec<u8>>, Refusal> {
        match self.entry(key).map(|entry| &entry.data) {
            None => Ok(None),
            Some(Data::Text(text)) => Ok(Some(text)),
            Some(_) => Err(Refusal::WRONG_TYPE),
        }
    }

    pub(crate) fn sorted(&mut self, key: &[u8]) -> Result<Option<&mut SortedSet>, Refusal> {
        match self.entry(key).map(|entry| &mut entry.data) {
            None => Ok(None),
            Some(Data::Sorted(set)) => Ok(Some(set)),
            Some(_) => Err(Refusal::WRONG_TYPE),
        }
    }

    pub(crate) fn fields(&mut self, key: &[u8]) -> Result<Option<&mut Fields>, Refusal> {
        match self.entry(key).map(|entry| &mut entry.data) {
            None => Ok(None),
            Some(Data::Hash(fields)) => Ok(Some(fields)),
            Some(_) => Err(Refusal::WRONG_TYPE),
        }
    }

    /// Removes a collection that has become empty.
    pub(crate) fn sweep(&mut self, key: &[u8]) {
        let empty = match self.entry(key).map(|entry| &entry.data) {
            Some(Data::Sorted(set)) => set.members().is_empty(),
            Some(Data::Hash(fields)) => fields.is_empty(),
            _ => false,
        };
        if empty {
            self.entries.remove(key);
        }
    }

    /// The keys that have not expired at `now_us`, without removing expired ones. Sorted, so that the order is always
    /// the same.
    pub(crate) fn live(&self, now_us: u64) -> Vec<(&[u8], &Entry)> {
        let now_ms = (now_us / 1000) as i64;
        let live = self.entries.iter().filter(|(_, entry)| !entry.is_over(now_ms));
        let mut live: Vec<_> = live.map(|(key, entry)| (key.as_slice(), entry)).collect();
        live.sort_unstable_by_key(|(key, _)| *key);
        live
    }

    /// The key's entry at `now_us`, without removing an expired one.
    pub(crate) fn look(&self, now_us: u64, key: &[u8]) -> Option<&Entry> {
        self.entries.get(key).filter(|entry| !entry.is_over((now_us / 1000) as i64))
    }
}

impl Entry {
    pub(crate) const fn lasting(data: Data) -> Self {
        Self { data, expires_ms: None }
    }

    fn is_over(&self, now_ms: i64) -> bool {
        self.expires_ms.is_some_and(|expires| now_ms > expires)
    }
}
