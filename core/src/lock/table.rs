//! The names in use, each with its machine.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use super::LockState;
use super::hold::Hold;
use crate::error::Error;
use crate::ids::{LeaseToken, LockId};
use crate::options::Family;
use crate::session::{Context, NameHash, Names, Slab};
use crate::wire::Name;

/// The names in use, by number and by key.
#[derive(Clone)]
pub(crate) struct LockTable {
    list: Slab<LockState>,
    /// Those of each kind. A semaphore's name leads to no machine, because it has one for each of its lanes.
    named: [Names; Family::ALL.len()],
}

/// The names lead to the list, which has them too.
impl Hash for LockTable {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.list.hash(state);
    }
}

// In WebAssembly, lookups are not inlined, because they have a hundred callers.
impl LockTable {
    pub(crate) fn new(hasher: NameHash) -> Self {
        Self { list: Slab::new(), named: core::array::from_fn(|_| Names::new(hasher)) }
    }

    #[cfg_attr(target_family = "wasm", inline(never))]
    pub(crate) fn get(&self, id: LockId) -> Option<&LockState> {
        self.list.get(id)
    }

    #[cfg_attr(target_family = "wasm", inline(never))]
    pub(crate) fn get_mut(&mut self, id: LockId) -> Option<&mut LockState> {
        self.list.get_mut(id)
    }

    pub(crate) fn hold(&self, id: LockId) -> Option<&Hold> {
        self.get(id)?.hold.as_ref()
    }

    pub(crate) fn find(&self, family: Family, key: &str) -> Option<LockId> {
        self.named.get(family as usize)?.get(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &LockState> {
        self.list.iter()
    }

    pub(crate) fn ids(&self) -> Vec<LockId> {
        self.iter().map(|lock| lock.id).collect()
    }

    /// The name's id. Creates one if the name is not in use, and always for a lane of a semaphore.
    ///
    /// # Errors
    /// If a lock can't have this name.
    pub(crate) fn of(&mut self, cx: &Context, name: &str, family: Family) -> Result<LockId, Error> {
        let key = Name::key(&cx.config.prefix, name);
        if let Some(id) = self.find(family, &key) {
            return Ok(id);
        }
        let key = Name::check(&cx.config.prefix, name)?;
        Ok(self.add(Name::new(key, family)))
    }

    /// Creates a machine for a name.
    pub(crate) fn add(&mut self, name: Arc<Name>) -> LockId {
        let (family, key) = (name.family, name.key.clone());
        let id = self.add_beside(name);
        if let Some(names) = self.named.get_mut(family as usize).filter(|_| family != Family::Semaphore) {
            names.insert(key, id);
        }
        id
    }

    /// The greatest fence that was used with a token of this client, if the server may not have it. Else 0. The lease is not
    /// handed over any more.
    pub(crate) fn last_use_of(&mut self, cx: &Context, token: LeaseToken) -> u64 {
        let own = token.client.text() == cx.client;
        let hold =
            self.list.iter_mut().filter_map(|lock| lock.hold.as_mut()).find(|hold| own && hold.token == token.token);
        hold.map_or(0, Hold::last_use)
    }

    /// Creates a machine for a lease that is adopted. The name may have another machine, for this client's own callers.
    pub(crate) fn add_adopted(&mut self, name: Arc<Name>, token: LeaseToken, used_fence: u64) -> LockId {
        let id = self.add_beside(name);
        if let Some(lock) = self.get_mut(id) {
            (lock.adopts, lock.used_fence) = (Some(token), used_fence);
        }
        id
    }

    /// Creates a machine that a search for the name doesn't find.
    fn add_beside(&mut self, name: Arc<Name>) -> LockId {
        self.list.add(|id| LockState::new(id, name))
    }

    pub(crate) fn remove(&mut self, id: LockId) {
        let Some(lock) = self.list.remove(id) else { return };
        if let Some(names) = self.named.get_mut(lock.name.family as usize).filter(|_| lock.adopts.is_none()) {
            names.remove(&lock.name.key);
        }
    }
}
