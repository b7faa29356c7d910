//! Several names at once: one lease over the leases of its parts, all or none.
//!
//! ```text
//!             one slot and all free: one script
//! (wanted) ---------------------------------------> held ---> released, or lost when the first part is lost
//!    \  busy, or several slots                       ^
//!     '--> one after the other, in sorted order -----'
//! ```
//!
//! A part is acquired like any other lease, by a call of the engine itself. The call's number contains the group and
//! the part, and its lease has the same number. The results are collected by [`Client::gather`]. All clients take names
//! in the same order and wait only for the next one, so there is no deadlock (Havender 1968).

mod acquire;
mod held;
mod script;

use alloc::string::String;
use alloc::vec::Vec;

use hashbrown::HashMap;

use crate::error::Error;
use crate::event::{LeaseInfo, Outcome};
use crate::ids::{ByNumber, INNER, LeaseId, LockId, OpId, Token};
use crate::options::{AcquireOptions, Mode};

/// Where a part's index begins in such a number, above the group's number.
const INDEX: u32 = 48;
const MOST_NAMES: usize = 256;
/// The most bytes that the names of one call may have together, each with its prefix. A command repeats a name up to
/// six times, so larger ones could not be sent and answered in time.
const MOST_BYTES: usize = 1 << 20;

/// Operations on several names. Their numbers are drawn from the same counter as those of leases.
#[derive(Default)]
pub(crate) struct Multi {
    open: HashMap<LeaseId, Entry, ByNumber>,
}

pub(crate) enum Entry {
    /// A group of names, wanted or held. Its number is also its lease's.
    Group(Group),
    /// A user's call that is made to all parts.
    Fan(Fan),
    /// A script that was sent for all names of a group. It may outlive the group.
    Script { group: LeaseId, parts: Vec<(LockId, Token)> },
}

pub(crate) struct Group {
    pub(crate) op: OpId,
    /// Sorted. The order by name is the order by key, whatever the prefix.
    pub(crate) names: Vec<String>,
    /// For each of the caller's names, its index among the sorted ones.
    order: Vec<usize>,
    pub(crate) options: AcquireOptions,
    /// Whether one script takes all names at once.
    pub(crate) by_script: bool,
    /// The fences of the held parts. 0 for the others, because no fence is 0.
    fences: Vec<u64>,
    /// 0 while the group is wanted.
    holds: u32,
}

impl Group {
    fn info(&self) -> LeaseInfo {
        let fence = self.fences.iter().copied().max().unwrap_or_default();
        LeaseInfo { mode: Mode::Exclusive, fence, holds: self.holds, lost: None }
    }
}

/// The number of a part's call and lease.
pub(crate) fn part(group: LeaseId, index: usize) -> u64 {
    INNER | ((index as u64) << INDEX) | group.0
}

/// The group and the index in a part's number.
fn whose(number: u64) -> (LeaseId, usize) {
    (LeaseId(number & ((1 << INDEX) - 1)), ((number & !INNER) >> INDEX) as usize)
}

impl Multi {
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(crate) fn insert(&mut self, number: LeaseId, entry: Entry) {
        self.open.insert(number, entry);
    }

    pub(crate) fn remove(&mut self, number: LeaseId) -> Option<Entry> {
        self.open.remove(&number)
    }

    /// The group and the tokens of a script that was sent or is queued.
    fn script(&self, number: LeaseId) -> Option<(LeaseId, Vec<(LockId, Token)>)> {
        match self.open.get(&number) {
            Some(Entry::Script { group, parts }) => Some((*group, parts.clone())),
            _ => None,
        }
    }

    /// A group that is still wanted.
    pub(crate) fn wanted(&mut self, group: LeaseId) -> Option<&mut Group> {
        match self.open.get_mut(&group) {
            Some(Entry::Group(group)) if group.holds == 0 => Some(group),
            _ => None,
        }
    }

    /// The lease of a held group.
    pub(crate) fn info(&self, lease: LeaseId) -> Option<LeaseInfo> {
        match self.open.get(&lease) {
            Some(Entry::Group(group)) if group.holds > 0 => Some(group.info()),
            _ => None,
        }
    }

    fn held(&mut self, lease: LeaseId) -> Option<&mut Group> {
        match self.open.get_mut(&lease) {
            Some(Entry::Group(group)) if group.holds > 0 => Some(group),
            _ => None,
        }
    }
}

/// A user's call that is made to all parts.
pub(crate) struct Fan {
    pub(super) op: OpId,
    pub(super) left: usize,
    pub(super) result: Result<Outcome, Error>,
}

impl Fan {
    /// Keeps the worst result. For a verify, that is `Verified(false)`.
    pub(super) fn take_in(&mut self, result: Result<Outcome, Error>) {
        match (&mut self.result, result) {
            (worst, Ok(Outcome::Verified(false))) => *worst = Ok(Outcome::Verified(false)),
            (Ok(Outcome::Released(worst)), Ok(Outcome::Released(outcome))) => *worst = outcome.max(*worst),
            (Ok(Outcome::Extended { valid_until: first }), Ok(Outcome::Extended { valid_until })) => {
                *first = valid_until.min(*first);
            }
            (Ok(Outcome::Verified(false)) | Err(_), _) | (_, Ok(_)) => {}
            (worst, error) => *worst = error,
        }
    }
}
