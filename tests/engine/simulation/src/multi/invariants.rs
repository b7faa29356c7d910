//! The invariants of such a run, checked at every step.

use std::collections::HashMap;

use leasehold_core::{AcquireOptions, Instant, LeaseId, LossReason, OpId, Reply, Scalar};
use leasehold_harness::Micros;

use super::users::Doing;
use super::{FINISHED, MultiRun, NAMES, SERVER_AHEAD};
use crate::invariants::keys::holder_of;
use crate::invariants::{Broken, Verdict, broken};

/// How soon a holder must be notified that a key has vanished: the longest TTL, plus the time of a command.
pub(super) const TOLD_WITHIN: Micros = 8_000_000;
/// How long a token that was given up stays buried.
const BURIED: Micros = 60_000_000;

#[derive(Default)]
pub(super) struct Promises {
    held: Vec<Held>,
    open: HashMap<(u16, OpId), Asked>,
    fences: [u64; NAMES.len()],
    buried: HashMap<String, Micros>,
    /// When each name's key last vanished.
    vanished: [Option<Micros>; NAMES.len()],
}

/// A call that has not ended.
struct Asked {
    since: Micros,
    until: Option<Micros>,
}

struct Held {
    life: u16,
    lease: LeaseId,
    names: Vec<usize>,
    /// When one of its keys vanished.
    orphan: Option<Micros>,
    /// The names of its keys that vanished, and who held them.
    missing: Vec<(usize, String)>,
    /// A key may have vanished before all names were held. That is reported as well, but not visible from here.
    doubtful: bool,
    end: End,
}

/// When a lease ends at the latest.
#[derive(Clone, Copy)]
pub(super) struct End {
    /// None if it is fixed. Its holder can't move its end then.
    renewed: Option<Renewed>,
    since: Micros,
    ttl: Micros,
}

#[derive(Clone, Copy)]
struct Renewed {
    /// By the client's clock.
    at: Option<Instant>,
    /// Since when it has needed renewals without a break.
    wanted_since: Micros,
}

impl End {
    /// The end of a lease that was granted now (`local` by the client's clock).
    pub(super) fn of(options: &AcquireOptions, now: Micros, local: Instant) -> Self {
        let at = options.max_hold.map(|most| local + most);
        let renewed = options.renew.then_some(Renewed { at, wanted_since: now });
        Self { renewed, since: now, ttl: options.ttl.as_micros() as Micros }
    }
}

impl Promises {
    pub(super) fn asked(&mut self, life: u16, op: OpId, now: Micros, until: Option<Micros>) {
        self.open.insert((life, op), Asked { since: now, until });
    }

    /// A call ends. Returns the names that may have been lost before all were held.
    pub(super) fn ended(&mut self, life: u16, op: OpId, now: Micros) -> Result<Vec<usize>, Broken> {
        let Some(asked) = self.open.remove(&(life, op)) else { return Ok(Vec::new()) };
        if asked.until.is_some_and(|until| until < now) {
            broken("ends-in-time", format!("{op:?} of {life} ended at {now}"))?;
        }
        // A client that has not been notified yet may hand over locally.
        let meanwhile = |name: &usize| self.vanished[*name].is_some_and(|at| at + TOLD_WITHIN >= asked.since);
        Ok((0..NAMES.len()).filter(meanwhile).collect())
    }

    pub(super) fn granted(
        &mut self,
        (life, lease): (u16, LeaseId),
        names: &[usize],
        fences: &[u64],
        doubtful: &[usize],
        end: End,
    ) -> Verdict {
        if fences.len() != names.len() || names.is_empty() {
            return broken("multi-all", format!("{lease:?} of {life} has {fences:?} for {names:?}"));
        }
        for (name, fence) in names.iter().zip(fences).filter(|(name, _)| !doubtful.contains(name)) {
            if *fence <= self.fences[*name] {
                let detail = format!("{} has {fence} after {}", NAMES[*name], self.fences[*name]);
                return broken("fence-order", detail);
            }
            self.fences[*name] = *fence;
        }
        self.held.push(Held {
            life,
            lease,
            names: names.to_vec(),
            orphan: None,
            missing: Vec::new(),
            doubtful: names.iter().any(|name| doubtful.contains(name)),
            end,
        });
        Ok(())
    }

    pub(super) fn released(&mut self, life: u16, lease: LeaseId) {
        self.held.retain(|held| (held.life, held.lease) != (life, lease));
    }

    /// A lease is lost. Something may have kept the client from renewing it if there is `trouble`.
    pub(super) fn lost(
        &mut self,
        life: u16,
        lease: LeaseId,
        reason: LossReason,
        (now, local): (Micros, Instant),
        trouble: bool,
    ) -> Verdict {
        let Some(place) = self.held.iter().position(|held| (held.life, held.lease) == (life, lease)) else {
            return broken("loss-twice", format!("{lease:?} of {life} is reported lost, but nobody holds it"));
        };
        let Held { end, orphan, doubtful, .. } = self.held.swap_remove(place);
        let ends = end.renewed.and_then(|renewed| renewed.at);
        let at_its_end = ends.is_some_and(|ends| ends <= local);
        if reason == LossReason::MaxHold && !at_its_end {
            return broken("max-hold", format!("{lease:?} of {life} was to end at {ends:?}, and is lost at {local:?}"));
        }
        let excused = trouble || orphan.is_some() || doubtful || at_its_end;
        let needless = match end.renewed {
            Some(renewed) => renewed.wanted_since + end.ttl / 3 < now,
            // It lasts its whole time, less what clocks may differ by and the margin for a late timer.
            None => now + end.ttl / 10 + 50_000 < end.since + end.ttl,
        };
        if reason == LossReason::Expired && needless && !excused {
            return broken("loss-needless", format!("{lease:?} of {life} expires at {local:?}, its end is {ends:?}"));
        }
        Ok(())
    }

    /// Its holder moves the end of a lease that is valid until then.
    pub(super) fn kept(
        &mut self,
        (life, lease): (u16, LeaseId),
        now: Micros,
        ends: Instant,
        valid_until: Option<Instant>,
    ) {
        let held = self.held.iter_mut().find(|held| (held.life, held.lease) == (life, lease));
        let Some(renewed) = held.and_then(|held| held.end.renewed.as_mut()) else { return };
        if valid_until >= renewed.at && renewed.at.is_some() {
            renewed.wanted_since = now;
        }
        renewed.at = Some(ends);
    }

    /// No lease of a client is valid past its end, or held when its end has come.
    pub(super) fn ends(&self, life: u16, now: Instant, valid: impl Fn(LeaseId) -> Option<Instant>) -> Verdict {
        for held in self.held.iter().filter(|held| held.life == life) {
            let Some(ends) = held.end.renewed.and_then(|renewed| renewed.at) else { continue };
            if ends <= now || valid(held.lease).is_some_and(|until| until > ends) {
                let detail = format!("{:?} of {life} was to end at {ends:?}, and is held at {now:?}", held.lease);
                return broken("max-hold", detail);
            }
        }
        Ok(())
    }

    pub(super) fn forget(&mut self, life: u16) {
        self.held.retain(|held| held.life != life);
        self.open.retain(|(other, _), _| *other != life);
    }

    /// A key is gone that had this value.
    pub(super) fn vanished(&mut self, now: Micros, name: usize, value: Option<&str>) {
        self.vanished[name] = Some(now);
        for held in self.held.iter_mut().filter(|held| held.names.contains(&name)) {
            held.orphan.get_or_insert(now);
            if held.missing.iter().all(|(missing, _)| *missing != name) {
                held.missing.push((name, value.map(holder_of).unwrap_or_default().to_owned()));
            }
        }
    }

    /// A late copy of an acquire can take a name again that its token had lost. The lease then has all of its names.
    fn came_back(&mut self, holders: &[Option<String>]) {
        let holds = |name: usize, token: &str| {
            holders.get(name).is_some_and(|value| value.as_deref().is_some_and(|value| holder_of(value) == token))
        };
        for held in self.held.iter_mut().filter(|held| held.orphan.is_some()) {
            held.missing.retain(|(name, token)| !holds(*name, token));
            if held.missing.is_empty() {
                held.orphan = None;
            }
        }
    }

    /// Losing one name ends the whole lease.
    pub(super) fn overdue(&self, now: Micros) -> Verdict {
        let late = |held: &&Held| held.orphan.is_some_and(|since| since + TOLD_WITHIN < now);
        match self.held.iter().find(late) {
            Some(held) => broken("loss-untold", format!("{:?} of {} has lost a name", held.lease, held.life)),
            None => Ok(()),
        }
    }

    /// A script ran. A given-up token must neither hold nor come back.
    pub(super) fn executed(
        &mut self,
        now: Micros,
        words: &[Vec<u8>],
        reply: &Result<Reply, String>,
        holders: impl Fn() -> Vec<Option<String>>,
    ) -> Verdict {
        let digest = words.get(1).map(Vec::as_slice).unwrap_or_default();
        let is = |script: leasehold_lua::Script| digest == script.sha1.as_bytes() || digest == script.source.as_bytes();
        if let Err(text) = reply {
            let expected = text.starts_with("NOSCRIPT");
            return if expected { Ok(()) } else { broken("script-error", text.clone()) };
        }
        // The words: N, five other keys, the token, and for how long it is buried.
        if is(leasehold_lua::RELEASE) && words.get(10).is_some_and(|bury| bury != b"0") {
            let token = String::from_utf8_lossy(&words[9]).into_owned();
            self.buried.insert(token, now + BURIED);
        }
        if self.held.iter().any(|held| held.orphan.is_some()) {
            self.came_back(&holders());
        }
        let took =
            |reply: &Reply| matches!(reply, Reply::List(list) if list.contains(&Scalar::Text(b"entered".into())));
        if is(leasehold_lua::MULTI) && reply.as_ref().is_ok_and(took) {
            for holder in holders().into_iter().flatten() {
                if self.buried.get(holder_of(&holder)).is_some_and(|until| *until > now) {
                    return broken("token-returns", format!("{holder} was given up, and holds again"));
                }
            }
        }
        Ok(())
    }
}

impl Promises {
    /// A call that takes several names passes no live waiter. `wanted` are the first live waiters before the call.
    pub(super) fn in_turn(
        &self,
        words: &[Vec<u8>],
        reply: &Result<Reply, String>,
        wanted: &[(&'static str, String)],
    ) -> Verdict {
        let Some(taken) = names_taken(words, reply) else { return Ok(()) };
        match wanted.iter().find(|(name, _)| taken.contains(&name.as_bytes())) {
            Some((name, waiter)) => broken("fifo-remote", format!("{name} was taken, and {waiter} waits for it")),
            None => Ok(()),
        }
    }
}

/// Whether a command calls `multi`.
pub(super) fn takes_several(words: &[Vec<u8>]) -> bool {
    let known = [leasehold_lua::MULTI.sha1, leasehold_lua::MULTI.source].map(str::as_bytes);
    words.get(1).is_some_and(|script| known.contains(&script.as_slice()))
}

/// The names that `multi` entered.
fn names_taken<'a>(words: &'a [Vec<u8>], reply: &Result<Reply, String>) -> Option<Vec<&'a [u8]>> {
    if !takes_several(words) {
        return None;
    }
    let Ok(Reply::List(list)) = reply else { return None };
    let answers = list.get(2..)?.chunks(2);
    // The words: the command, the script, the number of keys, and three keys for each name.
    let names = words.get(3..)?.chunks(3).zip(answers);
    let entered = |answer: &[Scalar]| answer.first() == Some(&Scalar::Text(b"entered".into()));
    Some(names.filter(|(_, answer)| entered(answer)).filter_map(|(keys, _)| Some(keys.first()?.as_slice())).collect())
}

impl MultiRun<'_> {
    /// No other client has a valid lease of these names.
    pub(super) fn exclusive(&self, client: usize, names: &[usize]) -> Verdict {
        let shares = |held: &&Held| {
            held.orphan.is_none() && !held.doubtful && held.names.iter().any(|name| names.contains(name))
        };
        let clash = self.promises.held.iter().filter(shares).find_map(|held| {
            let until = self.valid_until(held.life, held.lease)?;
            Some(format!("client {client} is granted {names:?}; {} holds {:?} until {until}", held.life, held.names))
        });
        clash.map_or(Ok(()), |detail| broken("exclusive", detail))
    }

    /// Every user has finished and given everything back.
    pub(super) fn finished(&mut self) -> Verdict {
        for (place, client) in self.clients.iter().enumerate() {
            if let Some(user) = client.users.iter().find(|user| user.doing != Doing::Thinking) {
                return broken("unfinished", format!("client {place}: {user:?}"));
            }
            if !client.engine.is_idle() {
                return broken("multi-kept", format!("client {place} has not given back everything"));
            }
        }
        let server_us = FINISHED + SERVER_AHEAD;
        match NAMES.iter().find(|name| self.model.get(server_us, name).is_some()) {
            Some(name) => broken("multi-kept", format!("{name} is still held")),
            None => Ok(()),
        }
    }
}
