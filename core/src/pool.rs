//! A semaphore in use: its local callers, and a lane for each token that holds permits or waits for some.
//!
//! A lane is the machine of an exclusive lock with one caller at a time. Callers are served first come, first
//! served. When a caller gives permits back, its lane goes to the first waiting caller if that one wants the same
//! number; the others move up. Several lanes ask in parallel until the server says that one has to wait. From then
//! on, one lane waits for all callers.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::context::{ResourceId, Table};
use crate::error::Error;
use crate::event::OpId;
use crate::name::Name;
use crate::node::Node;
use crate::op::OpKind;
use crate::options::{AcquireOptions, Family, Kind, Wait};
use crate::queue::LocalQueue;
use crate::request::Request;
use crate::resource::Resource;
use crate::tenure::Admission;

/// How many lanes may ask for permits in parallel.
const ASKING: usize = 16;

/// The semaphores in use, by key.
pub(crate) type Pools = Table<Arc<str>, Box<Pool>>;

pub(crate) struct Pool {
    name: Name,
    /// In the order in which they were opened.
    lanes: Vec<ResourceId>,
    queue: LocalQueue,
}

impl Node {
    /// The semaphore's key. Opens the semaphore if it is not in use yet.
    pub(crate) fn pool_of(&mut self, name: &str) -> Result<Arc<str>, Error> {
        let name = Name::new(Name::check(&self.cx.config.prefix, name)?, Family::Semaphore);
        let key = name.key.clone();
        self.pools
            .entry(key.clone())
            .or_insert_with(|| Box::new(Pool { name, lanes: Vec::new(), queue: LocalQueue::default() }));
        Ok(key)
    }

    pub(crate) fn push_to_pool(&mut self, key: &str, op: OpId, options: AcquireOptions) {
        if let Some(pool) = self.pools.get_mut(key) {
            pool.queue.push(op, options);
        }
        self.serve(key);
    }

    pub(crate) fn lanes(&self, key: &str) -> Vec<ResourceId> {
        self.pools.get(key).map(|pool| pool.lanes.clone()).unwrap_or_default()
    }

    /// Opens lanes for waiting callers as far as asking makes sense. Called after every change of a lane.
    pub(crate) fn serve(&mut self, key: &str) {
        loop {
            let Some(pool) = self.pools.get_mut(key) else { return };
            let (resources, cx) = (&mut self.resources, &mut self.cx);
            pool.lanes.retain(|lane| resources.get(*lane).is_some_and(|lane| lane.name.key == pool.name.key));
            let Some((op, options)) = pool.queue.head() else {
                if pool.lanes.is_empty() {
                    self.pools.remove(key);
                }
                return;
            };
            let asking = || pool.lanes.iter().filter_map(|lane| resources.get(*lane)).filter(|lane| asks(lane));
            if let Some(busy) = asking().find(|lane| lane.request.as_ref().is_some_and(Request::is_known_busy)) {
                if pool.queue.tries() == 0 {
                    return;
                }
                let tries =
                    pool.queue.iter().filter(|(op, options)| options.wait == Wait::No && cx.ops.contains_key(op));
                for (op, _) in tries.collect::<Vec<_>>() {
                    let error = busy.busy(cx, op);
                    cx.complete(op, Err(error));
                    pool.queue.ended(true, |op| cx.ops.contains_key(&op));
                }
                return;
            }
            if asking().count() >= ASKING {
                return;
            }
            let lane = resources.add(pool.name.clone());
            pool.lanes.push(lane);
            pool.queue.pop(|op| cx.ops.contains_key(&op));
            self.enter(lane, op, options);
            self.run(lane, |lane, cx| lane.settle(cx, None));
        }
    }

    /// A lane has no caller any more. The callers behind it move up by one, as long as each wants as many
    /// permits as the one before.
    pub(crate) fn move_up(&mut self, lane: ResourceId) {
        let lane_name = self.resources.get(lane).map(|lane| &lane.name).filter(|name| name.family == Family::Semaphore);
        let Some(key) = lane_name.map(|name| name.key.clone()) else { return };
        let Some(pool) = self.pools.get(&key) else { return };
        let holds = self.resources.get(lane).is_some_and(|lane| lane.tenure.is_some());
        // A lane with permits serves the first waiting caller. A waiting lane only serves callers behind it.
        let skip = if holds {
            0
        } else {
            pool.lanes.iter().position(|other| *other == lane).map_or(0, |at| at.saturating_add(1))
        };
        let behind: Vec<_> = pool.lanes.iter().skip(skip).copied().filter(|other| *other != lane).collect();
        let (mut empty, mut passed) = (lane, false);
        for other in behind {
            let Some(from) = self.resources.get_mut(other).filter(|lane| asks(lane)) else { continue };
            let Some((op, options)) = from.queue.head() else { continue };
            if !self.fits(empty, &options) {
                // The callers behind it may not pass it.
                passed = true;
                break;
            }
            if let Some(from) = self.resources.get_mut(other) {
                from.queue = LocalQueue::default();
            }
            self.enter(empty, op, options);
            self.settle_if_asking(empty);
            empty = other;
        }
        let next = self.pools.get(&key).and_then(|pool| pool.queue.head());
        if let Some((op, options)) = next.filter(|(_, options)| !passed && self.fits(empty, options)) {
            if let Some(pool) = self.pools.get_mut(&key) {
                pool.queue.pop(|op| self.cx.ops.contains_key(&op));
            }
            self.enter(empty, op, options);
        }
        self.settle_if_asking(empty);
        self.serve(&key);
    }

    fn settle_if_asking(&mut self, lane: ResourceId) {
        if self.resources.get(lane).is_some_and(|lane| lane.tenure.is_none()) {
            self.run(lane, |lane, cx| lane.settle(cx, None));
        }
    }

    /// Whether a lane's token can serve a caller.
    fn fits(&self, lane: ResourceId, options: &AcquireOptions) -> bool {
        let Some(lane) = self.resources.get(lane) else { return false };
        if let Some(tenure) = &lane.tenure
            && tenure.admits(&self.cx, options) == Admission::Never
        {
            return false;
        }
        let kind = lane.tenure.as_ref().map(|tenure| tenure.kind).or(lane.request.as_ref().map(|request| request.kind));
        kind.map(permits) == Some(permits(options.kind))
    }

    /// Makes a call the caller of a lane.
    fn enter(&mut self, lane: ResourceId, op: OpId, options: AcquireOptions) {
        if let Some(open) = self.cx.ops.get_mut(&op) {
            open.kind = OpKind::Acquire { resource: lane, tries: options.wait == Wait::No };
        }
        if let Some(lane) = self.resources.get_mut(lane) {
            lane.queue.push(op, options);
        }
    }

    /// Ends a call that has no lane yet.
    pub(crate) fn cancel_pooled(&mut self, key: &str, op: OpId, error: Error) {
        let Some(pool) = self.pools.get_mut(key) else { return };
        let tries = pool.queue.iter().any(|(other, options)| other == op && options.wait == Wait::No);
        self.cx.complete(op, Err(error));
        pool.queue.ended(tries, |op| self.cx.ops.contains_key(&op));
        self.serve(key);
    }

    /// Whether a call that has no lane yet is a try.
    pub(crate) fn is_pooled_try(&self, key: &str, op: OpId) -> bool {
        let mut calls = self.pools.get(key).into_iter().flat_map(|pool| pool.queue.iter());
        calls.any(|(other, options)| other == op && options.wait == Wait::No)
    }

    /// The error for a call that has no lane yet. It is the same as for the calls before it.
    pub(crate) fn pooled_empty_handed(&self, key: &str, op: OpId) -> Option<Error> {
        let lanes = self.pools.get(key)?.lanes.iter();
        let lane = lanes.filter_map(|lane| self.resources.get(*lane)).find(|lane| asks(lane))?;
        Some(lane.empty_handed(&self.cx, op))
    }

    /// Ends all calls that have no lane yet, because the client is closed.
    pub(crate) fn close_pools(&mut self) {
        for pool in self.pools.values_mut() {
            while let Some((op, _)) = pool.queue.pop(|op| self.cx.ops.contains_key(&op)) {
                self.cx.complete(op, Err(Error::Closed));
            }
        }
    }
}

fn asks(lane: &Resource) -> bool {
    lane.tenure.is_none() && !lane.queue.is_empty()
}

fn permits(kind: Kind) -> u32 {
    match kind {
        Kind::Semaphore { permits, .. } => permits,
        Kind::Lock | Kind::Reentrant(_) => 1,
    }
}
