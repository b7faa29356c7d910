//! The names in use, each with its machine.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use foldhash::fast::FixedState;

use crate::context::{Context, ResourceId, Table};
use crate::error::Error;
use crate::name::Name;
use crate::options::Family;
use crate::resource::Resource;

/// The names in use, by number and by key.
pub(crate) struct Resources {
    list: Vec<Option<Box<Resource>>>,
    free: Vec<ResourceId>,
    locks: Table<Arc<str>, ResourceId>,
    reentrant: Table<Arc<str>, ResourceId>,
}

impl Resources {
    pub(crate) fn new(hasher: impl Fn() -> FixedState) -> Self {
        let (locks, reentrant) = (Table::with_hasher(hasher()), Table::with_hasher(hasher()));
        Self { list: Vec::new(), free: Vec::new(), locks, reentrant }
    }

    pub(crate) fn get(&self, id: ResourceId) -> Option<&Resource> {
        self.list.get(id.0 as usize)?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, id: ResourceId) -> Option<&mut Resource> {
        self.list.get_mut(id.0 as usize)?.as_deref_mut()
    }

    pub(crate) fn find(&self, family: Family, key: &str) -> Option<ResourceId> {
        match family {
            Family::Lock => self.locks.get(key).copied(),
            Family::Reentrant => self.reentrant.get(key).copied(),
            Family::Semaphore => None,
        }
    }

    pub(crate) fn ids(&self) -> Vec<ResourceId> {
        self.list.iter().flatten().map(|resource| resource.id).collect()
    }

    /// The name's id. Creates one if the name is not in use, and always for a lane of a semaphore.
    ///
    /// # Errors
    /// If a lock can't have this name.
    pub(crate) fn of(&mut self, cx: &Context, name: &str, family: Family) -> Result<ResourceId, Error> {
        let key = Name::key(&cx.config.prefix, name);
        if let Some(id) = self.find(family, &key) {
            return Ok(id);
        }
        let key = Name::check(&cx.config.prefix, name)?;
        Ok(self.add(Name::new(key, family)))
    }

    /// Creates a machine for a name.
    pub(crate) fn add(&mut self, name: Name) -> ResourceId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.list.push(None);
            ResourceId(u32::try_from(self.list.len().saturating_sub(1)).unwrap_or(u32::MAX))
        });
        match name.family {
            Family::Lock => self.locks.insert(name.key.clone(), id),
            Family::Reentrant => self.reentrant.insert(name.key.clone(), id),
            Family::Semaphore => None,
        };
        if let Some(place) = self.list.get_mut(id.0 as usize) {
            *place = Some(Box::new(Resource::new(id, name)));
        }
        id
    }

    pub(crate) fn remove(&mut self, id: ResourceId) {
        let Some(resource) = self.list.get_mut(id.0 as usize).and_then(Option::take) else { return };
        match resource.name.family {
            Family::Lock => self.locks.remove(&resource.name.key),
            Family::Reentrant => self.reentrant.remove(&resource.name.key),
            Family::Semaphore => None,
        };
        self.free.push(id);
    }
}
