//! One client's locks on one server or cluster. Passes every input to the state machine that it belongs to.
//!
//! | file | what it does |
//! |---|---|
//! | `operations` | users' calls: acquire, release, extend and so on |
//! | `messages` | grants and notices that other clients publish |
//! | `operator` | inspect and force release |
//! | `election` | campaigns, and who leads |
//! | `semaphore`, `semaphores` | the callers and permits of a semaphore |
//! | `multi` | several names as one lease |
//! | `batch` | the fast path, and requests that share a batch |
//! | `again` | requests that the server has left undone |
//! | `renewals` | what another thread needs to renew a lease |

mod again;
mod batch;
mod election;
mod messages;
mod multi;
mod operations;
mod operator;
mod renewals;
mod semaphore;
mod semaphores;

use alloc::sync::Arc;
use alloc::vec::Vec;

#[cfg(feature = "quorum")]
pub(crate) use self::multi::{AcquireAll, Group, HoldAll, Multi, PartCall, PartLocks};
pub(crate) use operator::is_token;

#[cfg(not(feature = "quorum"))]
use self::multi::{AcquireAll, HoldAll, Multi};
use self::semaphores::Semaphores;
use crate::error::{Error, Failure, LossReason};
use crate::event::{Input, LeaseInfo, Output, Reason};
use crate::ids::{Caller, Channel, ClientId, CommandId, LeaseId, LockId};
#[cfg(feature = "quorum")]
use crate::lock::Claim;
use crate::lock::{GiveBack, LockState, LockTable};
#[cfg(feature = "quorum")]
use crate::options::AcquireOptions;
use crate::options::{Config, Family, Mode};
use crate::session::{Body, Context, Form, Leased, NameHash, Purpose, Request, SentCommand, Timer};
use crate::time::{Duration, Instant};
use crate::wire::{Answer, Command, Failed, Reply, Status};

/// One client's locks on one server.
#[derive(Clone, Hash)]
pub(crate) struct Client {
    pub(crate) cx: Context,
    locks: LockTable,
    semaphores: Semaphores,
    multi: Multi,
}

impl Client {
    /// An engine for one client.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] names the option that is out of its bounds.
    pub(crate) fn new(client: ClientId, config: Config) -> Result<Self, Error> {
        config.check()?;
        let hash = NameHash::new(client.seed());
        let (locks, semaphores) = (LockTable::new(hash), Semaphores::new(hash));
        Ok(Self { cx: Context::new(client, config), locks, semaphores, multi: Multi::default() })
    }

    /// Processes an event that happened at `now`. If `now` is earlier than in a previous call, that call's time is used instead.
    pub(crate) fn handle(&mut self, now: Instant, input: Input<'_>) {
        self.cx.now = self.cx.now.max(now);
        let wake = matches!(input, Input::Wake);
        // The loss of an expired lease is reported before anything else.
        self.run_timers();
        self.take_in(input);
        self.run_timers();
        self.pump();
        if wake || self.cx.flows.is_turn_of_batch(self.cx.now) {
            self.pump_batches();
            self.pump();
        }
    }

    /// Sends queued commands as long as there is room. Skips those that are no longer needed.
    #[inline(never)]
    fn pump(&mut self) {
        while let Some((flow, mut queued)) = self.cx.flows.pop(self.cx.now) {
            let purpose = queued.purpose;
            if self.is_wanted(purpose) {
                self.renew_for_now(purpose, &mut queued.request);
                self.cx.transmit(flow, purpose, Form::Digest, queued.request);
                self.sent(purpose);
                continue;
            }
            self.dropped(purpose);
        }
    }

    /// A request is not needed any more, or can't be sent now.
    fn dropped(&mut self, purpose: Purpose) {
        match purpose {
            // While a convert is in flight, no renewal is possible.
            Purpose::Renew { op: Some(op), .. } => self.cx.send_op_again(op),
            Purpose::Multi { script } => self.drop_multi(script),
            _ => {}
        }
    }

    /// What the holders need may have changed while a renewal waited.
    fn renew_for_now(&self, purpose: Purpose, request: &mut Request) {
        if let Purpose::Renew { lock, op: None, .. } = purpose
            && let Some(what) = self.locks.get(lock).and_then(|lock| lock.renewal(&self.cx))
        {
            request.body = Body::Renew(what);
        }
    }

    fn is_wanted(&self, purpose: Purpose) -> bool {
        match purpose {
            Purpose::Acquire { lock, token } => self.locks.get(lock).is_some_and(|name| name.wants_to_ask(token)),
            Purpose::Refill { lock, token } => self.locks.hold(lock).is_some_and(|hold| hold.token == token),
            // While a convert is in flight, no renewal is possible. The end of the convert schedules the next one, and so
            // does an answer that has given the holders enough time meanwhile.
            Purpose::Renew { lock, token, op: None } => {
                self.locks.hold(lock).is_some_and(|hold| hold.token == token && hold.renews(&self.cx))
            }
            Purpose::Renew { lock, op: Some(op), .. } => {
                self.locks.hold(lock).is_none_or(|hold| !hold.is_converting()) && self.cx.ops.contains_key(&op)
            }
            Purpose::Convert { lock, new } => {
                let converting = self.locks.hold(lock).and_then(|hold| hold.converting());
                converting.is_some_and(|converting| converting.new == new)
            }
            Purpose::Observe { lock } => self.locks.get(lock).is_some_and(|lock| lock.observed.is_some()),
            Purpose::Inspect { op } | Purpose::Force { op } => self.cx.ops.contains_key(&op),
            Purpose::Release { token } => self.cx.releases.contains_key(&token),
            Purpose::Multi { script } => self.wants_multi(script),
            Purpose::Batch => true,
        }
    }

    /// A queued command has left.
    fn sent(&mut self, purpose: Purpose) {
        match purpose {
            Purpose::Acquire { lock, .. } => self.with(lock, LockState::acquire_sent),
            Purpose::Refill { lock, .. } => self.with(lock, LockState::refill_sent),
            Purpose::Renew { lock, op: None, .. } => self.with(lock, LockState::renewal_sent),
            Purpose::Convert { lock, .. } => self.with(lock, LockState::convert_sent),
            Purpose::Renew { op: Some(op), .. } | Purpose::Inspect { op } | Purpose::Force { op } => {
                self.cx.op_sent(op);
            }
            Purpose::Release { token } => self.cx.release_sent(token),
            Purpose::Multi { script } => self.multi_sent(script),
            Purpose::Observe { .. } | Purpose::Batch => {}
        }
    }

    /// The next action, until there is none.
    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.cx.outputs.pop_front()
    }

    /// When to call [`handle`](Self::handle) at the latest, and why.
    pub(crate) fn poll_timeout(&self) -> Option<(Instant, Reason)> {
        let overdue = self.cx.unanswered.next_overdue().map(|at| (at, Reason::ResponseTimeout));
        let batch = self.cx.flows.batch_leaves_at().map(|at| (at, Reason::Batch));
        [self.cx.timers.next(), overdue, batch].iter().flatten().min().copied()
    }

    /// When a lease expires by the driver's clock unless it is renewed. None once it was released or lost.
    pub(crate) fn valid_until(&self, lease: LeaseId) -> Option<Instant> {
        let held = self.cx.leases.get(&lease)?;
        let until = match &held.of {
            Leased::Lock(lock) => self.locks.hold(*lock)?.validity.until,
            Leased::Parts(parts) => parts.iter().filter_map(|part| self.valid_until(*part)).min()?,
        };
        Some(held.ends.map_or(until, |ends| ends.at.min(until)))
    }

    /// The state of a lease that has holds which are not released yet.
    pub(crate) fn lease(&self, id: LeaseId) -> Option<LeaseInfo> {
        self.cx.lease(id)
    }

    #[cfg(feature = "quorum")]
    fn lock_of(&self, lease: LeaseId) -> Option<&LockState> {
        self.locks.get(self.cx.leases.get(&lease)?.lock()?)
    }

    /// The last fence that a lease may use. The server grants only greater ones after those that it used.
    #[cfg(feature = "quorum")]
    pub(crate) fn last_fence(&self, lease: LeaseId) -> Option<u64> {
        Some(self.lock_of(lease)?.hold.as_ref()?.last_fence())
    }

    /// A fence for a lease that was granted without the server. It is above all that a quorum gave out under the same token.
    #[cfg(feature = "quorum")]
    pub(crate) fn above_given(&self, lease: LeaseId, fence: u64) -> Option<u64> {
        Some(self.lock_of(lease)?.hold.as_ref()?.above_given(fence))
    }

    /// The token with which the client waits for a lock.
    #[cfg(feature = "quorum")]
    pub(crate) fn claim(&self, key: &str) -> Option<&Claim> {
        self.locks.get(self.locks.find(Family::Lock, key)?)?.claim.as_ref()
    }

    /// Whether a caller with these options would find the lock busy without asking the server.
    #[cfg(feature = "quorum")]
    pub(crate) fn is_busy_for(&self, key: &str, options: &AcquireOptions) -> bool {
        let lock = self.locks.find(Family::Lock, key).and_then(|lock| self.locks.get(lock));
        lock.is_some_and(|lock| lock.is_busy_for(&self.cx, options))
    }

    /// Whether other clients are known to wait for a lease.
    #[cfg(feature = "quorum")]
    pub(crate) fn others_want(&self, lease: LeaseId) -> bool {
        self.lock_of(lease).and_then(|lock| lock.hold.as_ref()).is_some_and(|hold| hold.budget.is_some())
    }

    /// A quorum gives out this fence for a lease.
    #[cfg(feature = "quorum")]
    pub(crate) fn gives_out(&mut self, lease: LeaseId, fence: u64) {
        let lock = self.cx.leases.get(&lease).and_then(|lease| self.locks.get_mut(lease.lock()?));
        if let Some(hold) = lock.and_then(|lock| lock.hold.as_mut()) {
            hold.gives_out(fence);
        }
    }

    /// The names and modes of the leases that linger.
    pub(crate) fn lingering(&self) -> Vec<(&str, Mode)> {
        let lingering = self.locks.iter().filter(|lock| lock.is_lingering());
        let start = self.cx.config.prefix.len();
        lingering.filter_map(|lock| Some((lock.name.key.get(start..)?, lock.hold.as_ref()?.mode))).collect()
    }

    /// How many leases the server may still have, including those that linger and those whose release is not confirmed.
    pub(crate) fn unreleased(&self, now: Instant) -> u32 {
        let is_valid = |lock: &&LockState| lock.hold.as_ref().is_some_and(|hold| hold.is_ours(now));
        let held = u32::try_from(self.locks.iter().filter(is_valid).count()).unwrap_or(u32::MAX);
        held.saturating_add(self.cx.unreleased())
    }

    /// The name of the lock, without the prefix, that a command in flight wants to acquire.
    pub(crate) fn wanted_by(&self, id: CommandId) -> Option<&str> {
        let Purpose::Acquire { lock, .. } = self.cx.unanswered.get(id)?.purpose else { return None };
        self.locks.get(lock)?.name.key.get(self.cx.config.prefix.len()..)
    }

    /// A write to the lease on the server, as `EVALSHA` and as `EVAL`.
    pub(crate) fn touch(&self, lease: LeaseId) -> Option<[Command; 2]> {
        let lock = self.cx.leases.get(&lease)?.lock()?;
        let [digest, source] = [Form::Digest, Form::Source].map(|form| self.renewal(lock, None, form));
        Some([digest?.0, source?.0])
    }

    /// Whether nothing is left over. For tests: an operation that has ended must leave no state behind.
    pub(crate) fn is_idle(&self) -> bool {
        let cx = &self.cx;
        let open = cx.ops.len() + cx.leases.len() + cx.releases.len() + cx.outputs.len() + self.semaphores.len();
        let none = self.locks.ids().is_empty() && self.multi.is_empty();
        open == 0 && none && self.poll_timeout().is_none() && cx.flows.is_empty()
    }

    /// The inputs of a simple lock and release are handled here, the others in a separate function. WebAssembly engines
    /// compile a function when it is first called, so the first lock doesn't wait for code that it doesn't use.
    fn take_in(&mut self, input: Input<'_>) {
        match input {
            Input::Acquire { op, name, options } => self.acquire(Caller::User(op), name, options),
            Input::Release { op, lease } => self.release(Caller::User(op), lease),
            Input::Reply { id, result } => self.reply(id, result),
            Input::Wake => {}
            input => self.take_in_more(input),
        }
    }

    #[inline(never)]
    fn take_in_more(&mut self, input: Input<'_>) {
        match input {
            Input::AcquireAll { op, parts, options, one_script } => {
                self.acquire_all(Caller::User(op), parts, options, one_script);
            }
            Input::Campaign { op, name, value, options } => self.campaign(Caller::User(op), name, value, options),
            Input::Observe { op, name } => self.observe(Caller::User(op), name),
            Input::Adopt { op, name, token, options } => self.adopt(Caller::User(op), name, token, options),
            Input::Cancel { op } => self.cancel(Caller::User(op), Error::Cancelled),
            Input::Store { op, lease, value } => self.store(Caller::User(op), lease, value),
            Input::Forget { op, name } => self.forget(Caller::User(op), name),
            Input::Extend { op, lease, ttl } => self.extend(Caller::User(op), lease, ttl.into()),
            Input::Shorten { op, lease, ttl } => self.shorten(Caller::User(op), lease, ttl.into()),
            Input::Detach { op, lease, time } => self.detach(Caller::User(op), lease, time.map(Duration::from)),
            Input::Convert { op, lease, mode } => self.convert(Caller::User(op), lease, mode),
            Input::Hold { op, lease } => self.cx.nest(Caller::User(op), lease),
            Input::Keep { lease, until } => self.keep(lease, until),
            Input::StopRenewing { lease } => self.stop_renewing(lease),
            Input::Export { op, lease } => self.export(Caller::User(op), lease),
            Input::Verify { op, lease } => self.verify(Caller::User(op), lease),
            Input::Inspect { op, name } => self.inspect(Caller::User(op), name),
            Input::ForceRelease { op, name, foreign } => self.force(Caller::User(op), name, foreign),
            Input::Drain { op, grace } => self.drain(Caller::User(op), grace.into()),
            Input::Close { op } => self.close(Caller::User(op)),
            Input::Message { node: _, channel, payload } => self.message(channel, payload),
            Input::Subscribed { node: _, channel } => {
                self.subscription(channel, &|subscription, cx, of| subscription.begins(cx, of));
            }
            Input::Unsubscribed { node: _, channel, cause } => {
                self.subscription(channel, &|subscription, cx, of| subscription.ends(cx, of, &cause));
            }
            // The engine itself handles dedicated connections.
            Input::DedicatedReply { .. }
            | Input::Acquire { .. }
            | Input::Release { .. }
            | Input::Reply { .. }
            | Input::Wake => {}
        }
    }

    fn run_timers(&mut self) {
        while let Some(timer) = self.cx.timers.pop_due(self.cx.now) {
            self.timer_due(timer);
        }
        while let Some(id) = self.cx.unanswered.pop_overdue(self.cx.now) {
            self.reply(id, Err(Failure::TimedOut));
        }
        self.gather();
    }

    #[inline(never)]
    fn timer_due(&mut self, timer: Timer) {
        match timer {
            Timer::Deadline(id) => self.with(id, |lock, cx| {
                if let Some(hold) = &mut lock.hold {
                    hold.timers.deadline = None;
                }
                lock.lose_hold(cx, LossReason::Expired, GiveBack::Always);
            }),
            Timer::LeaseEnds(lease) => self.lease_ends(lease),
            Timer::Renewal(id) => self.with(id, LockState::renewal_due),
            Timer::Refill(id) => self.with(id, LockState::refill_due),
            Timer::Heartbeat(id) => self.with(id, LockState::heartbeat_due),
            Timer::BudgetEnds(id) => self.with(id, |lock, cx| {
                if let Some(hold) = &mut lock.hold {
                    hold.timers.budget = None;
                }
                lock.settle(cx, None);
            }),
            Timer::LingerEnds(id) => self.with(id, LockState::linger_ends),
            Timer::Convert(id) => self.with(id, LockState::convert_due),
            Timer::OpEnds(op) => self.op_ends(op),
            Timer::OpAgain(op) => self.op_again(op),
            Timer::Release(token) => self.cx.release_due(token),
            Timer::Observe(id) => self.with(id, LockState::question_due),
            Timer::Subscription(Channel::Own) => {
                if self.cx.with_own(|own, cx, channel| own.due(cx, Channel::Own, channel)) {
                    self.ask_for_all(&|claim| !claim.joined);
                }
            }
            Timer::Subscription(Channel::Of(id)) => self.with(id, LockState::subscription_due),
        }
    }

    fn reply(&mut self, id: CommandId, result: Result<Reply, Failure>) {
        #[cfg(feature = "sources")]
        let result = result.map_err(Failure::explained);
        let failure = result.as_ref().err();
        let Some((sent, request)) = self.cx.unanswered.close(id) else {
            // Late or a duplicate. But it shows that the server is alive.
            if matches!(failure, None | Some(Failure::Refused(_))) {
                self.cx.flows.alive(self.cx.now);
            }
            return;
        };
        self.cx.flows.ended(self.cx.now, &sent, failure);
        if sent.form == Form::Digest && failure.is_some_and(Failure::lacks_script) {
            return self.send_source(&sent, request);
        }
        if let Body::Batch(entries) = request.body {
            return self.batch_replied(&sent, entries, result);
        }
        if matches!(sent.purpose, Purpose::Observe { .. }) {
            return self.leader_answered(&request.name.key, sent.at, result);
        }
        use Purpose::{Force, Inspect, Multi};
        if matches!(sent.purpose, Multi { .. } | Inspect { .. } | Force { .. }) {
            return self.replied(&sent, result);
        }
        let failed = match result {
            Ok(reply) => match Answer::read(&reply) {
                Ok(answer) => return self.answered(&sent, &answer, Answer::result(&reply)),
                Err(text) => Failed::unreadable(text),
            },
            Err(failure) => Failed::by(failure),
        };
        self.failed(sent.purpose, failed);
    }

    /// Handles the reply to a script that has its own answer format.
    #[inline(never)]
    fn replied(&mut self, sent: &SentCommand, result: Result<Reply, Failure>) {
        match sent.purpose {
            Purpose::Multi { script } => self.multi_replied(sent, script, result),
            Purpose::Inspect { op } => self.inspect_replied(op, result),
            Purpose::Force { op } => self.force_replied(op, result),
            _ => {}
        }
    }

    /// `result` is that of a once.
    fn answered(&mut self, sent: &SentCommand, answer: &Answer, result: &[u8]) {
        match sent.purpose {
            Purpose::Acquire { lock, token } => {
                if matches!(answer.status, Status::Converted | Status::Again) {
                    self.adopted(lock, token);
                }
                self.with(lock, |lock, cx| lock.acquire_answered(cx, sent, token, answer, result));
            }
            Purpose::Release { token } => {
                for lease in self.cx.release_answered(token, answer.status) {
                    self.lose_one(lease, LossReason::Gone);
                }
            }
            _ => self.answered_more(sent, answer),
        }
    }

    #[inline(never)]
    fn answered_more(&mut self, sent: &SentCommand, answer: &Answer) {
        match sent.purpose {
            Purpose::Refill { lock, token } => {
                self.with(lock, |lock, cx| lock.refill_answered(cx, sent, token, answer));
            }
            Purpose::Renew { lock, token, op } => {
                self.with(lock, |lock, cx| lock.renew_answered(cx, sent, token, op, answer));
            }
            Purpose::Convert { lock, new } => {
                self.with(lock, |lock, cx| lock.convert_answered(cx, sent, new, answer));
            }
            _ => {}
        }
    }

    #[inline(never)]
    fn failed(&mut self, purpose: Purpose, failed: Failed) {
        match purpose {
            Purpose::Acquire { lock, token } => {
                self.with(lock, |lock, cx| lock.acquire_failed(cx, token, failed));
            }
            Purpose::Refill { lock, token } => {
                self.with(lock, |lock, cx| lock.refill_failed(cx, token, failed));
            }
            Purpose::Renew { lock, token, op } => {
                self.with(lock, |lock, cx| lock.renew_failed(cx, token, op, failed));
            }
            Purpose::Convert { lock, new } => {
                self.with(lock, |lock, cx| lock.convert_failed(cx, new, failed));
            }
            Purpose::Release { token } => self.cx.release_failed(token, failed),
            Purpose::Multi { .. }
            | Purpose::Observe { .. }
            | Purpose::Inspect { .. }
            | Purpose::Force { .. }
            | Purpose::Batch => {}
        }
    }

    /// Runs one name's machine, and removes the name if nothing is left of it.
    fn with(&mut self, id: LockId, run: impl FnOnce(&mut LockState, &mut Context)) {
        if let Some(lock) = self.locks.get_mut(id) {
            run(lock, &mut self.cx);
            self.after(id);
        }
    }

    #[inline(never)]
    fn settle(&mut self, id: LockId, op: Option<Caller>) {
        self.with(id, |lock, cx| lock.settle(cx, op));
    }

    // Separate from `with`, which is inlined in fifty places.
    #[inline(never)]
    fn after(&mut self, id: LockId) {
        if let Some(semaphore) = self.ran(id) {
            self.serve(&semaphore);
        }
    }

    /// Runs one machine. If it is a lane of a semaphore, returns the semaphore, whose callers may have to be served now.
    fn run(&mut self, id: LockId, run: impl FnOnce(&mut LockState, &mut Context)) -> Option<Arc<str>> {
        run(self.locks.get_mut(id)?, &mut self.cx);
        self.ran(id)
    }

    fn ran(&mut self, id: LockId) -> Option<Arc<str>> {
        let lock = self.locks.get(id)?;
        let semaphore = (lock.name.family == Family::Semaphore).then(|| lock.name.key.clone());
        if lock.is_idle() {
            self.locks.remove(id);
        }
        semaphore
    }
}
