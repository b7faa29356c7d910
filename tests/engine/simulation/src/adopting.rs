//! Leases that go from client to client: holders pass their tokens on, others adopt, and the watchers follow.

use std::time::Duration;

use leasehold_core::{AcquireOptions, Grant, Input, Instant, LeaseId, LeaseToken, Mode, OpId};

use crate::client::{Client, SentCommand, UserCall};
use crate::invariants::fences::User;
use crate::invariants::leases::Held;
use crate::invariants::{Verdict, broken};
use crate::kinds::LockKind;
use crate::users::Doing;
use crate::wire::{Answer, Life, ScriptCommand, Status, Token};
use crate::world::{ClusterRun, Event, Phase};

/// How many tokens that were passed on are remembered.
const PASSED_ON: usize = 8;
/// The chance that a holder dies soon after it has passed its token on.
const DIES: u32 = 400_000;
/// The chance that a caller takes the token of a waiter, which `inspect` shows too, instead of one that was passed on.
const WAITERS: u32 = 100_000;

/// A token that a holder has passed on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassedOn {
    name: usize,
    life: Life,
    token: LeaseToken,
}

impl Client {
    /// The token of a lease.
    pub(crate) fn token_of(&self, lease: LeaseId) -> Option<Token> {
        let [touch, _] = self.engine.as_ref()?.touch(lease)?;
        let words: Vec<&[u8]> = touch.words().collect();
        let keys = std::str::from_utf8(words.get(2)?).ok()?.parse::<usize>().ok()?;
        Token::read(words.get(3 + keys)?)
    }
}

/// The users.
impl ClusterRun<'_> {
    /// Whether a holder passes its lease on.
    pub(crate) fn passes_on(&mut self, place: usize, user: usize) -> bool {
        let it = &self.clients[place].users[user];
        let may = it.mode == Some(Mode::Exclusive) && self.mix.kinds[it.name] == LockKind::Lock;
        may && self.world.rng.chance(self.mix.adopts)
    }

    /// A holder passes its token on. Another client's user may adopt the lease at once, and the holder may die.
    pub(crate) fn passed_on(&mut self, place: usize, name: usize, lease: Option<LeaseId>, token: LeaseToken) {
        if self.passed_on.len() == PASSED_ON {
            self.passed_on.remove(0);
        }
        let life = self.clients[place].life;
        self.passed_on.push(PassedOn { name, life, token });
        // From now on, its client must not hand it over, as after a loss.
        let held = lease.and_then(|lease| self.clients[place].token_of(lease));
        let hold = &mut self.watch.holds[place][name];
        if held.is_some() && hold.token == held {
            hold.lost();
        }
        let thinks = |client: &Client| client.users.iter().position(|user| user.doing == Doing::Thinking);
        let others = self.clients.iter().enumerate().filter(|(other, client)| *other != place && client.is_awake());
        let others: Vec<(usize, usize)> = others.filter_map(|(other, client)| Some((other, thinks(client)?))).collect();
        if !others.is_empty() && self.phase == Phase::Busy {
            let (other, user) = *self.world.rng.pick(&others);
            let after = self.world.rng.below(self.mix.trip.1);
            self.schedule_step(other, user, after);
        }
        if self.world.rng.chance(DIES) {
            let after = self.world.rng.spread((10, 100_000));
            self.world.after(after, Event::Death { client: place, life });
        }
    }

    /// What a caller may adopt, if it wants to: usually a lease that was passed on.
    fn what_to_adopt(&mut self, place: usize) -> Option<(usize, LeaseToken)> {
        if !self.world.rng.chance(self.mix.adopts) {
            return None;
        }
        let life = self.clients[place].life;
        if self.world.rng.chance(WAITERS) {
            return self.some_waiter(life);
        }
        let chosen = *self.passed_on.iter().rfind(|it| it.life != life)?;
        // Some are used twice.
        if self.world.rng.chance(700_000) {
            self.passed_on.retain(|it| it.token != chosen.token);
        }
        Some((chosen.name, chosen.token))
    }

    /// The token of another client that waits.
    fn some_waiter(&mut self, life: Life) -> Option<(usize, LeaseToken)> {
        let name = self.world.rng.below(self.mix.names as u64) as usize;
        let server = self.servers.home(name);
        let server_us = self.servers.time(server, self.world.now);
        let waiting = self.watch.keys.waiting(&self.servers.models[server], server_us, name);
        let waiting: Vec<Token> = waiting.into_iter().filter(|token| token.life != life).collect();
        if waiting.is_empty() || self.mix.kinds[name] != LockKind::Lock {
            return None;
        }
        let token = *self.world.rng.pick(&waiting);
        let client = self.clients.iter().find(|client| client.life == token.life)?;
        Some((name, LeaseToken::read(&format!("{}:{}", client.uuid, token.count)).ok()?))
    }

    /// A user adopts a lease, if there is one to adopt.
    pub(crate) fn adopts(&mut self, place: usize, user: usize) -> bool {
        let Some((name, token)) = self.what_to_adopt(place) else { return false };
        let (rng, mix) = (&mut self.world.rng, &self.mix);
        let ttl = Duration::from_millis(rng.range(mix.ttl_ms));
        let options = AcquireOptions { ttl, renew: !rng.chance(mix.fixed), ..AcquireOptions::default() };
        let cancel = rng.chance(mix.cancels).then(|| rng.spread((100, 1_000_000)));
        let it = &mut self.clients[place].users[user];
        (it.name, it.ttl, it.mode, it.holds, it.asked) = (name, ttl, Some(options.mode), 0, Some(options));
        (it.lease, it.kept) = (None, 0);
        let op = self.ask(place, user, UserCall::Adopt(options, token));
        let it = self.clients[place].users.get(user);
        if let Some(after) = cancel.filter(|_| it.is_some_and(|it| it.doing == Doing::Acquiring(op))) {
            self.schedule_step(place, user, after);
        }
        true
    }

    /// Passes the call to the engine.
    pub(crate) fn feed_adopt(
        &mut self,
        place: usize,
        op: OpId,
        name: &str,
        options: &AcquireOptions,
        token: LeaseToken,
    ) {
        let client = &mut self.clients[place];
        client.longest_ttl_ms = client.longest_ttl_ms.max(options.ttl.as_millis() as u64);
        self.feed(place, Input::Adopt { op, name, token, options });
    }
}

/// What the watchers see. An adopted lease has a state machine of its own in its client, so they follow it by its token.
impl ClusterRun<'_> {
    /// Whether this is the token of an adopted lease, or of one that a client tries to adopt.
    pub(crate) fn is_adopted(&self, token: Option<Token>) -> bool {
        token.is_some_and(|token| self.watch.adopted.contains_key(&token))
    }

    /// A client sends a command. True if it is about a lease that it adopts.
    pub(crate) fn sends_adopted(&mut self, script: &ScriptCommand) -> bool {
        if let Some((_, new)) = script.adopts() {
            self.watch.adopted.entry(new).or_default();
        }
        self.is_adopted(script.token())
    }

    /// A server ran an adoption. Its former holder may not know yet, as after a revocation by an operator.
    pub(crate) fn observe_adoption(&mut self, name: usize, script: &ScriptCommand, answer: &Answer) {
        let Some((old, new)) = script.adopts().filter(|_| answer.status == Status::Converted) else { return };
        self.watch.adopted.insert(new, self.world.now);
        self.watch.forced.push(old);
        let former = |held: &&mut Held| {
            held.name == name && held.life == old.life && held.token.is_none_or(|token| token == old)
        };
        self.watch.leases.held.iter_mut().filter(former).for_each(|held| held.orphan = true);
        let holds = self.watch.holds.iter_mut().map(|holds| &mut holds[name]);
        holds.filter(|hold| hold.token == Some(old)).for_each(|hold| hold.orphan = true);
        self.watch.locks[name].fences.forced(&[old]);
    }

    /// Records what a client learns about a lease that it adopts.
    pub(crate) fn learn_adopted(&mut self, place: usize, sent: &SentCommand, answer: &Answer) {
        let client = &self.clients[place];
        let (life, sent_at, now) = (client.life, client.clock.when(sent.at.as_micros()), self.world.now);
        let tokens = &mut self.watch.locks[sent.name].tokens;
        match (sent.script, answer.status) {
            (ScriptCommand::Convert { old, .. }, Status::Converted | Status::Again) => {
                tokens.given_up(now, sent_at, old);
            }
            (ScriptCommand::Release { token, .. }, _) => tokens.given_up(now, sent_at, token),
            (ScriptCommand::Renew { token, .. }, Status::Gone | Status::Taken) => {
                let held = self.watch.leases.of(life).filter(|held| held.token == Some(token));
                self.watch.doomed.extend(held.map(|held| (held.lease, "loss-untold")));
            }
            _ => {}
        }
    }

    /// A user has adopted a lease.
    pub(crate) fn adopted(&mut self, place: usize, now: Instant, number: u32, options: &AcquireOptions, grant: &Grant) {
        let client = &self.clients[place];
        let (life, name) = (client.life, client.ops[number as usize].name);
        let token = client.token_of(grant.lease);
        self.counts.grants += 1;
        let lock = &mut self.watch.locks[name];
        lock.progress.granted();
        let granted_at = token.and_then(|token| self.watch.adopted.get(&token)).copied().unwrap_or_default();
        let forced = token.is_some_and(|token| self.watch.forced.contains(&token));
        let orphan = forced || lock.lost_at.is_some_and(|lost| lost >= granted_at);
        let user = User::of(orphan, lock.fences.is_victim(token));
        let server_us = self.servers.time(self.servers.home(name), self.world.now);
        let fence = lock.blocks.uses(life, grant.fence);
        let fence = fence.and(lock.fences.used(grant.mode, grant.fence, user, server_us));
        let times = (self.world.now, now);
        let held = Held { orphan, token, ..Held::granted(client, place, name, times, options, grant) };
        let exclusive = self.watch.leases.grant(self.world.now, held);
        self.watch.check(exclusive.and(fence).and(local(grant)));
    }
}

/// An adopted lease comes from the server.
fn local(grant: &Grant) -> Verdict {
    if grant.local { broken("answer", format!("{grant:?} was adopted without the server")) } else { Ok(()) }
}
