//! The semaphores in use.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use crate::ids::LockId;
use crate::lock::LocalQueue;
use crate::session::{NameHash, Names, Slab};
use crate::wire::Name;

/// A semaphore in use.
#[derive(Clone, Hash)]
pub(super) struct Semaphore {
    pub(super) name: Arc<Name>,
    /// In the order in which they were opened.
    pub(super) lanes: Vec<LockId>,
    /// How many of them asked for permits when its callers were last served.
    pub(super) asked: u32,
    pub(super) queue: LocalQueue,
}

/// The semaphores in use. They have slots of their own.
#[derive(Clone)]
pub(super) struct Semaphores {
    slots: Names,
    pub(super) list: Slab<Semaphore>,
}

/// The names lead to the list, which has them too.
impl Hash for Semaphores {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.list.hash(state);
    }
}

impl Semaphores {
    pub(super) fn new(hash: NameHash) -> Self {
        Self { slots: Names::new(hash), list: Slab::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn get(&self, key: &str) -> Option<&Semaphore> {
        self.list.get(self.slots.get(key)?)
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Semaphore> {
        self.list.get_mut(self.slots.get(key)?)
    }

    pub(super) fn open(&mut self, name: Arc<Name>) {
        if self.slots.get(&name.key).is_some() {
            return;
        }
        let key = name.key.clone();
        let slot = self.list.add(|_| Semaphore { name, lanes: Vec::new(), asked: 0, queue: LocalQueue::default() });
        self.slots.insert(key, slot);
    }

    pub(super) fn remove(&mut self, key: &str) {
        if let Some(slot) = self.slots.remove(key) {
            self.list.remove(slot);
        }
    }
}
