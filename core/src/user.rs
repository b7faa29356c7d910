//! Users' calls: checks them and passes them to the name that they are about.

use core::time::Duration;

use crate::error::{Error, LossReason};
use crate::event::{LeaseId, OpId, Outcome, ReleaseOutcome};
use crate::node::Node;
use crate::op::OpKind;
use crate::options::{AcquireOptions, Family, Mode, Wait, check_ttl};
use crate::reply::Failure;
use crate::script::Form;
use crate::subscription::Channel;
use crate::timers::Timer;
use crate::vote::Votes;

impl Node {
    pub(crate) fn acquire(&mut self, op: OpId, name: &str, options: AcquireOptions) {
        if self.cx.closed {
            return self.cx.answer(op, Err(Error::Closed));
        }
        let kind = match self.place(name, &options) {
            Ok(kind) => kind,
            Err(error) => return self.cx.answer(op, Err(error)),
        };
        let patience = self.cx.patience_of(&options);
        let place = match &kind {
            OpKind::Acquire { resource, tries } => Ok((*resource, *tries)),
            OpKind::Pooled { key } => Err(key.clone()),
            _ => return,
        };
        self.cx.open(op, kind, patience);
        self.cx.bound(op, &options);
        let (resource, tries) = match place {
            Ok(place) => place,
            Err(pool) => return self.push_to_pool(&pool, op, options),
        };
        self.with(resource, |resource, cx| {
            if let Some(lease) = resource.owned(cx, options.kind) {
                cx.close_op(op);
                return resource.hold_again(cx, op, lease);
            }
            if tries && resource.is_busy_for(cx, &options) {
                let error = resource.busy(cx, op);
                return cx.complete(op, Err(error));
            }
            resource.queue.push(op, options);
            resource.settle(cx, None);
        });
    }

    /// Where a call waits: at its name, or at its semaphore.
    fn place(&mut self, name: &str, options: &AcquireOptions) -> Result<OpKind, Error> {
        options.check()?;
        if options.kind.family() == Family::Semaphore {
            return Ok(OpKind::Pooled { key: self.pool_of(name)? });
        }
        let resource = self.resources.of(&self.cx, name, options.kind.family())?;
        Ok(OpKind::Acquire { resource, tries: options.wait == Wait::No })
    }

    /// Ends a wait.
    pub(crate) fn cancel(&mut self, op: OpId, error: Error) {
        let resource = match self.cx.ops.get(&op).map(|op| &op.kind) {
            Some(OpKind::Acquire { resource, .. }) => *resource,
            Some(OpKind::Pooled { key }) => {
                let key = key.clone();
                return self.cancel_pooled(&key, op, error);
            }
            Some(OpKind::AcquireAll { group }) => return self.fail_all(*group, error),
            _ => return,
        };
        if let Some(resource) = self.resources.get_mut(resource) {
            resource.end_caller(&mut self.cx, op, error);
        }
        self.move_up(resource);
        self.with(resource, |resource, cx| resource.settle(cx, None));
    }

    pub(crate) fn release(&mut self, op: OpId, id: LeaseId) {
        let Some(lease) = self.cx.leases.get_mut(&id) else { return self.release_all(op, id) };
        if lease.holds > 1 {
            lease.holds = lease.holds.saturating_sub(1);
            return self.cx.answer(op, Ok(Outcome::Released(ReleaseOutcome::StillHeld)));
        }
        let resource = lease.resource;
        self.cx.end_lease(id, &Error::NotHeld);
        if let Some(resource) = self.resources.get_mut(resource) {
            resource.leave(id);
        }
        self.move_up(resource);
        self.with(resource, |resource, cx| resource.settle(cx, Some(op)));
    }

    pub(crate) fn extend(&mut self, op: OpId, lease: LeaseId, ttl: Duration) {
        if let Err(error) = check_ttl(ttl) {
            return self.cx.answer(op, Err(error));
        }
        self.lease_call(op, lease, OpKind::Extend { lease, ttl });
    }

    pub(crate) fn verify(&mut self, op: OpId, lease: LeaseId) {
        self.lease_call(op, lease, OpKind::Verify { lease, raise: 0 });
    }

    /// Makes the server remember at least this fence, for a quorum. Ends like a verify.
    #[cfg(feature = "quorum")]
    pub(crate) fn raise(&mut self, op: OpId, lease: LeaseId, fence: u64) {
        self.lease_call(op, lease, OpKind::Verify { lease, raise: fence });
    }

    fn lease_call(&mut self, op: OpId, id: LeaseId, kind: OpKind) {
        let Some(lease) = self.cx.leases.get_mut(&id) else { return self.call_all(op, id, &kind) };
        lease.pending.push(op);
        let resource = lease.resource;
        self.cx.open(op, kind, Some(self.cx.patience()));
        self.with(resource, |resource, cx| resource.send_lease_call(cx, op, Form::Digest));
    }

    pub(crate) fn convert(&mut self, op: OpId, id: LeaseId, mode: Mode) {
        let Some(lease) = self.cx.leases.get(&id) else { return self.convert_all(op, id) };
        let resource = lease.resource;
        self.cx.open(op, OpKind::Convert { lease: id }, None);
        self.with(resource, |resource, cx| resource.convert(cx, op, id, mode));
    }

    pub(crate) fn hold(&mut self, op: OpId, id: LeaseId) {
        let Some(lease) = self.cx.leases.get_mut(&id) else { return self.hold_all(op, id) };
        lease.holds = lease.holds.saturating_add(1);
        let held = Outcome::Held(lease.holds);
        self.cx.answer(op, Ok(held));
    }

    /// Closes the client: ends the waits and releases the leases.
    pub(crate) fn close(&mut self, op: OpId) {
        self.cx.open(op, OpKind::Close, Some(self.cx.patience()));
        self.cx.closed = true;
        self.close_pools();
        for id in self.resources.ids() {
            self.with(id, |resource, cx| {
                while let Some((op, _)) = resource.queue.head() {
                    resource.end_caller(cx, op, Error::Closed);
                }
                let holders = resource.tenure.as_mut().map(|tenure| core::mem::take(&mut tenure.holders));
                for lease in holders.unwrap_or_default() {
                    cx.end_lease(lease, &Error::Closed);
                }
                resource.settle(cx, None);
            });
        }
        self.close_all();
        self.cx.with_own(|own, cx, channel| own.unsubscribe(cx, Channel::Own, channel));
        self.cx.end_close();
    }

    /// A lease reaches its own end: that of a fixed lease, or `max_hold`. Its token is not handed over.
    pub(crate) fn lease_ends(&mut self, id: LeaseId) {
        let Some(lease) = self.cx.leases.get_mut(&id) else { return };
        lease.ends = None;
        let reason = if lease.renew { LossReason::MaxHold } else { LossReason::Expired };
        self.lose_one(id, reason);
    }

    /// One lease has ended. Other leases of its name may go on.
    pub(crate) fn lose_one(&mut self, id: LeaseId, reason: LossReason) {
        let Some(resource) = self.cx.leases.get(&id).map(|lease| lease.resource) else { return };
        self.cx.lose_lease(id, reason);
        self.with(resource, |resource, cx| {
            resource.leave(id);
            if let Some(tenure) = &mut resource.tenure {
                tenure.tainted = true;
            }
            resource.settle(cx, None);
        });
    }

    /// A user's call has reached its time limit.
    pub(crate) fn op_ends(&mut self, op: OpId) {
        let Some(open) = self.cx.ops.get_mut(&op) else { return };
        open.ends = None;
        let (since, waited) = (open.since, self.cx.now.since(open.since));
        if self.was_queued(op) {
            return;
        }
        let cause = Some(self.cx.flows.trouble(since).unwrap_or(Failure::TimedOut));
        let Some(open) = self.cx.ops.get_mut(&op) else { return };
        match open.kind {
            OpKind::Acquire { resource, .. } => {
                let error = self.resources.get(resource).map(|resource| resource.empty_handed(&self.cx, op));
                self.cancel(
                    op,
                    error.unwrap_or(Error::Busy { waited, holder_remaining: None, votes: Votes::default() }),
                );
            }
            OpKind::Pooled { ref key } => {
                let key = key.clone();
                let error = self.pooled_empty_handed(&key, op);
                self.cancel(
                    op,
                    error.unwrap_or(Error::Busy { waited, holder_remaining: None, votes: Votes::default() }),
                );
            }
            OpKind::AcquireAll { group } => self.all_ends(op, group),
            OpKind::Close => {
                let since = open.since;
                self.cx.close_ends(op, since);
            }
            OpKind::Extend { lease, .. } | OpKind::Verify { lease, .. } | OpKind::Convert { lease } => {
                self.cx.complete(op, Err(Error::Unreachable { waited, cause, votes: Votes::default() }));
                let Some(lease) = self.cx.leases.get_mut(&lease) else { return };
                lease.pending.retain(|pending| *pending != op);
                let resource = lease.resource;
                self.with(resource, |resource, cx| resource.settle(cx, None));
            }
            OpKind::Release | OpKind::Inspect { .. } | OpKind::Force { .. } => {
                self.cx.complete(op, Err(Error::Unreachable { waited, cause, votes: Votes::default() }));
            }
            #[cfg(feature = "quorum")]
            OpKind::Tally(_) => {}
        }
    }

    /// Extends the time limit of a call that waits only for the server, if its command waited in the client's
    /// own queue. True if it did.
    fn was_queued(&mut self, op: OpId) -> bool {
        let Some(open) = self.cx.ops.get(&op).filter(|open| !open.bounded) else { return false };
        let since = open.since;
        // The name that the call is about, and when the command that is not answered yet was first sent.
        let (name, sent) = match &open.kind {
            OpKind::Acquire { resource, tries: true } => {
                let resource = self.resources.get(*resource);
                let request = resource.and_then(|resource| resource.request.as_ref());
                (resource.map(|resource| &resource.name.key), request.and_then(|request| request.sent))
            }
            OpKind::Pooled { key } if self.is_pooled_try(key, op) => (Some(key), None),
            OpKind::AcquireAll { group }
                if self.several.wanted(*group).is_some_and(|group| group.options.wait == Wait::No) =>
            {
                (None, open.sent)
            }
            OpKind::Extend { lease, .. } | OpKind::Verify { lease, .. } | OpKind::Convert { lease } => {
                let resource = self.cx.leases.get(lease).and_then(|lease| self.resources.get(lease.resource));
                (resource.map(|resource| &resource.name.key), open.sent)
            }
            OpKind::Inspect { name } | OpKind::Force { name } => (Some(&name.key), open.sent),
            OpKind::Release => (None, open.sent),
            _ => return false,
        };
        let flow = name.map(|key| self.cx.flows.place_of(key));
        if !self.cx.flows.was_full_since(flow, since) {
            return false;
        }
        // A command that has not left yet is waited for as long as the server answers other commands.
        let from = sent.or(self.cx.flows.answered(flow)).unwrap_or(since).max(since);
        let ends = from + self.cx.patience();
        let goes_on = ends > self.cx.now;
        if goes_on {
            self.cx.end_op_within(op, ends.since(self.cx.now));
        }
        goes_on
    }

    /// A user's call is due to be sent again.
    pub(crate) fn op_again(&mut self, op: OpId) {
        let Some(open) = self.cx.ops.get_mut(&op) else { return };
        open.again = None;
        match open.kind {
            OpKind::Extend { lease, .. } | OpKind::Verify { lease, .. } => {
                let Some(resource) = self.cx.leases.get(&lease).map(|lease| lease.resource) else { return };
                self.with(resource, |resource, cx| resource.send_lease_call(cx, op, Form::Digest));
            }
            OpKind::Inspect { .. } => self.send_inspect(op, Form::Digest),
            OpKind::AcquireAll { group } => self.send_several(group, Form::Digest),
            OpKind::Force { .. } => self.send_force(op, Form::Digest),
            OpKind::Acquire { .. }
            | OpKind::Pooled { .. }
            | OpKind::Convert { .. }
            | OpKind::Release
            | OpKind::Close => {}
            #[cfg(feature = "quorum")]
            OpKind::Tally(_) => {}
        }
    }
}

impl crate::context::Context {
    /// How long an acquire may take.
    pub(crate) fn patience_of(&self, options: &AcquireOptions) -> Option<Duration> {
        match options.wait {
            Wait::No => Some(options.within.map_or(self.patience(), |within| within.min(self.patience()))),
            Wait::For(wait) => Some(wait),
            Wait::Forever => None,
        }
    }

    /// Schedules a user's call to be sent again after a pause.
    pub(crate) fn send_op_again(&mut self, op: OpId) {
        let most = self.config.response_timeout / 2;
        let Some(failures) = self.ops.get(&op).map(|op| op.failures) else { return };
        let at = self.now + self.backoff(failures, most);
        if let Some(open) = self.ops.get_mut(&op) {
            open.failures = failures.saturating_add(1);
            self.timers.set(Timer::OpAgain(op), &mut open.again, Some(at));
        }
    }
}
