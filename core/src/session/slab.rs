//! Values in numbered slots. A slot that became free is used again.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::ids::LockId;

/// Adding, finding and removing take the same time however many values there are.
#[derive(Clone, Hash)]
pub(crate) struct Slab<T> {
    slots: Vec<Option<Box<T>>>,
    free: Vec<LockId>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    #[inline]
    pub(crate) fn get(&self, id: LockId) -> Option<&T> {
        self.slots.get(id.0 as usize)?.as_deref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: LockId) -> Option<&mut T> {
        self.slots.get_mut(id.0 as usize)?.as_deref_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten().map(|value| &**value)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().flatten().map(|value| &mut **value)
    }

    pub(crate) fn add(&mut self, make: impl FnOnce(LockId) -> T) -> LockId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            LockId(u32::try_from(self.slots.len().saturating_sub(1)).unwrap_or(u32::MAX))
        });
        if let Some(slot) = self.slots.get_mut(id.0 as usize) {
            *slot = Some(Box::new(make(id)));
        }
        id
    }

    pub(crate) fn remove(&mut self, id: LockId) -> Option<Box<T>> {
        let removed = self.slots.get_mut(id.0 as usize)?.take()?;
        self.free.push(id);
        Some(removed)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::Slab;
    use crate::ids::LockId;

    #[test]
    fn the_slot_that_became_free_last_is_used_first_so_no_value_is_looked_at() {
        let mut slab = Slab::new();
        let ids: Vec<LockId> = (0..4).map(|_| slab.add(|id| id)).collect();
        for id in [ids[1], ids[3]] {
            assert_eq!(slab.remove(id).as_deref(), Some(&id));
            assert_eq!((slab.remove(id), slab.get(id)), (None, None));
        }
        assert_eq!(slab.iter().copied().collect::<Vec<_>>(), [ids[0], ids[2]]);
        assert_eq!([slab.add(|id| id), slab.add(|id| id), slab.add(|id| id)], [ids[3], ids[1], LockId(4)]);
        assert!((0..5).all(|id| slab.get(LockId(id)) == Some(&LockId(id))));
    }
}
