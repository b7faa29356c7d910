//! What goes into the engine and its labels, and what must hold for what comes out.

use leasehold_core::{
    Error, Input, Instant, LeaseId, Mode, NodeId, OpId, Outcome, Output, Reason, ReleaseOutcome, check_label,
};

use super::{About, Held, Sent, World};
use crate::backing::script_of;
use crate::names::{ADOPTED, NAMES};

/// More outputs of one input are no end of them.
const MOST_OUTPUTS: usize = 100_000;

impl World {
    /// An input that may be about labels.
    pub(super) fn event(&mut self, input: Input<'_>) {
        let now = Instant::from_micros(self.now);
        let of_labels = self.labels.as_mut().is_some_and(|labels| match &input {
            Input::Message { channel, payload, .. } => labels.hears(now, channel, payload),
            Input::Subscribed { channel, .. } => labels.channel(channel, None),
            Input::Unsubscribed { channel, cause, .. } => labels.channel(channel, Some(cause)),
            _ => false,
        });
        if of_labels { self.settle() } else { self.input(input) }
    }

    pub(super) fn input(&mut self, input: Input<'_>) {
        let now = Instant::from_micros(self.now);
        let is_wake = matches!(input, Input::Wake);
        self.engine.handle(now, input);
        let uses_locks = self.uses_locks();
        if let Some(labels) = self.labels.as_mut().filter(|_| is_wake) {
            labels.wake(now);
            if uses_locks {
                labels.keep(now, || None);
            }
        }
        self.settle();
        // A reply makes room for a batch that has waited since earlier. It leaves with the next wake-up.
        let is_overdue = |(at, reason): &(Instant, Reason)| at.as_micros() <= self.now && *reason != Reason::Batch;
        let overdue = self.engine.poll_timeout().filter(is_overdue);
        assert!(overdue.is_none(), "{overdue:?} is due, and nothing was done");
    }

    /// Takes everything that the engine and the labels have to say, as a driver does.
    pub(super) fn settle(&mut self) {
        for _ in 0..MOST_OUTPUTS {
            let Some(mut output) = self.engine.poll_output() else { return self.settle_labels() };
            let now = Instant::from_micros(self.now);
            if !self.labels.as_mut().is_some_and(|labels| labels.holds_back(|| now, &mut output)) {
                self.observe(output);
            }
        }
        panic!("no end of outputs");
    }

    fn settle_labels(&mut self) {
        let now = Instant::from_micros(self.now);
        let (mut sent, mut completed) = (Vec::new(), Vec::new());
        if let Some(labels) = &mut self.labels {
            while let Some(question) = labels.poll_question() {
                let lease = [Some((now, Some("my lease")))].into_iter();
                labels.answer(now, &question, lease.clone(), lease);
            }
            self.channels.extend(labels.wants_channel());
            sent.extend(std::iter::from_fn(|| labels.poll_command()));
            completed.extend(std::iter::from_fn(|| labels.poll_completed()));
        }
        self.sent.extend(sent.into_iter().map(|(id, command)| Sent { id, node: NodeId(0), command, at: self.now }));
        completed.into_iter().for_each(|(op, outcome)| self.completed(op, Ok(outcome)));
        self.holders_are_apart();
    }

    fn observe(&mut self, output: Output) {
        match output {
            Output::Send { id, node, command } => {
                assert!(!script_of(&command).is_empty(), "it runs no script of ours: {command:?}");
                assert!(id.0 > self.last_command || self.servers.len() > 1, "{id:?} was used before");
                self.last_command = id.0;
                self.sent.push_back(Sent { id, node, command, at: self.now });
            }
            Output::SendDedicated { op, command } => {
                assert!(self.ops.contains_key(&op.0), "{op:?} has ended, and sends");
                self.dedicated.insert(op.0, command);
            }
            Output::CloseDedicated { op } => self.dedicated.retain(|known, _| *known != op.0),
            Output::Subscribe { channel, .. } => {
                assert!(!self.closed, "closed, and subscribes");
                self.channels.insert(channel);
            }
            Output::Unsubscribe { channel, .. } => self.channels.retain(|known| *known != channel),
            Output::Completed { op, result } => self.completed(op, result),
            Output::Leader { op, .. } => assert!(self.ops.contains_key(&op.0), "{op:?} has ended, and observes"),
            Output::Lost { lease, reason } => {
                let held = self.leases.remove(&lease.0);
                assert!(held.is_some(), "{lease:?} is lost ({reason}), but was not held");
            }
        }
    }

    fn completed(&mut self, op: OpId, result: Result<Outcome, Error>) {
        assert!(!self.dedicated.contains_key(&op.0), "the connection of {op:?} stays open");
        let about = self.ops.remove(&op.0).unwrap_or_else(|| panic!("{op:?} ended twice: {result:?}"));
        match (about, result) {
            (_, Err(error)) => {
                assert!(!error.code().is_empty() && error.to_string().len() < 100_000, "{error:?}");
            }
            (About::Names(names), Ok(Outcome::Acquired(grant))) => {
                self.backing.check(names[0], grant.fence, grant.valid_until.as_micros());
                self.acquired(names, grant.lease, grant.mode, grant.valid_until);
            }
            (About::Names(names), Ok(Outcome::AcquiredAll { lease, fences, valid_until })) => {
                assert_eq!(names.len(), fences.len(), "one fence for each name");
                for (name, fence) in names.iter().zip(&fences) {
                    self.backing.check(name, *fence, valid_until.as_micros());
                }
                self.acquired(names, lease, Mode::Exclusive, valid_until);
            }
            (About::Names(_), Ok(outcome)) => panic!("{outcome:?} of an acquire"),
            (About::Lease(lease), Ok(outcome)) => self.done_to(lease, &outcome),
            (About::Client, Ok(Outcome::Inspected(inspection))) => {
                let holders = inspection.holders.iter().flat_map(|holder| [&holder.label, &holder.lease_label]);
                let waiters = inspection.waiters.iter().flat_map(|waiter| [&waiter.label, &waiter.lease_label]);
                for label in holders.chain(waiters).flatten() {
                    assert_eq!(check_label(label), Ok(()), "a label that nobody may have: {label:?}");
                }
            }
            (About::Client, Ok(_)) => {}
        }
    }

    fn acquired(&mut self, names: Vec<&'static str>, lease: LeaseId, mode: Mode, until: Instant) {
        assert!(until.as_micros() > self.now, "{names:?} is over when it begins");
        assert!(!self.closed, "closed, and grants {names:?}");
        if let Some(held) = self.leases.get_mut(&lease.0).filter(|held| held.names == ["r"]) {
            held.holds += 1;
            return;
        }
        assert!(!self.drains, "drains, and grants {names:?}");
        assert!(self.used.insert(lease.0), "{lease:?} of {names:?} was used before");
        self.granted.push(lease.0);
        self.leases.insert(lease.0, Held { names: names.clone(), mode, holds: 1 });
    }

    /// After a lease has ended, nothing succeeds for it any more.
    fn done_to(&mut self, id: u64, outcome: &Outcome) {
        let Some(held) = self.leases.get_mut(&id) else {
            // A detached lease ends before its call does.
            let fits = matches!(outcome, Outcome::Released(_) | Outcome::Verified(false) | Outcome::Exported(_));
            return assert!(fits, "{outcome:?} for lease {id}, which has ended");
        };
        let names = held.names.clone();
        match outcome {
            Outcome::Released(released) => assert_eq!(*released, ReleaseOutcome::StillHeld, "lease {id} is held"),
            Outcome::Held(holds) => held.holds = *holds,
            Outcome::Extended { valid_until } => {
                names.iter().for_each(|name| self.backing.check_until(name, valid_until.as_micros()));
            }
            Outcome::Converted(grant) => {
                held.mode = grant.mode;
                self.backing.check(names[0], grant.fence, grant.valid_until.as_micros());
            }
            _ => {}
        }
    }

    /// Checked after all outputs of an input, because a user sees none before its driver has taken them all.
    fn holders_are_apart(&self) {
        // Each adopted lease has a token of its own.
        for name in NAMES.into_iter().filter(|name| !["s", ADOPTED].contains(name)) {
            let modes = || self.leases.values().filter(|held| held.names.contains(&name)).map(|held| held.mode);
            let apart = modes().count() < 2 || modes().all(|mode| mode == Mode::Shared);
            assert!(apart, "{name} is held at once as {:?}", modes().collect::<Vec<_>>());
        }
    }
}
