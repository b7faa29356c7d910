//! Which lock each name leads to.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::hash::BuildHasher;

use super::id_map::{IdMap, NameKey};
use super::name_hash::NameHash;
use crate::ids::LockId;

/// A map from names to locks. It is an [`IdMap`] from the names' hashes, so that all maps share the code of one hash map. In
/// WebAssembly, another one would take 2 kB more.
#[derive(Clone)]
pub(crate) struct Names {
    hash: NameHash,
    entries: IdMap<NameKey, Entry>,
}

#[derive(Clone)]
struct Entry {
    name: Arc<str>,
    lock: LockId,
    /// Another name with the same hash.
    next: Option<Box<Entry>>,
}

impl Names {
    pub(crate) fn new(hash: NameHash) -> Self {
        Self { hash, entries: IdMap::default() }
    }

    #[cfg_attr(target_family = "wasm", inline(never))]
    fn key(&self, name: &str) -> NameKey {
        NameKey(self.hash.hash_one(name))
    }

    #[cfg_attr(target_family = "wasm", inline(never))]
    pub(crate) fn get(&self, name: &str) -> Option<LockId> {
        let mut entry = self.entries.get(&self.key(name))?;
        while *entry.name != *name {
            entry = entry.next.as_deref()?;
        }
        Some(entry.lock)
    }

    /// Adds a name, or replaces the lock that it has.
    pub(crate) fn insert(&mut self, name: Arc<str>, lock: LockId) {
        self.remove(&name);
        let key = self.key(&name);
        let next = self.entries.remove(&key).map(Box::new);
        self.entries.insert(key, Entry { name, lock, next });
    }

    #[cfg_attr(target_family = "wasm", inline(never))]
    pub(crate) fn remove(&mut self, name: &str) -> Option<LockId> {
        let key = self.key(name);
        let (mut removed, mut kept) = (None, None::<Entry>);
        let mut entry = self.entries.remove(&key);
        while let Some(Entry { name: other, lock, next }) = entry {
            entry = next.map(|next| *next);
            if *other == *name {
                removed = Some(lock);
            } else {
                kept = Some(Entry { name: other, lock, next: kept.map(Box::new) });
            }
        }
        if let Some(kept) = kept {
            self.entries.insert(key, kept);
        }
        removed
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With this seed, all names have the same hash.
    fn colliding() -> Names {
        Names::new(NameHash::new(0x9e37_79b9_7f4a_7c15))
    }

    #[test]
    fn names_with_the_same_hash_lead_to_their_own_locks() {
        let mut names = colliding();
        let keys = [names.key("a").0, names.key("b").0];
        assert_eq!(keys[0], keys[1]);
        for (name, lock) in [("a", 1), ("b", 2), ("c", 3), ("b", 4)] {
            names.insert(name.into(), LockId(lock));
        }
        let found = |names: &Names| ["a", "b", "c", "d"].map(|name| names.get(name).map(|lock| lock.0));
        assert_eq!(found(&names), [Some(1), Some(4), Some(3), None]);
        assert_eq!((names.remove("d"), names.remove("b"), names.remove("b")), (None, Some(LockId(4)), None));
        assert_eq!(found(&names), [Some(1), None, Some(3), None]);
        assert_eq!((names.remove("c"), names.remove("a")), (Some(LockId(3)), Some(LockId(1))));
        assert_eq!(names.len(), 0);
    }
}
