//! Several names at once: one lease over the leases of its parts, all or none.
//!
//! ```text
//!             one slot and all free: one script
//! (wanted) ---------------------------------------> held ---> released, or lost when the first part is lost
//!    \  busy, or several slots                       ^
//!     '--> one after the other, in sorted order -----'
//! ```
//!
//! A part is acquired like any other lease, by a call of the engine itself ([`Caller::Part`]). A call on the whole lease is
//! made to each part in the same way. The results are collected by [`Client::gather`](super::Client::gather). All clients
//! take names in the same order and wait only for the next one, so there is no deadlock (Havender 1968).

mod acquire;
mod held;
mod script;

use alloc::string::String;
use alloc::vec::Vec;

use crate::session::IdMap;

use crate::error::Error;
use crate::event::Grant;
use crate::ids::{Caller, LeaseId, LockId, Token};
use crate::options::AcquireOptions;

const MOST_NAMES: usize = 256;
/// The most bytes that the names of one call may have together, each with its prefix. A command repeats a name up to
/// six times, so larger ones could not be sent and answered in time.
const MOST_BYTES: usize = 1 << 20;

/// Calls on several names. Their numbers are drawn from the same counter as those of leases.
#[derive(Clone, Hash, Default)]
pub(super) struct Multi {
    open: IdMap<LeaseId, Entry>,
}

#[derive(Clone, Hash)]
enum Entry {
    /// Its number is the one that the whole lease will have.
    Group(Group),
    /// A user's call to all parts of a lease.
    OnParts(Caller),
    /// A script that was sent or queued.
    Script(Script),
}

/// Names that are wanted together.
#[derive(Clone, Hash)]
pub(crate) struct Group {
    op: Caller,
    /// Sorted. The order by name is the order by key, whatever the prefix.
    names: Vec<String>,
    /// For each of the caller's names, its index among the sorted ones.
    order: Vec<usize>,
    pub(super) options: AcquireOptions,
    /// Whether one script takes all names at once.
    by_script: bool,
    /// What is held of the sorted names.
    grants: Vec<Option<Grant>>,
}

/// A script for all names of a group. It may outlive the group.
#[derive(Clone, Hash)]
struct Script {
    group: LeaseId,
    parts: Vec<(LockId, Token)>,
}

impl Multi {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn group(&self, id: LeaseId) -> Option<&Group> {
        if let Some(Entry::Group(group)) = self.open.get(&id) { Some(group) } else { None }
    }

    fn group_mut(&mut self, id: LeaseId) -> Option<&mut Group> {
        if let Some(Entry::Group(group)) = self.open.get_mut(&id) { Some(group) } else { None }
    }

    fn script(&self, id: LeaseId) -> Option<&Script> {
        if let Some(Entry::Script(script)) = self.open.get(&id) { Some(script) } else { None }
    }
}

pub(super) fn only_exclusive() -> Error {
    Error::Unsupported("several names are held as exclusive locks".into())
}
