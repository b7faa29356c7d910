//! A hash map for the numbers that the engine and its driver count up.

use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

use hashbrown::HashMap;

use crate::ids::{ByNumber, Caller, CommandId, LeaseId, OpId, PartId, Token};

/// A map from ids to values. The values have slots of their own, so that all maps share the code that hashes. In
/// WebAssembly, each hash map with another type of value would take 2 kB more.
#[derive(Clone)]
pub(crate) struct IdMap<K, V> {
    index: Index,
    slots: Vec<Option<V>>,
    ids: PhantomData<K>,
}

/// Ids that a map can have as keys.
pub(crate) trait Id: Copy {
    fn key(self) -> Key;
}

/// The number of an id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    number: u64,
    /// Users' calls and parts are counted separately.
    is_part: bool,
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.number);
    }
}

/// Which slot each key has.
#[derive(Clone, Default)]
struct Index {
    occupied: HashMap<Key, u32, ByNumber>,
    free: Vec<u32>,
}

impl<K: Id, V> IdMap<K, V> {
    pub(crate) fn get(&self, id: &K) -> Option<&V> {
        self.slots.get(self.index.find(id.key())?)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: &K) -> Option<&mut V> {
        self.slots.get_mut(self.index.find(id.key())?)?.as_mut()
    }

    pub(crate) fn contains_key(&self, id: &K) -> bool {
        self.index.find(id.key()).is_some()
    }

    /// Adds a value, or replaces the one that the id has.
    pub(crate) fn insert(&mut self, id: K, value: V) {
        let slot = self.index.find_or_add(id.key(), self.slots.len());
        match self.slots.get_mut(slot) {
            Some(slot) => *slot = Some(value),
            None => self.slots.push(Some(value)),
        }
    }

    pub(crate) fn remove(&mut self, id: &K) -> Option<V> {
        self.slots.get_mut(self.index.remove(id.key())?)?.take()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.slots.iter().flatten()
    }

    /// Keeps the values that fit.
    pub(crate) fn retain(&mut self, fits: impl Fn(&V) -> bool) {
        let Self { index: Index { occupied, free }, slots, .. } = self;
        occupied.retain(|_, slot| {
            let Some(value) = slots.get_mut(*slot as usize) else { return false };
            *value = value.take().filter(&fits);
            if value.is_none() {
                free.push(*slot);
            }
            value.is_some()
        });
    }

    pub(crate) fn len(&self) -> usize {
        self.index.occupied.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<V> IdMap<Caller, V> {
    /// The lowest id whose value fits. The order of a hash map differs between machines; this does not.
    pub(super) fn first(&self, fits: impl Fn(&V) -> bool) -> Option<Caller> {
        let value = |slot: u32| self.slots.get(slot as usize)?.as_ref();
        let fitting = self.index.occupied.iter().filter(|(_, slot)| value(**slot).is_some_and(&fits));
        fitting.map(|(key, _)| *key).min().map(|Key { number, is_part }| {
            if is_part { Caller::Part(PartId(number)) } else { Caller::User(OpId(number)) }
        })
    }
}

/// Maps with equal entries are equal, whatever slots these have.
impl<K, V: Hash> Hash for IdMap<K, V> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut occupied: Vec<(&Key, &u32)> = self.index.occupied.iter().collect();
        occupied.sort_unstable();
        occupied.len().hash(state);
        for (key, slot) in occupied {
            (key, key.is_part, self.slots.get(*slot as usize)).hash(state);
        }
    }
}

impl<K, V> Default for IdMap<K, V> {
    fn default() -> Self {
        Self { index: Index::default(), slots: Vec::new(), ids: PhantomData }
    }
}

// Not inlined in WebAssembly: a lookup is in a hundred places.
impl Index {
    #[cfg_attr(target_family = "wasm", inline(never))]
    #[cfg_attr(not(target_family = "wasm"), inline)]
    fn find(&self, key: Key) -> Option<usize> {
        Some(*self.occupied.get(&key)? as usize)
    }

    /// The slot of this key. A new key gets a free one, or the next one.
    #[cfg_attr(target_family = "wasm", inline(never))]
    #[cfg_attr(not(target_family = "wasm"), inline)]
    fn find_or_add(&mut self, key: Key, next: usize) -> usize {
        let Self { occupied, free } = self;
        let slot = occupied.entry(key).or_insert_with(|| free.pop().or(u32::try_from(next).ok()).unwrap_or(u32::MAX));
        *slot as usize
    }

    #[cfg_attr(target_family = "wasm", inline(never))]
    #[cfg_attr(not(target_family = "wasm"), inline)]
    fn remove(&mut self, key: Key) -> Option<usize> {
        let slot = self.occupied.remove(&key)?;
        self.free.push(slot);
        Some(slot as usize)
    }
}

impl Id for Caller {
    fn key(self) -> Key {
        match self {
            Self::User(OpId(number)) => Key { number, is_part: false },
            Self::Part(PartId(number)) => Key { number, is_part: true },
        }
    }
}

macro_rules! ids {
    ($($id:ty),*) => { $(impl Id for $id {
        fn key(self) -> Key {
            Key { number: self.0, is_part: false }
        }
    })* };
}

/// The hash of a name.
#[derive(Clone, Copy)]
pub(super) struct NameKey(pub(super) u64);

ids!(CommandId, LeaseId, OpId, Token, NameKey);

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::IdMap;
    use crate::ids::{Caller, LeaseId, OpId, PartId};

    #[test]
    fn a_slot_is_used_again_and_no_id_finds_the_value_of_another() {
        let mut map = IdMap::default();
        for number in 0..10 {
            map.insert(LeaseId(number), number);
            assert_eq!(map.remove(&LeaseId(number / 2)), (number % 2 == 0).then_some(number / 2));
        }
        assert_eq!(map.len(), 5);
        for number in 0..10 {
            assert_eq!(map.get(&LeaseId(number)).copied(), (number > 4).then_some(number));
            assert_eq!(map.contains_key(&LeaseId(number)), number > 4);
        }
        assert!(map.slots.len() < 10, "{} slots for at most 6 values", map.slots.len());
        map.insert(LeaseId(7), 70);
        assert_eq!((map.get(&LeaseId(7)), map.len()), (Some(&70), 5));
        map.retain(|value| *value > 8);
        let mut left: Vec<u64> = map.values().copied().collect();
        left.sort_unstable();
        assert_eq!(left, [9, 70]);
    }

    #[test]
    fn a_users_call_and_a_part_with_the_same_number_are_different() {
        let mut map = IdMap::default();
        let part = Caller::Part(PartId(3));
        map.insert(part, 'p');
        map.insert(Caller::User(OpId(3)), 'u');
        map.insert(Caller::User(OpId(2)), 'u');
        assert_eq!((map.get(&part), map.len()), (Some(&'p'), 3));
        assert_eq!(map.first(|value| *value == 'u'), Some(Caller::User(OpId(2))));
        assert_eq!(map.first(|value| *value == 'p'), Some(part));
        assert_eq!(map.first(|value| *value == 'x'), None);
    }
}
