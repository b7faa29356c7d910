//! A semaphore in use: its local callers, and a lane for each token that holds permits or waits for some.
//!
//! A lane is the machine of an exclusive lock with one caller at a time. Callers are served first come, first
//! served. When a caller gives permits back, its lane goes to the first waiting caller if that one wants the same
//! number; the others move up. Several lanes ask in parallel until the server says that one has to wait. From then
//! on, one lane waits for all callers.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;

use super::Client;
use super::semaphores::Semaphore;
use crate::error::Error;
use crate::ids::{Caller, LockId};
use crate::lock::{Admission, Claim, LocalQueue, LockState, LockTable};
use crate::options::{AcquireOptions, Family, Kind, Wait};
use crate::session::OpKind;
use crate::time::Duration;
use crate::wire::Name;

/// How many lanes may ask for permits in parallel.
const ASKING: u32 = 16;

/// The lanes that ask for permits.
struct Asking {
    lanes: u32,
    /// The lane whose record on the server has the number of all callers behind, as long as it asks.
    first: Option<LockId>,
    /// The first one that is known to wait.
    known: Option<LockId>,
}

impl Semaphore {
    fn asking(&self, locks: &LockTable) -> Asking {
        let mut asking = Asking { lanes: 0, first: None, known: None };
        for id in &self.lanes {
            let Some(lane) = locks.get(*id).filter(|lane| asks(lane)) else { continue };
            asking.lanes = asking.lanes.saturating_add(1);
            if lane.behind > 0 {
                asking.first = Some(*id);
            }
            if asking.known.is_none() && lane.claim.as_ref().is_some_and(Claim::is_known_busy) {
                asking.known = Some(*id);
            }
        }
        asking.first = asking.first.or(asking.known);
        asking
    }
}

impl Client {
    /// The semaphore's key. Opens the semaphore if it is not in use yet.
    pub(super) fn semaphore_of(&mut self, name: &str) -> Result<Arc<str>, Error> {
        let name = Name::new(Name::check(&self.cx.config.prefix, name)?, Family::Semaphore);
        let key = name.key.clone();
        self.semaphores.open(name);
        Ok(key)
    }

    pub(super) fn push_to_semaphore(&mut self, key: &str, op: Caller, options: AcquireOptions) {
        if let Some(semaphore) = self.semaphores.get_mut(key) {
            semaphore.queue.push(op, options);
        }
        self.serve(key);
    }

    /// The error for a caller that would have to wait behind others of this client.
    pub(super) fn semaphore_is_full(&self, key: &str, op: Caller) -> Option<Error> {
        let semaphore = self.semaphores.get(key)?;
        let busy = semaphore.asking(&self.locks).known.and_then(|lane| self.locks.get(lane));
        let full = busy.is_some() || !semaphore.queue.is_empty();
        full.then(|| busy.map_or(Error::busy(Duration::ZERO, None), |lane| lane.busy(&self.cx, op)))
    }

    /// A lane for one more token.
    pub(super) fn add_lane(&mut self, key: &str) -> Option<LockId> {
        let semaphore = self.semaphores.get_mut(key)?;
        let lane = self.locks.add(semaphore.name.clone());
        semaphore.lanes.push(lane);
        Some(lane)
    }

    pub(super) fn lanes(&self, key: &str) -> Vec<LockId> {
        self.semaphores.get(key).map(|semaphore| semaphore.lanes.clone()).unwrap_or_default()
    }

    /// Opens lanes for waiting callers as far as asking makes sense. Called after every change of a lane.
    pub(super) fn serve(&mut self, key: &str) {
        loop {
            let Some(semaphore) = self.semaphores.get_mut(key) else { return };
            let (locks, cx) = (&mut self.locks, &mut self.cx);
            semaphore.lanes.retain(|lane| locks.get(*lane).is_some_and(|lane| lane.name.key == semaphore.name.key));
            let Asking { lanes, first, known } = semaphore.asking(locks);
            if lanes < mem::replace(&mut semaphore.asked, lanes) {
                semaphore.lanes.iter().for_each(|lane| _ = locks.get_mut(*lane).map(LockState::forget_count));
            }
            if let Some(busy) = known.and_then(|lane| locks.get(lane)) {
                let tries =
                    semaphore.queue.iter().filter(|(op, options)| options.wait == Wait::No && cx.ops.contains_key(op));
                for (op, options) in tries.take(semaphore.queue.tries()).collect::<Vec<_>>() {
                    let error = busy.busy(cx, op);
                    cx.fail(op, error);
                    semaphore.queue.ended(options.wait == Wait::No, &cx.ops);
                }
                // The server counts the other lanes, too.
                let elsewhere = first.and_then(|lane| locks.get(lane)?.elsewhere());
                let before = elsewhere.unwrap_or(0).saturating_add(1).max(lanes);
                for (op, found) in semaphore.queue.refuse(&cx.ops, before, elsewhere.is_some()) {
                    let error = busy.full(cx, op, found);
                    cx.fail(op, error);
                    semaphore.queue.ended(false, &cx.ops);
                }
            }
            let behind = semaphore.queue.waiters();
            for id in &semaphore.lanes {
                if let Some(lane) = locks.get_mut(*id) {
                    lane.behind = if Some(*id) == first { behind } else { 0 };
                }
            }
            let Some((op, options)) = semaphore.queue.head() else {
                if semaphore.lanes.is_empty() {
                    self.semaphores.remove(key);
                }
                return;
            };
            if let Some(first) = first.and_then(|first| locks.get_mut(first)) {
                if semaphore.queue.is_undecided() {
                    first.count(cx);
                }
                return;
            }
            if lanes >= ASKING {
                return;
            }
            let options = *options;
            semaphore.queue.pop(&cx.ops);
            let Some(lane) = self.add_lane(key) else { return };
            self.enter(lane, op, options);
            self.run(lane, |lane, cx| lane.settle(cx, None));
        }
    }

    /// A lane has no caller any more. The callers behind it move up by one, as long as each wants as many
    /// permits as the one before.
    pub(super) fn move_up(&mut self, lane: LockId) {
        // What was adopted is no lane, and is not handed over.
        let lane_of = |lane: &&LockState| lane.name.family == Family::Semaphore && lane.adopts.is_none();
        let Some(key) = self.locks.get(lane).filter(lane_of).map(|lane| lane.name.key.clone()) else { return };
        let Some(semaphore) = self.semaphores.get(&key) else { return };
        let holds = self.locks.get(lane).is_some_and(|lane| lane.hold.is_some());
        // A lane with permits serves the first waiting caller. A waiting lane only serves callers behind it.
        let skip = if holds {
            0
        } else {
            semaphore.lanes.iter().position(|other| *other == lane).map_or(0, |at| at.saturating_add(1))
        };
        let behind: Vec<_> = semaphore.lanes.iter().skip(skip).copied().filter(|other| *other != lane).collect();
        let (mut empty, mut passed) = (lane, false);
        for other in behind {
            let Some(from) = self.locks.get_mut(other).filter(|lane| asks(lane)) else { continue };
            let Some((op, options)) = from.queue.head().map(|(op, options)| (op, *options)) else { continue };
            if !self.fits(empty, &options) {
                // The callers behind it may not pass it.
                passed = true;
                break;
            }
            if let Some(from) = self.locks.get_mut(other) {
                from.queue = LocalQueue::default();
            }
            self.enter(empty, op, options);
            self.settle_if_asking(empty);
            empty = other;
        }
        let next =
            self.semaphores.get(&key).and_then(|semaphore| semaphore.queue.head().map(|(op, options)| (op, *options)));
        if let Some((op, options)) = next.filter(|(_, options)| !passed && self.fits(empty, options)) {
            if let Some(semaphore) = self.semaphores.get_mut(&key) {
                semaphore.queue.pop(&self.cx.ops);
            }
            self.enter(empty, op, options);
        }
        self.settle_if_asking(empty);
        self.serve(&key);
    }

    fn settle_if_asking(&mut self, lane: LockId) {
        if self.locks.get(lane).is_some_and(|lane| lane.hold.is_none()) {
            self.run(lane, |lane, cx| lane.settle(cx, None));
        }
    }

    /// Whether a lane's token can serve a caller.
    fn fits(&self, lane: LockId, options: &AcquireOptions) -> bool {
        let Some(lane) = self.locks.get(lane) else { return false };
        if let Some(hold) = &lane.hold
            && hold.admits(&self.cx, options) == Admission::Incompatible
        {
            return false;
        }
        let held = lane.hold.as_ref().map(|hold| (permits(hold.kind), None));
        let wants = held.or(lane.claim.as_ref().map(|claim| (permits(claim.kind), claim.per)));
        wants == Some((permits(options.kind), options.per.map(Duration::from)))
    }

    /// Makes a call the caller of a lane.
    fn enter(&mut self, lane: LockId, op: Caller, options: AcquireOptions) {
        if let Some(open) = self.cx.ops.get_mut(&op) {
            open.kind = OpKind::Acquire { lock: lane, tries: options.wait == Wait::No };
        }
        if let Some(lane) = self.locks.get_mut(lane) {
            lane.queue.push(op, options);
        }
    }

    /// Ends a call that has no lane yet.
    pub(super) fn cancel_queued(&mut self, key: &str, op: Caller, error: Error) {
        let Some(semaphore) = self.semaphores.get_mut(key) else { return };
        let tries = semaphore.queue.iter().any(|(other, options)| other == op && options.wait == Wait::No);
        self.cx.fail(op, error);
        semaphore.queue.ended(tries, &self.cx.ops);
        self.serve(key);
    }

    /// The error for a call that has no lane yet. It is the same as for the calls before it.
    pub(super) fn queued_empty_handed(&self, key: &str, op: Caller) -> Option<Error> {
        let lanes = self.semaphores.get(key)?.lanes.iter();
        let lane = lanes.filter_map(|lane| self.locks.get(*lane)).find(|lane| asks(lane))?;
        Some(lane.empty_handed(&self.cx, op))
    }

    /// Ends all calls that have no lane yet, because the client is closed.
    pub(super) fn close_semaphores(&mut self) {
        for semaphore in self.semaphores.list.iter_mut() {
            while let Some((op, _)) = semaphore.queue.pop(&self.cx.ops) {
                self.cx.fail(op, Error::Closed);
            }
        }
    }
}

fn asks(lane: &LockState) -> bool {
    lane.hold.is_none() && !lane.queue.is_empty()
}

fn permits(kind: Kind) -> u32 {
    if let Kind::Semaphore { permits, .. } = kind { permits } else { 1 }
}
