//! What every driver keeps beside its engine, without I/O: the users' calls, the leases, and what is to be sent.

use alloc::vec::Vec;
use core::mem;

use hashbrown::HashMap;

use crate::engine::Engine;
use crate::error::{Error, Failure, LossReason};
use crate::event::{Input, Leader, Operation, Outcome, Output, ReleaseOutcome};
use crate::ids::{ByNumber, LeaseId, NodeId, OpId};
use crate::labels::{Labels, Question};
use crate::options::AcquireOptions;
use crate::server::DeleteIfEqual;
use crate::time::Instant;

/// The result of a call, as the engine returns it.
pub type CallResult = Result<Outcome, Error>;

/// Its keys are numbers of this process, so nobody can choose colliding ones.
pub type Table<K, V> = HashMap<K, V, ByNumber>;

impl Operation<'_> {
    /// What an acquire asks for. None for other operations.
    pub fn acquire_options(&self) -> Option<&AcquireOptions> {
        match self {
            Self::Acquire { options, .. }
            | Self::AcquireAll { options, .. }
            | Self::Campaign { options, .. }
            | Self::Adopt { options, .. } => Some(options),
            _ => None,
        }
    }

    /// The length of the names to acquire, or of the result to store.
    pub fn name_bytes(&self) -> usize {
        match self {
            Self::Acquire { name, .. } | Self::Campaign { name, .. } | Self::Adopt { name, .. } => name.len(),
            Self::Store { value, .. } => value.len(),
            Self::AcquireAll { parts, .. } => parts.iter().map(|part| part.name.len()).sum(),
            _ => 0,
        }
    }
}

/// A call that still runs, or whose result was not fetched yet.
pub struct Call<C> {
    /// What the driver keeps of it.
    pub kept: C,
    /// None while it runs.
    pub result: Option<CallResult>,
    /// Whether it can be cancelled.
    goes_on: bool,
}

impl<C> Call<C> {
    /// A call that starts now.
    pub fn new(operation: &Operation<'_>, kept: C) -> Self {
        let goes_on = operation.acquire_options().is_some() || matches!(operation, Operation::Observe { .. });
        Self { kept, result: None, goes_on }
    }
}

/// What a driver has to do itself.
pub enum Event {
    /// A call has ended.
    Completed {
        /// The call.
        op: OpId,
        /// Its result.
        result: CallResult,
    },
    /// As [`Output::Lost`].
    Lost {
        /// The lease.
        lease: LeaseId,
        /// How it was lost.
        reason: LossReason,
    },
    /// As [`Output::Leader`].
    Leader {
        /// The call that observes.
        op: OpId,
        /// The leader.
        leader: Option<Leader>,
    },
    /// Another client asks about leases.
    Asked(Question),
}

/// What to send.
#[derive(Default)]
pub struct Outbox {
    /// Commands and changes of subscriptions, in this order.
    pub outputs: Vec<Output>,
    /// When the driver wakes by itself.
    pub wake_at: Option<Instant>,
    /// Whether the engine is closed and nothing is left to do.
    pub closed: bool,
}

impl Outbox {
    /// Moves all to `other`, whose vector is used again. When the driver wakes and whether it ends is known here, too.
    pub fn take(&mut self, other: &mut Self) {
        other.outputs.clear();
        mem::swap(&mut other.outputs, &mut self.outputs);
        (other.wake_at, other.closed) = (self.wake_at, self.closed);
    }

    /// Whether the driver has something to do before it wakes by itself. `timeout` is when to wake the engine.
    pub fn is_due(&self, timeout: Option<Instant>) -> bool {
        let sooner = match (timeout, self.wake_at) {
            (Some(at), Some(wake_at)) => at < wake_at,
            (wanted, _) => wanted.is_some(),
        };
        sooner || !self.outputs.is_empty() || self.closed
    }
}

/// What a check of the server has found, before it gets a command.
#[derive(Clone, Copy, Debug, Default)]
pub struct Abilities {
    /// The command with which it can delete a key by its value.
    pub delete_if_equal: Option<DeleteIfEqual>,
    /// Whether names are in the slots of a cluster, at one address or at several.
    pub has_slots: bool,
}

impl Abilities {
    /// Tells an engine that has had no input. If it has, [`Driven::checked`] does it.
    pub fn tell(self, engine: &mut Engine, labels: Option<&mut Labels>) {
        if self.has_slots {
            engine.set_cluster(NodeId(0));
            labels.into_iter().for_each(Labels::set_cluster);
        }
        engine.set_delete_if_equal(self.delete_if_equal);
    }

    /// Why a command is not sent that was made before the engine knew.
    pub fn outdated() -> Failure {
        Failure::Unavailable("the command was made before the server was checked".into())
    }
}

/// An engine with its labels, calls and leases. `C` and `L` are what the driver keeps of a call and of a lease.
pub struct Driven<C, L> {
    /// The engine.
    pub engine: Engine,
    /// None for a quorum.
    pub labels: Option<Labels>,
    /// Calls that run, or whose result was not fetched yet.
    pub calls: Table<OpId, Call<C>>,
    /// The leases that have holds.
    pub leases: Table<LeaseId, L>,
    /// What to send.
    pub outbox: Outbox,
    /// Whether the driver has stopped, so that nothing is sent any more.
    pub stopped: bool,
    /// How many leases the server has not confirmed as released, once the engine is closed. A driver that stops before
    /// that may set it, and `Release` then doesn't say that its lease has ended.
    pub unreleased: u32,
    /// How many leases were held when the engine was closed.
    lost: u32,
    last_id: u64,
}

impl<C, L> Driven<C, L> {
    /// An engine that has had no input.
    pub fn new(engine: Engine, labels: Option<Labels>) -> Self {
        Self {
            engine,
            labels,
            calls: Table::default(),
            leases: Table::default(),
            outbox: Outbox::default(),
            stopped: false,
            unreleased: 0,
            lost: 0,
            last_id: 0,
        }
    }

    /// A new number, for a call or for something of the driver's.
    pub fn next_id(&mut self) -> u64 {
        self.last_id = self.last_id.saturating_add(1);
        self.last_id
    }

    /// Starts an operation. Returns the lease whose last hold it released or detached.
    pub fn start(&mut self, now: Instant, op: OpId, operation: &Operation<'_>) -> Option<L> {
        if let (Some(labels), Operation::Inspect { name, asks: true }) = (&mut self.labels, operation) {
            labels.inspects(op, name);
        }
        self.engine.handle(now, operation.input(op));
        match operation {
            Operation::Release { lease } | Operation::Detach { lease, .. } | Operation::Store { lease, .. }
                if self.engine.lease(*lease).is_none() =>
            {
                self.leases.remove(lease)
            }
            Operation::Close => {
                self.labels.iter_mut().for_each(Labels::close);
                None
            }
            _ => None,
        }
    }

    /// Starts an operation whose result nobody needs.
    pub fn run(&mut self, now: Instant, operation: &Operation<'_>) -> Option<L> {
        let op = OpId(self.next_id());
        self.start(now, op, operation)
    }

    /// Nobody needs the result of a call any more: cancels an acquire, ends an observation, or releases the lease that it got. Returns what is
    /// to be dropped.
    pub fn abandon(&mut self, now: Instant, op: OpId) -> (Option<Call<C>>, Option<L>) {
        let Some(call) = self.calls.remove(&op) else { return (None, None) };
        let released = match &call.result {
            Some(result) => {
                let grant = result.as_ref().ok().and_then(Outcome::grant);
                grant.and_then(|grant| self.run(now, &Operation::Release { lease: grant.lease }))
            }
            None => {
                if call.goes_on {
                    self.engine.handle(now, Input::Cancel { op });
                }
                None
            }
        };
        (Some(call), released)
    }

    /// The result of an operation if the driver has stopped.
    pub fn result_when_stopped(&self, operation: &Operation<'_>) -> Option<CallResult> {
        Some(match operation {
            _ if !self.stopped => return None,
            Operation::Drain { .. } => Ok(Outcome::Drained),
            Operation::Close => Ok(Outcome::Closed { lost: self.lost, unreleased: self.unreleased }),
            // Otherwise, this lease may be one of those that stay.
            Operation::Release { .. } if self.unreleased == 0 => Ok(Outcome::Released(ReleaseOutcome::AlreadyExpired)),
            _ => Err(Error::Closed),
        })
    }

    /// The driver has stopped, so every call ends. The driver wakes the tasks, and reports the leases as lost.
    pub fn stop(&mut self) {
        self.stopped = true;
        for call in self.calls.values_mut() {
            call.result.get_or_insert(Err(Error::Closed));
        }
    }

    /// An event for the engine, or about labels.
    pub fn handle(&mut self, now: Instant, input: Input<'_>) {
        let of_labels = self.labels.as_mut().is_some_and(|labels| match &input {
            Input::Reply { id, result } => labels.takes(now, *id, result, &self.engine),
            // Without labels of leases, all others are the engine's.
            _ if !cfg!(feature = "lease-labels") => false,
            Input::Message { channel, payload, .. } => labels.hears(now, channel, payload),
            Input::Subscribed { channel, .. } => labels.channel(channel, None),
            Input::Unsubscribed { channel, cause, .. } => labels.channel(channel, Some(cause)),
            Input::Wake => {
                labels.wake(now);
                false
            }
            _ => false,
        });
        if !of_labels {
            self.engine.handle(now, input);
        }
    }

    /// The server was not ready when the engine began, and has been checked now. It has got no command.
    pub fn checked(&mut self, now: Instant, abilities: Abilities) {
        abilities.tell(&mut self.engine, self.labels.as_mut());
        if !abilities.has_slots {
            return;
        }
        for output in mem::take(&mut self.outbox.outputs) {
            match output {
                // It names the counter of a server without slots.
                Output::Send { id, .. } => self.handle(now, Input::Reply { id, result: Err(Abilities::outdated()) }),
                output => self.outbox.outputs.push(output),
            }
        }
    }

    /// The next event, until there is none. Everything else goes to the outbox. `now` is called only if it is needed.
    pub fn poll(&mut self, now: impl Fn() -> Instant) -> Option<Event> {
        while let Some(mut output) = self.engine.poll_output() {
            if self.labels.as_mut().is_some_and(|labels| labels.holds_back(&now, &mut output)) {
                continue;
            }
            match output {
                Output::Completed { op, result } => return Some(self.completed(op, result)),
                Output::Lost { lease, reason } => return Some(Event::Lost { lease, reason }),
                Output::Leader { op, leader } => return Some(Event::Leader { op, leader }),
                output => self.outbox.outputs.push(output),
            }
        }
        let labels = self.labels.as_mut()?;
        let node = NodeId(0);
        if cfg!(feature = "lease-labels") {
            if let Some(question) = labels.poll_question() {
                return Some(Event::Asked(question));
            }
            let subscribe = labels.wants_channel().map(|channel| Output::Subscribe { node, channel });
            self.outbox.outputs.extend(subscribe);
        }
        while let Some((id, command)) = labels.poll_command() {
            self.outbox.outputs.push(Output::Send { id, node, command });
        }
        let (op, outcome) = labels.poll_completed()?;
        Some(self.completed(op, Ok(outcome)))
    }

    fn completed(&mut self, op: OpId, result: CallResult) -> Event {
        if let Ok(Outcome::Closed { lost, unreleased }) = result {
            (self.outbox.closed, self.lost, self.unreleased) = (true, lost, unreleased);
        }
        Event::Completed { op, result }
    }

    /// Whether a call runs or a lease is held.
    pub fn uses_locks(&self) -> bool {
        !self.leases.is_empty() || !self.calls.is_empty()
    }

    /// Writes the client's label if it is time. `since` is when the oldest lease was granted.
    pub fn keep_label(&mut self, now: Instant, since: impl FnOnce(&Table<LeaseId, L>) -> Option<Instant>) {
        let uses_locks = self.uses_locks();
        if let Some(labels) = self.labels.as_mut().filter(|_| uses_locks) {
            labels.keep(now, || since(&self.leases));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ClientId;
    use crate::options::Config;

    #[test]
    fn a_command_that_was_made_before_the_server_told_about_slots_is_made_again() {
        let engine = Engine::new(ClientId::from_random([7; 16]), Config::default()).unwrap();
        let mut driven: Driven<(), ()> = Driven::new(engine, None);
        let mut now = Instant::default();
        let counters = |driven: &mut Driven<(), ()>, now| {
            driven.handle(now, Input::Wake);
            assert!(driven.poll(|| now).is_none());
            let commands = driven.outbox.outputs.iter().filter_map(|output| match output {
                Output::Send { command, .. } => command.words().find(|word| word.starts_with(b"leasehold:fence")),
                _ => None,
            });
            commands.map(<[u8]>::to_vec).collect::<Vec<_>>()
        };
        let options = AcquireOptions::default();
        driven.run(now, &Operation::Acquire { name: "door", options: &options });
        assert_eq!(counters(&mut driven, now), [b"leasehold:fence"]);
        driven.checked(now, Abilities { has_slots: true, ..Abilities::default() });
        assert_eq!(counters(&mut driven, now), [b""; 0]);
        now = driven.engine.poll_timeout().unwrap().0;
        let made = counters(&mut driven, now);
        assert!(!made.is_empty() && made.iter().all(|key| key.starts_with(b"leasehold:fence:{")), "{made:?}");
    }
}
