//! The users of such a run: they take some names, hold them for a while, and give them back.

use std::time::Duration;

use leasehold_core::{AcquireOptions, Error, Input, LeaseId, OpId, Outcome, Wait};
use leasehold_harness::Micros;

use super::invariants::TOLD_WITHIN;
use super::{BUSY, Event, MultiRun, NAMES};
use crate::invariants::Verdict;

#[derive(Clone, Debug, Default)]
pub(crate) struct User {
    number: u32,
    pub(crate) doing: Doing,
    /// The names that it wants or holds.
    names: Vec<usize>,
    lease: Option<LeaseId>,
    options: AcquireOptions,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Doing {
    #[default]
    Thinking,
    Acquiring(OpId),
    Holding,
    Acting(OpId),
    Releasing(OpId),
}

/// How long some leases are held: longer than their holder may take to learn of a loss.
const LONG_HOLD: Micros = TOLD_WITHIN + 2_000_000;

impl MultiRun<'_> {
    pub(super) fn schedule(&mut self, client: usize, user: usize, after: Micros) {
        let it = &mut self.clients[client];
        it.users[user].number += 1;
        let event = Event::Step { client, life: it.life, user, number: it.users[user].number };
        self.world.after(after, event);
    }

    pub(super) fn step(&mut self, client: usize, user: usize, number: u32) -> Verdict {
        let it = &self.clients[client].users[user];
        if it.number != number {
            return Ok(());
        }
        match (it.doing, it.lease) {
            (Doing::Thinking, _) if self.world.now < BUSY => self.acquire(client, user),
            (Doing::Acquiring(op), _) => self.feed(client, Input::Cancel { op }),
            (Doing::Holding, Some(lease)) if self.keeping && self.world.rng.chance(400_000) => {
                self.keep(client, user, lease)
            }
            (Doing::Holding, Some(lease)) if self.world.rng.chance(300_000) => self.act(client, user, lease),
            (Doing::Holding, Some(lease)) => {
                // What is due at this very moment happens first, and may be the lease's end.
                self.feed(client, Input::Wake)?;
                if self.clients[client].users[user].lease != Some(lease) {
                    return Ok(());
                }
                let op = self.next_op(client);
                self.clients[client].users[user].doing = Doing::Releasing(op);
                self.promises.released(self.clients[client].life, lease);
                self.feed(client, Input::Release { op, lease })
            }
            _ => Ok(()),
        }
    }

    fn next_op(&mut self, client: usize) -> OpId {
        self.clients[client].next_op += 1;
        OpId(self.clients[client].next_op)
    }

    fn acquire(&mut self, client: usize, user: usize) -> Verdict {
        let mut names: Vec<usize> = Vec::new();
        let most = if self.world.rng.chance(500_000) { 3 } else { NAMES.len() as u64 };
        for _ in 0..self.world.rng.range((1, 4)) {
            let name = self.world.rng.below(most) as usize;
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let wait = match self.world.rng.below(10) {
            0 | 1 => Wait::No,
            2..=5 => Wait::Forever,
            _ => Wait::For(Duration::from_micros(self.world.rng.spread((5_000, 20_000_000)))),
        };
        let renew = !self.world.rng.chance(150_000);
        let max_hold =
            (renew && self.world.rng.chance(100_000)).then(|| Duration::from_millis(self.world.rng.range((20, 3_000))));
        let ttl = Duration::from_millis(self.world.rng.range((100, 3_000)));
        let options = AcquireOptions { ttl, wait, renew, max_hold, ..AcquireOptions::default() };
        let op = self.next_op(client);
        let cancels = self.world.rng.chance(150_000).then(|| self.world.rng.spread((100, 3_000_000)));
        let it = &mut self.clients[client];
        it.users[user] = User {
            doing: Doing::Acquiring(op),
            names: names.clone(),
            lease: None,
            options,
            number: it.users[user].number,
        };
        let until = match wait {
            Wait::No => Some(Duration::from_secs(1)),
            Wait::For(wait) => Some(wait),
            _ => None,
        };
        let life = it.life;
        // By a clock that may run a little slower than true time.
        let until = until.map(|wait| self.world.now + wait.as_micros() as u64 * 101 / 100 + 10_000);
        self.promises.asked(life, op, self.world.now, until);
        let texts: Vec<&str> = names.iter().map(|name| NAMES[*name]).collect();
        if let ([name], true) = (texts.as_slice(), self.world.rng.chance(500_000)) {
            self.feed(client, Input::Acquire { op, name, options: &options })?;
        } else {
            self.feed(client, Input::AcquireAll { op, names: &texts, options: &options, one_script: false })?;
        }
        if let Some(after) = cancels.filter(|_| self.clients[client].users[user].doing == Doing::Acquiring(op)) {
            self.schedule(client, user, after);
        }
        Ok(())
    }

    /// Moves the end of its lease, as a driver does that renews only while a caller is present.
    fn keep(&mut self, client: usize, user: usize, lease: LeaseId) -> Verdict {
        // What is due at this very moment happens first.
        self.feed(client, Input::Wake)?;
        let until = Duration::from_micros(self.world.rng.spread((1_000, 6_000_000)));
        let after = self.world.rng.spread((200, 500_000));
        let it = &self.clients[client];
        let until = it.clock.instant(self.world.now) + until;
        self.promises.kept((it.life, lease), self.world.now, until, it.engine.valid_until(lease));
        self.schedule(client, user, after);
        self.feed(client, Input::Keep { lease, until })
    }

    fn act(&mut self, client: usize, user: usize, lease: LeaseId) -> Verdict {
        let op = self.next_op(client);
        self.clients[client].users[user].doing = Doing::Acting(op);
        if self.world.rng.chance(500_000) {
            return self.feed(client, Input::Verify { op, lease });
        }
        let ttl = Duration::from_millis(self.world.rng.range((100, 3_000)));
        self.feed(client, Input::Extend { op, lease, ttl })
    }

    /// The names that a call wants, and its options.
    pub(super) fn wanted(&self, client: usize, op: OpId) -> (Vec<usize>, AcquireOptions) {
        let asks = self.clients[client].users.iter().find(|user| user.doing == Doing::Acquiring(op));
        asks.map(|user| (user.names.clone(), user.options)).unwrap_or_default()
    }

    pub(super) fn user_answered(&mut self, client: usize, op: OpId, result: &Result<Outcome, Error>) {
        let doing = |doing: Doing| [Doing::Acquiring(op), Doing::Acting(op), Doing::Releasing(op)].contains(&doing);
        let Some(user) = self.clients[client].users.iter().position(|user| doing(user.doing)) else { return };
        let it = &mut self.clients[client].users[user];
        it.lease = match (it.doing, result) {
            (Doing::Acquiring(_), Ok(Outcome::Acquired(grant))) => Some(grant.lease),
            (Doing::Acquiring(_), Ok(Outcome::AcquiredAll { lease, .. })) => Some(*lease),
            (Doing::Acting(_), _) => it.lease,
            _ => None,
        };
        let holds = it.lease.is_some();
        it.doing = if holds { Doing::Holding } else { Doing::Thinking };
        let after =
            if holds && self.world.rng.chance(5_000) { LONG_HOLD } else { self.world.rng.spread((200, 500_000)) };
        self.schedule(client, user, after);
    }

    pub(super) fn user_lost(&mut self, client: usize, lease: LeaseId) {
        let Some(user) = self.clients[client].users.iter().position(|user| user.lease == Some(lease)) else { return };
        let it = &mut self.clients[client].users[user];
        it.lease = None;
        if it.doing == Doing::Holding {
            it.doing = Doing::Thinking;
            let after = self.world.rng.spread((200, 500_000));
            self.schedule(client, user, after);
        }
    }
}
