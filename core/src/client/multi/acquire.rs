//! Wanting several names: all or none.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Entry, Group, HoldAll, MOST_BYTES, MOST_NAMES, MOST_ROUNDS, PartLocks, Wanted};
use crate::error::{Error, LossReason};
use crate::event::{Outcome, Part};
use crate::ids::{Caller, LeaseId, PartId};
use crate::lock::waited;
use crate::options::{AcquireOptions, Kind, Mode, Wait};
use crate::session::{Context, Lease, Leased, OpKind, Timer};
use crate::time::Duration;
use crate::wire::{FenceCounter, Name, hash_slot};

pub(crate) trait AcquireAll: HoldAll {
    fn acquire_all(&mut self, op: Caller, parts: &[Part<'_>], options: &AcquireOptions, one_script: bool) {
        let group = match Group::new(self.cx(), op, parts, *options, one_script) {
            Ok(group) => group,
            Err(error) => return self.cx().refuse(op, error),
        };
        let id = self.cx().new_lease();
        let patience = self.patience(options);
        self.cx().open_acquire(op, OpKind::AcquireAll { group: id }, patience, options);
        self.begin(id, group);
    }

    /// Acquires the next part in order. If all are held, completes the call.
    fn next(&mut self, id: LeaseId) {
        match self.multi().group(id).map(|group| group.missing().next().map(|(index, _)| index)) {
            Some(Some(index)) => self.acquire_at(id, index),
            Some(None) => self.all_held(id),
            None => {}
        }
    }

    /// Acquires one part, through its queue.
    fn acquire_at(&mut self, id: LeaseId, index: u16) {
        let Some(group) = self.multi().group(id) else { return };
        let Some(part) = group.wanted.get(usize::from(index)) else { return };
        let (name, options) = (part.name.clone(), group.options_of(part));
        // The part is renewed until all parts are held. The options of the whole lease apply from then on.
        let wait = if options.wait == Wait::No { Wait::No } else { Wait::Forever };
        let options = AcquireOptions { renew: true, max_hold: None, wait, ..options };
        self.acquire_part(Caller::Part(PartId::new(id, index)), &name, &options);
    }

    fn all_held(&mut self, id: LeaseId) {
        let Some(group) = self.multi().group(id) else { return };
        let (op, options) = (group.op, group.options);
        let parts: Vec<LeaseId> = group.grants.iter().flatten().map(|grant| grant.lease).collect();
        let mut fences = Vec::new();
        for grant in group.order.iter().filter_map(|at| group.grants.get(*at)?.as_ref()) {
            fences.push(grant.fence);
        }
        self.multi().open.remove(&id);
        let end = if options.renew { options.max_hold } else { Some(options.ttl) };
        // The script starts the parts of a fixed lease together, and they end by themselves. Others were granted one by one.
        if let Some(end) = end {
            for part in &parts {
                let until = self.cx().now + end;
                self.keep_part(*part, until);
            }
        }
        // The ends are those of the parts, and the fence is the greatest.
        let fence = fences.iter().copied().max().unwrap_or_default();
        let now = self.cx().now;
        self.cx().leases.insert(id, Lease::new(Leased::Parts(parts.into()), op, &options, fence, now));
        let valid_until = self.valid_until(id).unwrap_or(now);
        self.cx().complete(op, Ok(Outcome::AcquiredAll { lease: id, fences, valid_until }));
    }

    /// The call that acquires a part has ended.
    fn part_acquired(&mut self, part: PartId, result: Result<Outcome, Error>) {
        let id = part.whole();
        match (self.multi().group_mut(id), result) {
            (Some(group), Ok(Outcome::Acquired(grant))) => {
                if let Some(place) = group.grants.get_mut(usize::from(part.index())) {
                    *place = Some(grant);
                }
                if !group.by_script || group.grants.iter().all(Option::is_some) {
                    self.next(id);
                } else if group.full == Some(part.index()) {
                    self.at_once(id);
                }
            }
            (Some(_), Err(error)) => self.fail_all(id, Some(part.index()), error),
            // The group ended first.
            (None, Ok(Outcome::Acquired(grant))) => self.give_back(grant.lease, &Error::NotHeld),
            _ => {}
        }
    }

    /// A part was lost before all parts were held. A script for all parts may be under way with a token that is gone: one that was
    /// sent finds tombstones, and one that waits for room is not sent.
    fn lost_before_held(&mut self, part: PartId, reason: LossReason) {
        self.start_over(part.whole(), Some(part.index()), Error::Lost(reason));
    }

    /// Gives back what a group already has. Then it waits at the full part and holds nothing meanwhile, or takes all parts in order.
    /// A try ends with `error` instead, unless that only says that one script can't take the parts.
    fn start_over(&mut self, id: LeaseId, full: Option<u16>, error: Error) {
        let tries = self.multi().group(id).is_some_and(|group| group.options.wait == Wait::No);
        if tries && !matches!(error, Error::CrossSlot) {
            return self.fail_all(id, full, error);
        }
        let Some(mut group) = self.give_back_all(id) else { return };
        group.by_script &= full.is_some() && !(group.is_old() && self.multi().is_next_in_order(&group));
        group.rounds = group.rounds.saturating_add(1);
        group.full = full;
        group.grants.fill(None);
        let cx = self.cx();
        let id = cx.new_lease();
        if let Some(open) = cx.ops.get_mut(&group.op) {
            open.kind = OpKind::AcquireAll { group: id };
            cx.timers.set(Timer::OpAgain(group.op), &mut open.again, None);
        }
        self.begin(id, group);
    }

    /// Ends a group with an error of one of its parts.
    fn fail_all(&mut self, id: LeaseId, index: Option<u16>, mut error: Error) {
        let Some(group) = self.multi().group(id) else { return };
        let op = group.op;
        if let Error::Busy { busy_name, .. } = &mut error {
            *busy_name = index
                .filter(|_| group.wanted.len() > 1)
                .and_then(|index| Some(group.wanted.get(usize::from(index))?.name.clone()));
        }
        // The time that the whole call waited, not only this part.
        if let Error::Busy { waited: time, .. } | Error::Unreachable { waited: time, .. } = &mut error {
            *time = waited(self.cx(), op).into();
        }
        self.cx().fail(op, error);
        self.give_back_all(id);
    }

    /// Ends a group and all its parts.
    fn give_back_all(&mut self, id: LeaseId) -> Option<Group> {
        let Some(Entry::Group(group)) = self.multi().open.remove(&id) else { return None };
        for (index, grant) in (0..).zip(&group.grants) {
            self.stop_wanting(Caller::Part(PartId::new(id, index)));
            if let Some(grant) = grant {
                self.give_back(grant.lease, &Error::NotHeld);
            }
        }
        Some(*group)
    }

    /// The wait has ended. The error is that of the part that is still missing.
    fn all_ends(&mut self, id: LeaseId) {
        let Some(group) = self.multi().group(id) else { return };
        let (op, mut parts) = (group.op, Vec::new());
        for (index, part) in group.missing() {
            parts.push((index, part.name.clone()));
        }
        let ends = |(index, name): &(u16, String)| {
            let error = self.empty_handed(name, op, Caller::Part(PartId::new(id, *index)))?;
            Some((Some(*index), error))
        };
        let (index, error) = parts.iter().find_map(ends).unwrap_or((None, Error::unreachable(Duration::ZERO, None)));
        self.fail_all(id, index, error);
    }

    /// Closes the client: the waits have ended and the leases were given back.
    fn close_all(&mut self) {
        self.gather();
        self.cx().leases.retain(|lease| lease.lock().is_some());
    }
}

impl<T: PartLocks> AcquireAll for T {}

impl Group {
    /// Checks the parts and options.
    pub(crate) fn new(
        cx: &Context,
        op: Caller,
        parts: &[Part<'_>],
        options: AcquireOptions,
        one_script: bool,
    ) -> Result<Self, Error> {
        if cx.draining {
            return Err(Error::Closed);
        }
        if options.linger.is_some() {
            return Err(Error::unsupported("locks on several names don't linger"));
        }
        if options.at_least.is_some() {
            return Err(crate::options::not_detached());
        }
        if options.max_waiters.is_some() {
            return Err(crate::options::not_counted());
        }
        if options.per.is_some() {
            return Err(Error::unsupported("a rate can't be one of several: acquire it before the others"));
        }
        if parts.is_empty() || parts.len() > MOST_NAMES {
            return Err(Error::invalid("names", "has none, or too many: give 1 to 256 names"));
        }
        let prefixes = parts.len().saturating_mul(cx.config.prefix.len());
        if parts.iter().fold(prefixes, |bytes, part| bytes.saturating_add(part.name.len())) > MOST_BYTES {
            return Err(Error::invalid(
                "names",
                "are longer than 1 MiB together, each with its prefix: hash them first",
            ));
        }
        let mut wanted: Vec<Wanted> = Vec::new();
        let mut slots = None;
        let mut one_slot = true;
        for Part { name, kind, mode } in parts.iter().copied() {
            AcquireOptions { kind, mode, ..options }.check()?;
            if !kind.family().moves() {
                return Err(Error::unsupported(
                    "one lease has mutexes, read-write locks and semaphores, and no other kinds",
                ));
            }
            let slot = hash_slot(Name::check(&cx.config.prefix, name)?.as_bytes());
            one_slot &= *slots.get_or_insert(slot) == slot;
            match wanted.binary_search_by(|other| other.name.as_str().cmp(name)) {
                Ok(_) => return Err(Error::invalid("names", "has one twice: give each name once")),
                Err(at) => wanted.insert(at, Wanted { name: name.to_string(), kind, mode }),
            }
        }
        if one_script && !one_slot {
            return Err(Error::CrossSlot);
        }
        let place = |part: &Part<'_>| wanted.iter().position(|other| other.name == part.name);
        let order = parts.iter().filter_map(place).collect();
        let grants = parts.iter().map(|_| None).collect();
        let one_server = matches!(cx.counter, FenceCounter::Server(_));
        let by_script = one_script || (one_slot || one_server) && parts.len() > 1;
        let options = AcquireOptions { kind: Kind::Lock, mode: Mode::Exclusive, ..options };
        Ok(Self { op, wanted, order, options, since: cx.now, by_script, full: None, rounds: 0, grants })
    }

    /// Whether it has waited so often in vain that it may take the parts in order.
    pub(super) fn is_old(&self) -> bool {
        self.rounds >= MOST_ROUNDS
    }

    /// The parts that are not held, with their indexes among all.
    pub(super) fn missing(&self) -> impl Iterator<Item = (u16, &Wanted)> {
        let parts = (0..).zip(&self.grants).zip(&self.wanted);
        parts.filter(|((_, grant), _)| grant.is_none()).map(|((index, _), part)| (index, part))
    }

    pub(super) fn options_of(&self, part: &Wanted) -> AcquireOptions {
        AcquireOptions { kind: part.kind, mode: part.mode, ..self.options }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use alloc::string::String;

    use crate::engine::Engine;
    use crate::event::{Input, Output};
    use crate::ids::{ClientId, OpId};
    use crate::options::Config;
    use crate::time::Instant;

    /// The engine's first outputs for `count` names with `bytes` bytes in total.
    fn outputs(prefix: &str, count: usize, bytes: usize) -> Vec<Output> {
        let config = Config { prefix: prefix.to_string(), ..Config::default() };
        let mut engine = Engine::new(ClientId::from_random([7; 16]), config).unwrap();
        let names: Vec<String> = (0..count).map(|number| alloc::format!("{number:0bytes$}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let input = Input::AcquireAll {
            op: OpId(1),
            parts: &Part::mutexes(&names),
            options: &AcquireOptions::default(),
            one_script: false,
        };
        engine.handle(Instant::from_micros(1), input);
        engine.handle(Instant::from_micros(1), Input::Wake);
        core::iter::from_fn(|| engine.poll_output()).collect()
    }

    #[test]
    fn a_user_may_give_a_call_any_number() {
        let mut engine = Engine::new(ClientId::from_random([7; 16]), Config::default()).unwrap();
        for op in [OpId(0), OpId(1 << 63), OpId(u64::MAX)] {
            engine.handle(Instant::from_micros(1), Input::Release { op, lease: LeaseId(1) });
            assert!(matches!(engine.poll_output(), Some(Output::Completed { op: ended, .. }) if ended == op), "{op:?}");
        }
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
