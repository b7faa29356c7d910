//! Several names at once: one lease over the leases of its parts, all or none.
//!
//! ```text
//!                   one script
//! (wanted) -------------------------------> held ---> released, or lost when the first part is lost
//!   |   ^ \                                   ^
//!   |   |  '-- full part: wait there alone,   |
//!   |   '----- then the script again          |
//!   '--> after some rounds, or several slots: one after the other, in sorted order
//! ```
//!
//! A part is acquired like any other lease, by a call of the engine itself ([`Caller::Part`]). A call on the whole lease is
//! made to each part in the same way. The results are collected by [`HoldAll::gather`]. A group that waits at a full part holds
//! nothing. A group that takes its parts in order holds those before: all clients use the same order and wait only for the next
//! part, so there is no deadlock (Havender 1968), and each queue is first come, first served, so it is served in the end.
//!
//! A quorum takes them in the same way, but never by one script. What differs is in [`PartLocks`].

mod acquire;
mod held;
mod one_server;
mod script;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use crate::error::Error;
use crate::event::Grant;
use crate::ids::{Caller, LeaseId, LockId, Token};
use crate::options::{AcquireOptions, Kind, Mode};
use crate::session::{Context, IdMap};
use crate::time::{Duration, Instant};

pub(crate) use acquire::AcquireAll;
pub(crate) use held::HoldAll;

const MOST_NAMES: usize = 256;
/// The most bytes that the names of one call may have together, each with its prefix. A command repeats a name up to
/// six times, so larger ones could not be sent and answered in time.
const MOST_BYTES: usize = 1 << 20;

/// How often a group waits at a full part and holds nothing meanwhile. Then it takes the parts in order.
const MOST_ROUNDS: u8 = 4;

/// The locks of which a lease of several names consists: those of one server, or of a quorum.
pub(crate) trait PartLocks: Sized {
    fn cx(&mut self) -> &mut Context;
    fn multi(&mut self) -> &mut Multi;
    /// The time limit of the whole call.
    fn patience(&self, options: &AcquireOptions) -> Option<Duration>;
    /// Begins to take the names of a group.
    fn begin(&mut self, id: LeaseId, group: Group);
    /// Asks for all parts that are still missing with one script.
    fn at_once(&mut self, id: LeaseId);
    fn acquire_part(&mut self, op: Caller, name: &str, options: &AcquireOptions);
    fn call_part(&mut self, op: Caller, part: LeaseId, call: PartCall);
    /// Ends a part's caller.
    fn stop_wanting(&mut self, op: Caller);
    /// Gives a lease back that has ended here.
    fn give_back_part(&mut self, lock: LockId, part: LeaseId);
    /// Why a part is not granted yet, if it is wanted.
    fn empty_handed(&self, name: &str, whole: Caller, part: Caller) -> Option<Error>;
    /// Moves the end of a part.
    fn keep_part(&mut self, part: LeaseId, until: Instant);
    /// When a part ends, although it is renewed.
    fn part_ends(&self, part: LeaseId) -> Option<Instant>;
    fn valid_until(&self, lease: LeaseId) -> Option<Instant>;
}

/// A user's call on a lease, which is made to all parts.
#[derive(Clone, Copy)]
pub(crate) enum PartCall {
    Release,
    Extend(Duration),
    Verify,
}

/// Calls on several names. Their numbers are drawn from the same counter as those of leases.
#[derive(Clone, Hash, Default)]
pub(crate) struct Multi {
    open: IdMap<LeaseId, Entry>,
}

#[derive(Clone, Hash)]
enum Entry {
    /// Its number is the one that the whole lease will have.
    Group(Box<Group>),
    /// A user's call to all parts of a lease.
    OnParts(Caller),
    /// A script that was sent or queued.
    Script(Script),
}

/// Locks that are wanted together.
#[derive(Clone, Hash)]
pub(crate) struct Group {
    op: Caller,
    /// Sorted by name. That is the order by key, whatever the prefix.
    wanted: Vec<Wanted>,
    /// For each of the caller's parts, its index among the sorted ones.
    order: Vec<usize>,
    pub(crate) options: AcquireOptions,
    since: Instant,
    /// Whether one script takes all parts at once.
    by_script: bool,
    /// The full part at which the group waits, or waited, before it asks for the others.
    full: Option<u16>,
    /// How often it has waited at a full part.
    rounds: u8,
    /// What is held of the sorted parts.
    grants: Vec<Option<Grant>>,
}

/// A part of a group.
#[derive(Clone, Hash)]
struct Wanted {
    name: String,
    kind: Kind,
    mode: Mode,
}

/// A script for all names of a group. It may outlive the group.
#[derive(Clone, Hash)]
struct Script {
    group: LeaseId,
    parts: Vec<(LockId, Token)>,
}

impl Multi {
    /// Adds a group whose names are taken one after the other, even if they are in one slot.
    #[cfg(feature = "quorum")]
    pub(crate) fn insert(&mut self, id: LeaseId, group: Group) {
        self.open.insert(id, Entry::Group(Box::new(Group { by_script: false, ..group })));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(crate) fn group(&self, id: LeaseId) -> Option<&Group> {
        if let Some(Entry::Group(group)) = self.open.get(&id) { Some(group) } else { None }
    }

    fn group_mut(&mut self, id: LeaseId) -> Option<&mut Group> {
        if let Some(Entry::Group(group)) = self.open.get_mut(&id) { Some(group) } else { None }
    }

    /// Whether an old group may now take its parts in order. One group does that at a time, the oldest first, because it holds
    /// parts while it waits.
    fn is_next_in_order(&self, group: &Group) -> bool {
        let before = |other: &Group| other.is_old() && (!other.by_script || other.since < group.since);
        !self.open.values().any(|entry| if let Entry::Group(other) = entry { before(other) } else { false })
    }

    fn script(&self, id: LeaseId) -> Option<&Script> {
        if let Some(Entry::Script(script)) = self.open.get(&id) { Some(script) } else { None }
    }
}

pub(super) fn not_several() -> Error {
    Error::unsupported("a lease of several names can't be converted or adopted")
}
