//! One server's locks (or one cluster's): takes every input to the machine it belongs to.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::answer::Answer;
use crate::calls::{Call, Purpose};
use crate::command::Command;
use crate::context::{Context, ResourceId, Table};
use crate::error::{Error, LossReason};
use crate::event::{CallId, Input, LeaseId, Output, Reason};
use crate::message::Message;
use crate::mutant::Mutant;
use crate::name::Name;
use crate::options::{Config, Family};
use crate::pool::Pools;
use crate::reentrant;
use crate::reply::{Failure, Reply};
use crate::request::Request;
use crate::resource::Resource;
use crate::script::Form;
use crate::several::Several;
use crate::subscription::{Channel, Subscription};
use crate::time::Instant;
use crate::timers::Timer;
use crate::token::ClientId;
use crate::trouble::Failed;

/// One client's locks on one server.
pub(crate) struct Node {
    pub(crate) cx: Context,
    pub(crate) resources: Resources,
    pub(crate) pools: Pools,
    pub(crate) several: Several,
}

/// The names in use, by number and by key.
pub(crate) struct Resources {
    list: Vec<Option<Box<Resource>>>,
    free: Vec<ResourceId>,
    locks: Table<Arc<str>, ResourceId>,
    reentrant: Table<Arc<str>, ResourceId>,
}

impl Node {
    /// An engine for one client.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] names the option that is out of its bounds.
    pub(crate) fn new(client: ClientId, config: Config) -> Result<Self, Error> {
        config.check()?;
        let table = || foldhash::fast::FixedState::with_seed(client.seed());
        let (locks, reentrant) = (Table::with_hasher(table()), Table::with_hasher(table()));
        let resources = Resources { list: Vec::new(), free: Vec::new(), locks, reentrant };
        let cx = Context::new(client, config);
        Ok(Self { cx, resources, pools: Pools::with_hasher(table()), several: Several::default() })
    }

    /// Switches a deliberate fault on, for the tests of the tests.
    #[cfg(feature = "mutants")]
    pub(crate) fn set_mutant(&mut self, mutant: Mutant) {
        self.cx.mutant = Some(mutant);
    }

    /// Takes in what happened at `now`. A `now` before an earlier one counts as that one.
    pub(crate) fn handle(&mut self, now: Instant, input: Input<'_>) {
        self.cx.now = self.cx.now.max(now);
        if self.cx.has(Mutant::LossToldLate) {
            self.take_in(input);
            return self.run_timers();
        }
        // A lease that has ended is told before anything else happens to it.
        self.run_timers();
        self.take_in(input);
        self.run_timers();
    }

    /// The next thing to do, until there is none.
    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.cx.outputs.pop_front()
    }

    /// When to call [`handle`](Self::handle) at the latest, and why.
    pub(crate) fn poll_timeout(&self) -> Option<(Instant, Reason)> {
        let overdue = self.cx.calls.next_overdue().map(|at| (at, Reason::ResponseTimeout));
        [self.cx.timers.next(), overdue].into_iter().flatten().min()
    }

    /// When a lease ends by the driver's clock unless it is renewed. None once it was released or lost.
    pub(crate) fn valid_until(&self, lease: LeaseId) -> Option<Instant> {
        let Some(held) = self.cx.leases.get(&lease) else { return self.all_valid_until(lease) };
        let until = self.resources.get(held.resource)?.tenure.as_ref()?.validity.until;
        Some(held.ends.map_or(until, |ends| ends.min(until)))
    }

    /// A write to what the lease is on the server, by digest and with the source.
    pub(crate) fn touch(&self, lease: LeaseId) -> Option<[Command; 2]> {
        let resource = self.resources.get(self.cx.leases.get(&lease)?.resource)?;
        let tenure = resource.tenure.as_ref()?;
        let form = |form| self.cx.touch_command(form, &resource.name, tenure.token, tenure.mode);
        Some([Form::Digest, Form::Source].map(form))
    }

    /// Whether nothing is left of all that happened. For tests: what ended must leave nothing behind.
    pub(crate) fn is_idle(&self) -> bool {
        let cx = &self.cx;
        let open = cx.ops.len() + cx.leases.len() + cx.releases.len() + cx.outputs.len() + self.pools.len();
        let none = self.resources.ids().is_empty() && self.several.is_empty();
        open == 0 && none && self.poll_timeout().is_none()
    }

    fn take_in(&mut self, input: Input<'_>) {
        match input {
            Input::Acquire { op, name, options } => self.acquire(op, name, options),
            Input::AcquireAll { op, names, options, one_script } => self.acquire_all(op, names, options, one_script),
            Input::Cancel { op } => self.cancel(op, Error::Cancelled),
            Input::Release { op, lease } => self.release(op, lease),
            Input::Extend { op, lease, ttl } => self.extend(op, lease, ttl),
            Input::Convert { op, lease, mode } => self.convert(op, lease, mode),
            Input::Hold { op, lease } => self.hold(op, lease),
            Input::Keep { lease, until } => self.keep(lease, until),
            Input::Verify { op, lease } => self.verify(op, lease),
            Input::Inspect { op, name } => self.inspect(op, name),
            Input::ForceRelease { op, name } => self.force(op, name),
            Input::Close { op } => self.close(op),
            Input::Reply { call, result } => self.reply(call, result),
            Input::Message { node: _, channel, payload } => self.message(channel, payload),
            Input::Subscribed { node: _, channel } => {
                self.subscription(channel, |subscription, cx, of| subscription.begins(cx, of));
            }
            Input::Unsubscribed { node: _, channel, cause } => {
                self.subscription(channel, |subscription, cx, of| subscription.ends(cx, of, &cause));
            }
            Input::Wake => {}
        }
    }

    fn run_timers(&mut self) {
        while let Some(timer) = self.cx.timers.pop_due(self.cx.now) {
            self.timer_due(timer);
        }
        while let Some(call) = self.cx.calls.pop_overdue(self.cx.now) {
            self.reply(call, Err(Failure::TimedOut));
        }
        self.gather();
    }

    fn timer_due(&mut self, timer: Timer) {
        match timer {
            Timer::Deadline(id) => self.with(id, |resource, cx| {
                if let Some(tenure) = &mut resource.tenure {
                    tenure.timers.deadline = None;
                }
                resource.lose_tenure(cx, LossReason::Expired, true);
            }),
            Timer::LeaseEnds(lease) => self.lease_ends(lease),
            Timer::Renewal(id) => self.with(id, Resource::renewal_due),
            Timer::Refill(id) => self.with(id, Resource::refill_due),
            Timer::Heartbeat(id) => self.with(id, Resource::heartbeat_due),
            Timer::BudgetEnds(id) => self.with(id, |resource, cx| {
                if let Some(tenure) = &mut resource.tenure {
                    tenure.timers.budget = None;
                }
                resource.settle(cx, None);
            }),
            Timer::Convert(id) => self.with(id, Resource::convert_due),
            Timer::OpEnds(op) => self.op_ends(op),
            Timer::OpAgain(op) => self.op_again(op),
            Timer::Release(token) => self.cx.release_due(token),
            Timer::Subscription(Channel::Own) => {
                if self.cx.with_own(|own, cx, channel| own.due(cx, Channel::Own, channel)) {
                    self.ask_for_all(|request| !request.joined);
                }
            }
            Timer::Subscription(Channel::Of(id)) => self.with(id, Resource::subscription_due),
        }
    }

    fn reply(&mut self, id: CallId, result: Result<Reply, Failure>) {
        let Some(call) = self.cx.calls.close(id) else { return };
        match call.purpose {
            Purpose::Inspect { op } => return self.inspect_replied(op, result, call.by_source),
            Purpose::Force { op } => return self.force_replied(op, result, call.by_source),
            _ => {}
        }
        if let Purpose::Several { script } = call.purpose {
            return self.several_replied(&call, script, result);
        }
        let answer = match result {
            Ok(reply) => Answer::read(&reply).map_err(Failed::unreadable),
            Err(failure) => Err(Failed::by(failure, call.by_source)),
        };
        match answer {
            Ok(answer) => self.answered(&call, &answer),
            Err(failed) => self.failed(call.purpose, failed),
        }
    }

    fn answered(&mut self, call: &Call, answer: &Answer) {
        match call.purpose {
            Purpose::Acquire { resource, token } => {
                self.with(resource, |resource, cx| resource.acquire_answered(cx, call, token, answer));
            }
            Purpose::Refill { resource, token } => {
                self.with(resource, |resource, cx| resource.refill_answered(cx, call, token, answer));
            }
            Purpose::Renew { resource, token, op } => {
                self.with(resource, |resource, cx| resource.renew_answered(cx, call, (token, op), answer));
            }
            Purpose::Convert { resource, new } => {
                self.with(resource, |resource, cx| resource.convert_answered(cx, call, new, answer));
            }
            Purpose::Release { token } => {
                for lease in self.cx.release_answered(token, answer.status) {
                    self.lose_one(lease, LossReason::Gone);
                }
            }
            Purpose::Several { .. } | Purpose::Inspect { .. } | Purpose::Force { .. } => {}
        }
    }

    fn failed(&mut self, purpose: Purpose, failed: Failed) {
        match purpose {
            Purpose::Acquire { resource, token } => {
                self.with(resource, |resource, cx| resource.acquire_failed(cx, token, failed));
            }
            Purpose::Refill { resource, token } => {
                self.with(resource, |resource, cx| resource.refill_failed(cx, token, failed));
            }
            Purpose::Renew { resource, token, op } => {
                self.with(resource, |resource, cx| resource.renew_failed(cx, (token, op), failed));
            }
            Purpose::Convert { resource, new } => {
                self.with(resource, |resource, cx| resource.convert_failed(cx, new, failed));
            }
            Purpose::Release { token } => self.cx.release_failed(token, failed),
            Purpose::Several { .. } | Purpose::Inspect { .. } | Purpose::Force { .. } => {}
        }
    }

    fn message(&mut self, channel: &str, payload: &[u8]) {
        if reentrant::keys_of(channel).is_some() {
            // Somebody has released it.
            if !self.cx.has(Mutant::WordIgnored) {
                self.ask_on(channel);
            }
            return;
        }
        match Message::read(payload) {
            Some(Message::Grant(grant)) => {
                if self.cx.client != grant.client {
                    return;
                }
                let lock = self.resources.find(Family::Lock, grant.key);
                for id in lock.into_iter().chain(self.lanes(grant.key)) {
                    self.with(id, |resource, cx| resource.grant_received(cx, &grant));
                }
            }
            Some(Message::Revoked { client, token, key }) if self.cx.client == client => {
                let lock = [Family::Lock, Family::Reentrant].map(|family| self.resources.find(family, key));
                for id in lock.into_iter().flatten().chain(self.lanes(key)) {
                    self.with(id, |resource, cx| {
                        if resource.tenure.as_ref().is_some_and(|tenure| tenure.token == token) {
                            resource.lose_tenure(cx, LossReason::Revoked, false);
                        }
                    });
                }
            }
            Some(Message::Wanted { key }) => {
                let lock = self.resources.find(Family::Lock, key);
                for id in lock.into_iter().chain(self.lanes(key)) {
                    self.with(id, |resource, cx| {
                        if let Some(tenure) = &mut resource.tenure {
                            tenure.heard(cx, id, Some(1));
                        }
                        resource.settle(cx, None);
                    });
                }
            }
            Some(Message::Revoked { .. }) | None => {}
        }
    }

    /// A subscription changed: waiters ask, so that they join, or find what was told in between.
    fn subscription(&mut self, channel: &str, change: impl Fn(&mut Subscription, &mut Context, Channel)) {
        let Some(keys) = reentrant::keys_of(channel) else {
            self.cx.with_own(|own, cx, _| change(own, cx, Channel::Own));
            return self.ask_for_all(|_| true);
        };
        for key in keys {
            let Some(id) = self.resources.find(Family::Reentrant, key) else { continue };
            self.with(id, |resource, cx| change(&mut resource.subscription, cx, Channel::Of(id)));
        }
        if !self.cx.has(Mutant::SubscribedUnasked) {
            self.ask_on(channel);
        }
    }

    /// Who waits for a lock on its channel asks again.
    fn ask_on(&mut self, channel: &str) {
        for key in reentrant::keys_of(channel).into_iter().flatten() {
            let Some(id) = self.resources.find(Family::Reentrant, key) else { continue };
            self.with(id, |resource, cx| {
                if resource.request.as_ref().is_some_and(|request| request.waits && request.is_known_busy()) {
                    resource.heartbeat_due(cx);
                }
            });
        }
    }

    /// The subscription to the client's own channel changed: waiters ask, so that they join, or find a grant whose message was lost.
    fn ask_for_all(&mut self, which: impl Fn(&Request) -> bool) {
        for id in self.resources.ids() {
            self.with(id, |resource, cx| {
                // A reentrant lock has a channel of its own.
                let own = resource.name.family != Family::Reentrant;
                if own && resource.request.as_ref().is_some_and(|request| request.waits && which(request)) {
                    resource.heartbeat_due(cx);
                }
            });
        }
    }

    /// Runs one name's machine, and forgets the name when nothing is left of it.
    pub(crate) fn with(&mut self, id: ResourceId, run: impl FnOnce(&mut Resource, &mut Context)) {
        if let Some(pool) = self.run(id, run) {
            self.serve(&pool);
        }
    }

    /// Runs one machine. Answers the semaphore that it is a lane of: its callers may have to be served now.
    pub(crate) fn run(&mut self, id: ResourceId, run: impl FnOnce(&mut Resource, &mut Context)) -> Option<Arc<str>> {
        let resource = self.resources.get_mut(id)?;
        run(resource, &mut self.cx);
        let pool = (resource.name.family == Family::Semaphore).then(|| resource.name.key.clone());
        if resource.is_idle() {
            self.resources.remove(id);
        }
        pool
    }
}

impl Resources {
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

    /// The name's number; a new one if it is not in use, or for each lane of a semaphore.
    ///
    /// # Errors
    /// For a name that can't be a lock's.
    pub(crate) fn of(&mut self, cx: &Context, name: &str, family: Family) -> Result<ResourceId, Error> {
        let key = Name::key(&cx.config.prefix, name);
        if let Some(id) = self.find(family, &key) {
            return Ok(id);
        }
        let key = Name::check(&cx.config.prefix, name)?;
        Ok(self.add(if cx.has(Mutant::SideKeysShared) { Name::with_shared_sides(key) } else { Name::new(key, family) }))
    }

    /// A new machine for a name.
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

    fn remove(&mut self, id: ResourceId) {
        let Some(resource) = self.list.get_mut(id.0 as usize).and_then(Option::take) else { return };
        match resource.name.family {
            Family::Lock => self.locks.remove(&resource.name.key),
            Family::Reentrant => self.reentrant.remove(&resource.name.key),
            Family::Semaphore => None,
        };
        self.free.push(id);
    }
}
