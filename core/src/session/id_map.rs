//! A hash map for the numbers that the engine and its driver count up.

use alloc::vec;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

use crate::ids::{Caller, CommandId, LeaseId, OpId, PartId, Token};

/// A map from ids to values. The values have slots of their own, so that all maps share the code that hashes. In
/// WebAssembly, each hash map with another type of value would take 2 kB more, and slots in a [`Slab`](super::slab::Slab),
/// which keeps the free ones for each type, 0.4 kB.
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

/// Which slot each key has: a hash table with linear probing. In WebAssembly, it takes a quarter of what `hashbrown` takes.
#[derive(Clone, Default)]
struct Index {
    /// A power of two, of which at most three quarters are taken. Or none.
    cells: Vec<Option<(Key, u32)>>,
    len: usize,
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

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.slots.iter().flatten()
    }

    /// Keeps the values that fit.
    pub(crate) fn retain(&mut self, fits: impl Fn(&V) -> bool) {
        let Self { index, slots, .. } = self;
        for cell in &mut index.cells {
            let Some((_, slot)) = *cell else { continue };
            let Some(value) = slots.get_mut(slot as usize) else { continue };
            *value = value.take().filter(&fits);
            if value.is_none() {
                index.free.push(slot);
                index.len = index.len.saturating_sub(1);
                *cell = None;
            }
        }
        index.rebuild(index.cells.len());
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<V> IdMap<Caller, V> {
    /// The lowest id whose value fits. The order of a hash map differs between machines; this does not.
    pub(super) fn first(&self, fits: impl Fn(&V) -> bool) -> Option<Caller> {
        let value = |slot: u32| self.slots.get(slot as usize)?.as_ref();
        let fitting = self.index.iter().filter(|(_, slot)| value(*slot).is_some_and(&fits));
        fitting.map(|(key, _)| *key).min().map(|Key { number, is_part }| {
            if is_part { Caller::Part(PartId(number)) } else { Caller::User(OpId(number)) }
        })
    }
}

/// Maps with equal entries are equal, whatever slots these have.
impl<K, V: Hash> Hash for IdMap<K, V> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut occupied: Vec<&(Key, u32)> = self.index.iter().collect();
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
    fn find(&self, key: Key) -> Option<usize> {
        let (_, slot) = (*self.cells.get(self.position(key).ok()?)?)?;
        Some(slot as usize)
    }

    /// The slot of this key. A new key gets a free one, or the next one.
    #[cfg_attr(target_family = "wasm", inline(never))]
    fn find_or_add(&mut self, key: Key, next: usize) -> usize {
        if let Some(slot) = self.find(key) {
            return slot;
        }
        if self.len.saturating_mul(4) >= self.cells.len().saturating_mul(3) {
            self.rebuild(self.cells.len().saturating_mul(2).max(4));
        }
        let slot = self.free.pop().or(u32::try_from(next).ok()).unwrap_or(u32::MAX);
        self.len = self.len.saturating_add(1);
        self.put(key, slot);
        slot as usize
    }

    #[cfg_attr(target_family = "wasm", inline(never))]
    fn remove(&mut self, key: Key) -> Option<usize> {
        let mut hole = self.position(key).ok()?;
        let (_, slot) = self.cells.get_mut(hole)?.take()?;
        self.len = self.len.saturating_sub(1);
        self.free.push(slot);
        // Keys behind the hole that would not be found any more move into it.
        let mask = self.mask();
        let mut at = hole;
        loop {
            at = at.wrapping_add(1) & mask;
            let Some(Some((other, _))) = self.cells.get(at) else { break };
            if at.wrapping_sub(self.home(*other)) & mask >= at.wrapping_sub(hole) & mask {
                self.cells.swap(hole, at);
                hole = at;
            }
        }
        Some(slot as usize)
    }

    fn mask(&self) -> usize {
        self.cells.len().wrapping_sub(1)
    }

    /// The cell where the search for a key begins.
    fn home(&self, key: Key) -> usize {
        (key.number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & self.mask()
    }

    /// The cell that has the key, or else the free one where it belongs.
    fn position(&self, key: Key) -> Result<usize, usize> {
        let mut at = self.home(key);
        while let Some(Some((other, _))) = self.cells.get(at) {
            if *other == key {
                return Ok(at);
            }
            at = at.wrapping_add(1) & self.mask();
        }
        Err(at)
    }

    fn put(&mut self, key: Key, slot: u32) {
        if let Err(at) = self.position(key)
            && let Some(cell) = self.cells.get_mut(at)
        {
            *cell = Some((key, slot));
        }
    }

    /// Puts all keys where they belong among this many cells.
    #[inline(never)]
    fn rebuild(&mut self, cells: usize) {
        let old = core::mem::replace(&mut self.cells, vec![None; cells]);
        for (key, slot) in old.into_iter().flatten() {
            self.put(key, slot);
        }
    }

    fn iter(&self) -> impl Iterator<Item = &(Key, u32)> {
        self.cells.iter().flatten()
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
    use alloc::collections::BTreeMap;
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
    fn any_order_of_calls_gives_what_an_ordered_map_gives() {
        let (mut map, mut model, mut random) = (IdMap::default(), BTreeMap::new(), 1_u64);
        for step in 0..50_000_u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Neighbours, and numbers that differ only in their upper bits.
            let number = if random >> 63 == 0 { random >> 33 & 0x3f } else { (random >> 33 & 0x3f) << 48 };
            let id = LeaseId(number);
            match random >> 60 & 3 {
                0 => assert_eq!(map.remove(&id), model.remove(&number)),
                1 if step % 97 == 0 => {
                    map.retain(|value| value % 3 != 0);
                    model.retain(|_, value| *value % 3 != 0);
                }
                _ => {
                    map.insert(id, step);
                    model.insert(number, step);
                }
            }
            assert_eq!((map.len(), map.get(&id)), (model.len(), model.get(&number)));
        }
        assert!(
            (0..0x40).flat_map(|low| [low, low << 48]).all(|number| map.get(&LeaseId(number)) == model.get(&number))
        );
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
