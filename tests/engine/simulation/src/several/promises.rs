//! What must hold in that world at every step.

use std::collections::HashMap;

use leasehold_core::{LeaseId, OpId, Reply, Scalar};

use super::users::Doing;
use super::{FINISHED, NAMES, SERVER_AHEAD, SeveralWorld};
use crate::clock::Micros;
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
    /// A key may have vanished before all names were held. That is reported as well, but not visible from here.
    doubtful: bool,
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
    ) -> Verdict {
        if fences.len() != names.len() || names.is_empty() {
            return broken("several-all", format!("{lease:?} of {life} has {fences:?} for {names:?}"));
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
            doubtful: names.iter().any(|name| doubtful.contains(name)),
        });
        Ok(())
    }

    pub(super) fn released(&mut self, life: u16, lease: LeaseId) {
        self.held.retain(|held| (held.life, held.lease) != (life, lease));
    }

    pub(super) fn lost(&mut self, life: u16, lease: LeaseId) -> Verdict {
        let before = self.held.len();
        self.released(life, lease);
        if self.held.len() < before {
            return Ok(());
        }
        broken("loss-twice", format!("{lease:?} of {life} is reported lost, but nobody holds it"))
    }

    pub(super) fn forget(&mut self, life: u16) {
        self.held.retain(|held| held.life != life);
        self.open.retain(|(other, _), _| *other != life);
    }

    pub(super) fn vanished(&mut self, now: Micros, name: usize) {
        self.vanished[name] = Some(now);
        for held in self.held.iter_mut().filter(|held| held.names.contains(&name)) {
            held.orphan.get_or_insert(now);
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
        // The words: N, six side keys, the token, and for how long it is buried.
        if is(leasehold_lua::RELEASE) && words.get(11).is_some_and(|bury| bury != b"0") {
            let token = String::from_utf8_lossy(&words[10]).into_owned();
            self.buried.insert(token, now + BURIED);
        }
        let took =
            |reply: &Reply| matches!(reply, Reply::List(list) if list.contains(&Scalar::Text(b"entered".into())));
        if is(leasehold_lua::MULTI) && reply.as_ref().is_ok_and(took) {
            for holder in holders().into_iter().flatten() {
                if self.buried.get(&holder).is_some_and(|until| *until > now) {
                    return broken("token-returns", format!("{holder} was given up, and holds again"));
                }
            }
        }
        Ok(())
    }
}

impl SeveralWorld<'_> {
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
                return broken("several-kept", format!("client {place} has not given back everything"));
            }
        }
        let server_us = FINISHED + SERVER_AHEAD;
        match NAMES.iter().find(|name| self.model.get(server_us, name).is_some()) {
            Some(name) => broken("several-kept", format!("{name} is still held")),
            None => Ok(()),
        }
    }
}
