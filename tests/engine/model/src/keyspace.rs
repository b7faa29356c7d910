//! A server's keys: three types, which expire lazily by the server's clock in milliseconds.

use rustc_hash::FxHashMap;

use crate::answer::Refusal;
use crate::sorted_set::SortedSet;

/// Fields in the order in which they were set, as in a small hash on a server.
pub(crate) type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// The value of a key.
#[derive(Clone)]
pub(crate) enum Data {
    Text(Vec<u8>),
    Sorted(SortedSet),
    Hash(Fields),
}

pub(crate) struct Entry {
    pub(crate) data: Data,
    /// In server milliseconds. The key still exists during this millisecond.
    pub(crate) expires_ms: Option<u64>,
}

#[derive(Default)]
pub(crate) struct Keyspace {
    entries: FxHashMap<Vec<u8>, Entry>,
    pub(crate) now_us: u64,
}

impl Keyspace {
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.now_us / 1000
    }

    /// The key's entry. An expired one is removed first.
    pub(crate) fn entry(&mut self, key: &[u8]) -> Option<&mut Entry> {
        let now = self.now_ms();
        if self.entries.get(key)?.is_over(now) {
            self.entries.remove(key);
            return None;
        }
        self.entries.get_mut(key)
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

    pub(crate) fn hash(&mut self, key: &[u8]) -> Result<Option<&mut Fields>, Refusal> {
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

    /// The keys that have not expired at `now_us`, without removing expired ones. Sorted, so that the order is always the same.
    pub(crate) fn live(&self, now_us: u64) -> Vec<(&Vec<u8>, &Entry)> {
        let mut live: Vec<_> = self.entries.iter().filter(|(_, entry)| !entry.is_over(now_us / 1000)).collect();
        live.sort_unstable_by_key(|(key, _)| *key);
        live
    }

    /// When a key expires. None if it never does, or if it has already expired at `now_us`.
    pub(crate) fn expires_ms(&self, now_us: u64, key: &str) -> Option<u64> {
        self.entries.get(key.as_bytes()).filter(|entry| !entry.is_over(now_us / 1000))?.expires_ms
    }

    /// The key's value at `now_us`, without removing an expired one.
    pub(crate) fn look(&self, now_us: u64, key: &str) -> Option<&Data> {
        self.entries.get(key.as_bytes()).filter(|entry| !entry.is_over(now_us / 1000)).map(|entry| &entry.data)
    }
}

impl Entry {
    fn is_over(&self, now_ms: u64) -> bool {
        self.expires_ms.is_some_and(|expires| now_ms > expires)
    }
}
