//! Wanting several names: all or none.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Entry, Group, MOST_BYTES, MOST_NAMES, part, whose};
use crate::client::Client;
use crate::error::{Error, LossReason, Votes};
use crate::event::{Outcome, Output};
use crate::ids::{LeaseId, OpId};
use crate::options::{AcquireOptions, Family, Mode, Wait};
use crate::session::OpKind;
use crate::wire::{Name, hash_slot};

impl Client {
    pub(crate) fn acquire_all(&mut self, op: OpId, names: &[&str], options: AcquireOptions, one_script: bool) {
        let group = match self.group(op, names, options, one_script) {
            Ok(group) => group,
            Err(error) => return self.cx.answer(op, Err(error)),
        };
        let patience = self.cx.patience_of(&options);
        self.cx.open(op, OpKind::AcquireAll { group: LeaseId(0) }, patience);
        self.begin(group);
    }

    /// Checks the names and options.
    fn group(&self, op: OpId, names: &[&str], options: AcquireOptions, one_script: bool) -> Result<Group, Error> {
        let refuse = |problem: &str| Err(Error::InvalidOption { field: "names", problem: problem.to_string() });
        if self.cx.closed {
            return Err(Error::Closed);
        }
        options.check()?;
        if options.mode == Mode::Shared || options.kind.family() != Family::Lock {
            return Err(Error::Unsupported("several names are held as exclusive locks".into()));
        }
        if names.is_empty() || names.len() > MOST_NAMES {
            return refuse("has none, or too many: give 1 to 256 names");
        }
        let prefixes = names.len().saturating_mul(self.cx.config.prefix.len());
        if names.iter().fold(prefixes, |bytes, name| bytes.saturating_add(name.len())) > MOST_BYTES {
            return refuse("are longer than 1 MiB together, each with its prefix: hash them first");
        }
        let mut sorted: Vec<String> = Vec::new();
        let mut slots = None;
        let mut by_script = names.len() > 1 || one_script;
        for name in names {
            let slot = hash_slot(Name::check(&self.cx.config.prefix, name)?.as_bytes());
            by_script &= *slots.get_or_insert(slot) == slot;
            match sorted.binary_search_by(|other| other.as_str().cmp(name)) {
                Ok(_) => return refuse("has one twice: give each name once"),
                Err(at) => sorted.insert(at, name.to_string()),
            }
        }
        if one_script && !by_script {
            return Err(Error::CrossSlot);
        }
        let place = |name: &&str| sorted.iter().position(|other| other == name);
        let order = names.iter().filter_map(place).collect();
        let fences = names.iter().map(|_| 0).collect();
        Ok(Group { op, names: sorted, order, options, by_script, fences, holds: 0 })
    }

    fn begin(&mut self, group: Group) {
        let number = self.cx.new_lease();
        if let Some(open) = self.cx.ops.get_mut(&group.op) {
            open.kind = OpKind::AcquireAll { group: number };
        }
        let by_script = group.by_script;
        self.multi.insert(number, Entry::Group(group));
        if by_script { self.at_once(number) } else { self.next(number) }
    }

    /// Acquires the next name in order. If all are held, completes the call.
    pub(crate) fn next(&mut self, number: LeaseId) {
        let Some(group) = self.multi.wanted(number) else { return };
        let Some(index) = group.fences.iter().position(|fence| *fence == 0) else { return self.all_held(number) };
        let Some(name) = group.names.get(index).cloned() else { return };
        // The part is renewed until all parts are held. The options of the whole lease apply from then on.
        let wait = if group.options.wait == Wait::No { Wait::No } else { Wait::Forever };
        let options = AcquireOptions { renew: true, max_hold: None, wait, ..group.options };
        self.acquire(OpId(part(number, index)), &name, options);
    }

    fn all_held(&mut self, number: LeaseId) {
        let Some(group) = self.multi.wanted(number) else { return };
        group.holds = 1;
        let op = group.op;
        let fences = group.order.iter().filter_map(|at| group.fences.get(*at).copied()).collect();
        let end = if group.options.renew { group.options.max_hold } else { Some(group.options.ttl) };
        if let Some(end) = end.filter(|_| !group.by_script) {
            let until = self.cx.now + end;
            self.parts(number).for_each(|part| self.keep(LeaseId(part), until));
        }
        let valid_until = self.all_valid_until(number).unwrap_or(self.cx.now);
        self.cx.complete(op, Ok(Outcome::AcquiredAll { lease: number, fences, valid_until }));
    }

    /// The numbers of a group's parts.
    pub(super) fn parts(&self, number: LeaseId) -> impl Iterator<Item = u64> + use<> {
        let parts = match self.multi.open.get(&number) {
            Some(Entry::Group(group)) => group.names.len(),
            _ => 0,
        };
        (0..parts).map(move |index| part(number, index))
    }

    /// Processes the results of parts.
    pub(crate) fn gather(&mut self) {
        while let Some(event) = self.cx.inner.pop_front() {
            self.take_in_part(event);
        }
    }

    #[inline(never)]
    fn take_in_part(&mut self, event: Output) {
        match event {
            Output::Completed { op, result } => self.part_ended(op, result),
            Output::Lost { lease, reason } => self.part_lost(lease, reason),
            _ => {}
        }
    }

    fn part_ended(&mut self, op: OpId, result: Result<Outcome, Error>) {
        let (number, index) = whose(op.0);
        match (self.multi.open.get_mut(&number), result) {
            (Some(Entry::Group(group)), Ok(Outcome::Acquired(grant))) => {
                if let Some(fence) = group.fences.get_mut(index) {
                    *fence = grant.fence;
                }
                if !group.by_script || !group.fences.contains(&0) {
                    self.next(number);
                }
            }
            (Some(Entry::Group(group)), Err(error)) if group.holds == 0 => self.fail_all(number, error),
            (Some(Entry::Fan(fan)), result) => {
                fan.left = fan.left.saturating_sub(1);
                fan.take_in(result);
                if fan.left == 0
                    && let Some(Entry::Fan(fan)) = self.multi.remove(number)
                {
                    self.cx.answer(fan.op, fan.result);
                }
            }
            _ => {}
        }
    }

    fn part_lost(&mut self, lease: LeaseId, reason: LossReason) {
        let (number, index) = whose(lease.0);
        if let Some(group) = self.multi.wanted(number) {
            if let Some(fence) = group.fences.get_mut(index) {
                *fence = 0;
            }
            // The answer to a script in flight will decide how to go on.
            if !group.by_script {
                self.start_over(number, Error::Lost(reason));
            }
            return;
        }
        let Some(group) = self.multi.held(number) else { return };
        let reason = match reason {
            LossReason::MaxHold if !group.options.renew => LossReason::Expired,
            reason => reason,
        };
        let info = group.info();
        self.cx.remember_loss(number, reason, info);
        self.cx.outputs.push_back(Output::Lost { lease: number, reason });
        self.give_back_all(number, &Error::Lost(reason));
    }

    /// Gives back what a group already has, and takes all names again, in sorted order. A try ends with `error` instead.
    pub(crate) fn start_over(&mut self, number: LeaseId, error: Error) {
        let Some(group) = self.multi.wanted(number) else { return };
        if group.options.wait == Wait::No {
            return self.fail_all(number, error);
        }
        if let Some(mut group) = self.give_back_all(number, &Error::NotHeld) {
            group.by_script = false;
            group.fences.fill(0);
            self.begin(group);
        }
    }

    /// Ends a group with an error.
    pub(crate) fn fail_all(&mut self, number: LeaseId, error: Error) {
        let Some(op) = self.multi.wanted(number).map(|group| group.op) else { return };
        let all = self.cx.ops.get(&op).map(|op| self.cx.now.since(op.since)).unwrap_or_default();
        // The time that the whole call waited, not only this part.
        let error = match error {
            Error::Busy { holder_remaining, .. } => {
                Error::Busy { waited: all, holder_remaining, votes: Votes::default() }
            }
            Error::Unreachable { cause, .. } => Error::Unreachable { waited: all, cause, votes: Votes::default() },
            error => error,
        };
        self.cx.complete(op, Err(error));
        self.give_back_all(number, &Error::NotHeld);
    }

    /// Ends a group and all its parts. Calls that wait for a part's lease end with `error`.
    fn give_back_all(&mut self, number: LeaseId, error: &Error) -> Option<Group> {
        let parts = self.parts(number);
        let Some(Entry::Group(group)) = self.multi.remove(number) else { return None };
        for part in parts {
            self.stop_wanting(OpId(part));
            let lease = LeaseId(part);
            let Some(lock) = self.cx.leases.get(&lease).map(|lease| lease.lock) else { continue };
            self.cx.end_lease(lease, error);
            self.with(lock, |lock, cx| {
                lock.leave(lease);
                lock.settle(cx, None);
            });
        }
        Some(group)
    }

    /// The wait has ended. The error is that of the part that is still missing.
    pub(crate) fn all_ends(&mut self, op: OpId, number: LeaseId) {
        let Some(group) = self.multi.wanted(number) else { return };
        let next = group.fences.iter().position(|fence| *fence == 0).and_then(|index| group.names.get(index));
        let key = next.map(|name| Name::key(&self.cx.config.prefix, name));
        let lock = key.and_then(|key| self.locks.get(self.locks.find(Family::Lock, &key)?));
        let nobody = Error::Unreachable { waited: core::time::Duration::ZERO, cause: None, votes: Votes::default() };
        let error = lock.map_or(nobody, |lock| lock.empty_handed(&self.cx, op));
        self.fail_all(number, error);
    }

    /// Closes the client: the waits have ended and the leases were given back.
    pub(crate) fn close_all(&mut self) {
        self.gather();
        self.multi.open.retain(|_, entry| !matches!(entry, Entry::Group(_)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::engine::Engine;
    use crate::event::Input;
    use crate::ids::ClientId;
    use crate::options::Config;
    use crate::time::Instant;

    /// The engine's first outputs for `count` names with `bytes` bytes in total.
    fn outputs(prefix: &str, count: usize, bytes: usize) -> Vec<Output> {
        let config = Config { prefix: prefix.to_string(), ..Config::default() };
        let mut engine = Engine::new(ClientId::from_random([7; 16]), config).unwrap();
        let names: Vec<String> = (0..count).map(|number| alloc::format!("{number:0bytes$}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let input =
            Input::AcquireAll { op: OpId(1), names: &names, options: AcquireOptions::default(), one_script: false };
        engine.handle(Instant::from_micros(1), input);
        core::iter::from_fn(|| engine.poll_output()).collect()
    }

    #[test]
    fn names_of_more_than_a_mebibyte_together_are_refused_before_anything_is_sent() {
        let prefix = "p".repeat(1_024);
        for (prefix, count, bytes) in [("", 256, 4_097), ("", 17, 63 << 10), (prefix.as_str(), 256, 3_073)] {
            match outputs(prefix, count, bytes).as_slice() {
                [Output::Completed { result: Err(Error::InvalidOption { field: "names", problem }), .. }] => {
                    assert!(problem.contains("1 MiB"), "{problem}");
                }
                other => panic!("{count} names of {bytes} bytes: {other:?}"),
            }
        }
        for (prefix, count, bytes) in [("", 256, 4_096), ("", 16, 63 << 10), (prefix.as_str(), 256, 3_072)] {
            let outputs = outputs(prefix, count, bytes);
            assert!(matches!(outputs.as_slice(), [Output::Send { .. }, ..]), "{count} names of {bytes} bytes");
        }
    }
}
