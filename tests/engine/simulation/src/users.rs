//! The users of a client: they acquire leases, hold them, use them, release them, or give up.

use std::time::Duration;

use leasehold_core::{AcquireOptions, Error, Grant, Input, Instant, Kind, LeaseId, Mode, OpId, Outcome, Owner, Wait};
use leasehold_harness::Micros;

use crate::client::{Client, Op, UserCall};
use crate::coverage::State;
use crate::invariants::calls;
use crate::kinds::LockKind;
use crate::network::LEAST_WINDOW;
use crate::wire::Life;
use crate::world::{ClusterRun, Event, Phase};

/// How often a user moves the end of one lease.
const MOST_KEPT: u32 = 8;

/// One user.
#[derive(Clone, Debug, Default)]
pub(crate) struct User {
    pub(crate) doing: Doing,
    /// The number of the next step. Steps with other numbers are void.
    pub(crate) number: u32,
    pub(crate) name: usize,
    pub(crate) lease: Option<LeaseId>,
    pub(crate) mode: Option<Mode>,
    pub(crate) ttl: Duration,
    pub(crate) holds: u32,
    /// How often it has moved the end of its lease.
    pub(crate) kept: u32,
    /// The options of its last acquire.
    pub(crate) asked: Option<AcquireOptions>,
}

/// What a user does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Doing {
    #[default]
    Thinking,
    /// Waits for a lease.
    Acquiring(u32),
    Holding,
    /// Waits for the end of a call on its lease.
    Acting(u32),
    /// Waits for the end of its release.
    Releasing(u32),
    /// Waits until the other users have given their leases back.
    Draining,
    /// They have, or their time is over. Now it closes the client.
    Drained,
    /// Closes the client.
    Closing,
    Gone,
}

impl Client {
    /// Whether all users here have finished.
    pub(crate) fn is_finished(&self) -> bool {
        self.engine.is_none() || (self.open.is_empty() && self.users.iter().all(|user| user.doing == Doing::Gone))
    }
}

impl ClusterRun<'_> {
    pub(crate) fn schedule_step(&mut self, place: usize, user: usize, after: Micros) {
        let client = &mut self.clients[place];
        let Some(it) = client.users.get_mut(user) else { return };
        it.number += 1;
        let event = Event::Step { client: place, life: client.life, user, number: it.number };
        self.world.after(after, event);
    }

    /// At the end, users that only think have finished.
    pub(crate) fn finish_idle_users(&mut self, place: usize) {
        for user in &mut self.clients[place].users {
            if user.doing == Doing::Thinking {
                user.doing = Doing::Gone;
            }
        }
    }

    /// A user's next step.
    pub(crate) fn step(&mut self, place: usize, life: Life, user: usize, number: u32) {
        let client = &self.clients[place];
        if client.life != life || client.engine.is_none() || client.users.get(user).is_none_or(|it| it.number != number)
        {
            return;
        }
        if let Some(until) = client.asleep_until {
            let after = until - self.world.now + 1 + self.world.rng.below(1_000);
            return self.schedule_step(place, user, after);
        }
        let doing = client.users[user].doing;
        match doing {
            Doing::Thinking if self.phase != Phase::Busy => self.clients[place].users[user].doing = Doing::Gone,
            Doing::Thinking if self.world.rng.chance(self.mix.closes) => {
                if self.mix.drains && self.world.rng.chance(600_000) {
                    return self.drain(place, user);
                }
                self.ask(place, user, UserCall::Close);
            }
            Doing::Drained => _ = self.ask(place, user, UserCall::Close),
            Doing::Thinking => self.acquire(place, user),
            Doing::Acquiring(op) => self.cancel(place, op),
            // It has lost patience. Some users change their mind.
            Doing::Acting(op) if self.is_converting(place, op) && self.world.rng.chance(500_000) => {
                self.convert_back(place, user)
            }
            // Some work goes on for as long as it may.
            Doing::Holding if client.drains && self.world.rng.chance(700_000) => {
                let after = self.world.rng.range(self.mix.ttl_ms) * 1_000;
                self.schedule_step(place, user, after);
            }
            Doing::Holding if self.keeps(place, user) => self.keep(place, user),
            Doing::Holding if self.reenters(place, user) => self.reenter(place, user),
            Doing::Holding if self.world.rng.chance(self.mix.active) => self.act(place, user),
            Doing::Holding | Doing::Acting(_) => self.give_back(place, user),
            Doing::Releasing(_) | Doing::Draining | Doing::Closing | Doing::Gone => {}
        }
    }

    /// Lets the holders finish, before it closes the client.
    fn drain(&mut self, place: usize, user: usize) {
        let usual = 2 * self.mix.hold.1 / 1_000;
        let longest = if self.world.rng.chance(500_000) { usual } else { usual + 3 * self.mix.ttl_ms.1 };
        let grace = Duration::from_millis(self.world.rng.below(longest + 2));
        // What is due at this very moment happens first.
        self.feed(place, Input::Wake);
        let client = &mut self.clients[place];
        if client.users.get(user).is_some_and(|it| it.doing == Doing::Thinking) {
            client.drains = true;
            self.ask(place, user, UserCall::Drain(grace));
        }
    }

    fn acquire(&mut self, place: usize, user: usize) {
        if self.world.rng.chance(3_000) {
            self.ask(place, user, UserCall::Nonsense);
            return;
        }
        if self.adopts(place, user) {
            return;
        }
        let rng = &mut self.world.rng;
        let mix = &self.mix;
        let ttl = Duration::from_millis(rng.range(mix.ttl_ms));
        let wait = match rng.below(10) {
            0 | 1 => Wait::No,
            _ if rng.chance(mix.forever) => Wait::Forever,
            _ => Wait::For(Duration::from_micros(rng.spread((5_000, 60_000_000)))),
        };
        let renew = !rng.chance(mix.fixed);
        let max_hold = (renew && rng.chance(mix.fixed)).then(|| Duration::from_millis(10 + rng.range(mix.ttl_ms) * 2));
        let name = rng.below(mix.names as u64) as usize;
        let kind = mix.kind(rng, name, user);
        let forgets = mix.kinds[name] == LockKind::Once && rng.chance(200_000);
        let shares = rng.chance(mix.shared) && kind == Kind::Lock;
        let mode = if shares { Mode::Shared } else { Mode::Exclusive };
        let lingers = kind == Kind::Lock && mix.lingers > 0 && rng.chance(mix.lingers);
        let linger = lingers.then(|| Duration::from_millis(rng.spread((1, 2_000))));
        let default = AcquireOptions::default();
        let limits = mix.limits > 0 && mix.kinds[name] != LockKind::Reentrant && rng.chance(mix.limits);
        let max_waiters = limits.then(|| rng.below(6) as u32);
        let options = AcquireOptions { kind, mode, ttl, renew, max_hold, wait, linger, max_waiters, ..default };
        let cancel = rng.chance(mix.cancels).then(|| rng.spread((100, 5_000_000)));
        if forgets {
            self.forget_result(name);
        }
        let it = &mut self.clients[place].users[user];
        (it.name, it.ttl, it.mode, it.holds, it.asked) = (name, ttl, Some(mode), 0, Some(options));
        (it.lease, it.kept) = (None, 0);
        let op = self.ask(place, user, UserCall::Acquire(options));
        let it = self.clients[place].users.get(user);
        if let Some(after) = cancel.filter(|_| it.is_some_and(|it| it.doing == Doing::Acquiring(op))) {
            self.schedule_step(place, user, after);
        }
    }

    fn keeps(&mut self, place: usize, user: usize) -> bool {
        let it = &self.clients[place].users[user];
        it.lease.is_some() && it.kept < MOST_KEPT && self.world.rng.chance(self.mix.keeps)
    }

    /// Moves the end of the lease, as a driver does that renews only while a caller is present.
    fn keep(&mut self, place: usize, user: usize) {
        // What is due at this very moment happens first.
        self.feed(place, Input::Wake);
        let Some(it) = self.clients[place].users.get_mut(user) else { return };
        it.kept += 1;
        let after = self.world.rng.range(self.mix.hold) / u64::from(MOST_KEPT);
        let client = &mut self.clients[place];
        let (Some(lease), Some(engine)) = (client.users[user].lease, &client.engine) else { return };
        let (now, ttl) = (client.clock.instant(self.world.now), client.users[user].ttl);
        let rng = &mut self.world.rng;
        let until = match rng.below(8) {
            // A caller is present, and may be for long.
            0..=3 => now + ttl + ttl * rng.below(5) as u32,
            // It has left. What its lease has is enough.
            4 | 5 => engine.valid_until(lease).unwrap_or(now),
            6 => now + Duration::from_micros(rng.below(ttl.as_micros() as u64)),
            _ => now,
        };
        if let Some(held) = self.watch.leases.find(client.life, lease) {
            self.watch.leases.held[held].keep(self.world.now, now, until);
        }
        for op in &client.open {
            let op = &mut client.ops[*op as usize];
            op.bounded |= op.lease == Some(lease);
            // A conversion ends with its lease.
            if op.lease == Some(lease) && matches!(op.call, UserCall::Convert(_)) {
                op.ends = op.ends.map(|ends| ends.max(until + calls::SLACK));
            }
        }
        self.watch.paces[place].cause(self.world.now);
        self.schedule_step(place, user, after);
        self.feed(place, Input::Keep { lease, until });
    }

    /// Whether a holder takes its reentrant lock once more.
    fn reenters(&mut self, place: usize, user: usize) -> bool {
        let it = &self.clients[place].users[user];
        let may = self.phase == Phase::Busy
            && self.mix.kinds[it.name] == LockKind::Reentrant
            && it.lease.is_some()
            && it.holds < 4;
        may && self.world.rng.chance(self.mix.kind_options.reenters)
    }

    fn reenter(&mut self, place: usize, user: usize) {
        let options = self.clients[place].users[user].asked.unwrap_or_default();
        let wait = if self.world.rng.chance(300_000) { Wait::No } else { options.wait };
        self.ask(place, user, UserCall::Acquire(AcquireOptions { wait, ..options }));
    }

    fn cancel(&mut self, place: usize, op: u32) {
        self.clients[place].ops[op as usize].cancelled = true;
        self.feed(place, Input::Cancel { op: OpId(u64::from(op)) });
    }

    /// Uses the lease, and may lose patience.
    fn act(&mut self, place: usize, user: usize) {
        let passes_on = self.passes_on(place, user);
        let it = &self.clients[place].users[user];
        let other = if it.mode == Some(Mode::Exclusive) { Mode::Shared } else { Mode::Exclusive };
        let adopted = it.lease.is_some_and(|lease| self.is_adopted(self.clients[place].token_of(lease)));
        let (ttl, detaches) = (it.ttl, passes_on && self.world.rng.chance(400_000));
        let call = if detaches {
            UserCall::Detach(self.time_to_detach(ttl))
        } else if passes_on {
            UserCall::Export
        } else if !adopted && self.world.rng.chance(self.mix.converts) {
            UserCall::Convert(if self.world.rng.chance(50_000) { it.mode.unwrap_or(other) } else { other })
        } else {
            match self.world.rng.below(4) {
                0 => UserCall::Extend(it.ttl + it.ttl * self.world.rng.below(3) as u32),
                1 => UserCall::Verify,
                2 => UserCall::Hold,
                _ => UserCall::Inspect,
            }
        };
        let op = self.ask(place, user, call);
        let it = self.clients[place].users.get(user);
        if it.is_some_and(|it| it.doing == Doing::Acting(op)) && self.world.rng.chance(100_000) {
            let after = self.world.rng.spread((10, 1_000_000));
            self.schedule_step(place, user, after);
        }
    }

    fn is_converting(&self, place: usize, op: u32) -> bool {
        matches!(self.clients[place].ops[op as usize].call, UserCall::Convert(_))
    }

    /// Asks for the previous mode, while the outcome of the first conversion is unknown.
    fn convert_back(&mut self, place: usize, user: usize) {
        let mode = self.clients[place].users[user].mode.unwrap_or(Mode::Exclusive);
        self.ask(place, user, UserCall::Convert(mode));
    }

    fn give_back(&mut self, place: usize, user: usize) {
        let it = &self.clients[place].users[user];
        let (name, holds) = (it.name, it.holds);
        if it.lease.is_none() {
            return;
        }
        // Some work fails, and then it stores nothing.
        let call = if self.mix.kinds[name] == LockKind::Once && holds < 2 && self.world.rng.chance(600_000) {
            self.results += 1;
            UserCall::Store(self.results)
        } else {
            UserCall::Release
        };
        self.ask(place, user, call);
    }

    /// Makes a call for a user.
    pub(crate) fn ask(&mut self, place: usize, user: usize, call: UserCall) -> u32 {
        let client = &self.clients[place];
        let now = client.clock.instant(self.world.now);
        let again = self.must_reenter(place, client.users[user].name, &call, now);
        let client = &mut self.clients[place];
        let it = &mut client.users[user];
        let (it_name, lease) = (it.name, it.lease);
        let number = client.ops.len() as u32;
        let op = OpId(u64::from(number));
        it.doing = match call {
            UserCall::Acquire(_) | UserCall::Adopt(..) | UserCall::Nonsense => Doing::Acquiring(number),
            UserCall::Release | UserCall::Store(_) => Doing::Releasing(number),
            UserCall::Drain(_) => Doing::Draining,
            UserCall::Close => Doing::Closing,
            _ => Doing::Acting(number),
        };
        let place_held = lease.and_then(|lease| self.watch.leases.find(client.life, lease));
        let held = place_held.map(|held| &self.watch.leases.held[held]);
        let response = client.config.response_timeout;
        let ends = calls::deadline(&call, now, response, held.map(|held| held.valid_until));
        let bounded = held.is_some_and(|held| held.ends.is_some());
        // What it sends now may have to wait.
        if client.under_way() >= LEAST_WINDOW.min(usize::from(client.config.max_in_flight)) {
            client.full_at = Some(now);
        }
        client.ops.push(Op {
            call,
            user,
            name: it_name,
            lease,
            since: now,
            ends,
            bounded,
            cancelled: false,
            ended: false,
            passed: 0,
        });
        client.open.push(number);
        self.watch.paces[place].cause(self.world.now);
        let name = self.servers.names[it_name].clone();
        let held = lease.unwrap_or(LeaseId(u64::MAX));
        match call {
            UserCall::Acquire(options) => {
                client.longest_ttl_ms = client.longest_ttl_ms.max(options.ttl.as_millis() as u64);
                self.watch.locks[it_name].wanting.begins(client.life, user);
                self.feed(place, Input::Acquire { op, name: &name, options: &options });
                self.check_reentry(place, number, again);
            }
            UserCall::Nonsense => {
                let options = self.nonsense();
                let name = if options == AcquireOptions::default() { "a}b" } else { name.as_str() };
                self.feed(place, Input::Acquire { op, name, options: &options });
            }
            UserCall::Store(value) => {
                let held_now = place_held.map(|held| &self.watch.leases.held[held]).filter(|held| !held.orphan);
                if let Some(held) = held_now {
                    self.watch.locks[it_name].results.stores(value, held.fence);
                }
                self.ledger_release(place_held, now);
                self.feed(place, Input::Store { op, lease: held, value: value.to_string().as_bytes() });
            }
            UserCall::Release => {
                self.ledger_release(place_held, now);
                self.feed(place, Input::Release { op, lease: held });
            }
            UserCall::Extend(ttl) => {
                client.longest_ttl_ms = client.longest_ttl_ms.max(ttl.as_millis() as u64);
                self.feed(place, Input::Extend { op, lease: held, ttl });
            }
            UserCall::Convert(mode) => {
                // A reader from the moment the command is sent.
                if let (Some(held), Mode::Shared, LockKind::Lock) = (place_held, mode, self.mix.kinds[it_name]) {
                    self.watch.leases.held[held].mode = Mode::Shared;
                }
                self.feed(place, Input::Convert { op, lease: held, mode });
            }
            UserCall::Detach(time) => self.feed_detach(place, op, place_held, held, time, now),
            UserCall::Export => self.feed(place, Input::Export { op, lease: held }),
            UserCall::Adopt(options, token) => self.feed_adopt(place, op, &name, &options, token),
            UserCall::Hold => self.feed(place, Input::Hold { op, lease: held }),
            UserCall::Verify => self.feed(place, Input::Verify { op, lease: held }),
            UserCall::Inspect => self.feed(place, Input::Inspect { op, name: &name }),
            UserCall::Drain(grace) => self.feed(place, Input::Drain { op, grace }),
            UserCall::Close => {
                let life = client.life;
                // Losses that are due at this very moment are reported first.
                self.feed(place, Input::Wake);
                self.watch.leases.forget(life);
                self.entered_rare_state(State::Closing, place);
                self.feed(place, Input::Close { op });
            }
        }
        number
    }

    /// Options that are out of bounds, or good options for an impossible name.
    fn nonsense(&mut self) -> AcquireOptions {
        let good = AcquireOptions::default();
        let permits = |permits, limit| AcquireOptions { kind: Kind::Semaphore { permits, limit }, ..good };
        match self.world.rng.below(6) {
            0 => AcquireOptions { ttl: Duration::ZERO, ..good },
            1 => AcquireOptions { kind: Kind::Reentrant(Owner(1)), mode: Mode::Shared, ..good },
            2 => permits(0, 3),
            3 => permits(4, 3),
            4 => permits(1, 0),
            _ => good,
        }
    }

    /// A hold is released. It no longer counts, whatever the server says.
    fn ledger_release(&mut self, held: Option<usize>, now: Instant) {
        let Some(place) = held else { return };
        let held = &mut self.watch.leases.held[place];
        if held.valid_until <= now {
            // The loss is reported first.
        } else if held.holds > 1 {
            held.holds -= 1;
        } else {
            let held = self.watch.leases.end(self.world.now, place);
            if !self.is_adopted(held.token) {
                self.watch.holds[held.client][held.name].left(now);
            }
        }
    }

    /// A call of a user has ended.
    pub(crate) fn user_answered(&mut self, place: usize, number: u32, result: &Result<Outcome, Error>) {
        let user = self.clients[place].ops[number as usize].user;
        let after = 1 + self.world.rng.range(self.mix.think);
        let Some(it) = self.clients[place].users.get_mut(user) else { return };
        match (it.doing, result) {
            (Doing::Acquiring(op), Ok(Outcome::Acquired(grant))) if op == number => self.user_holds(place, user, grant),
            (Doing::Acquiring(op), _) if op == number && it.lease.is_some() => {
                it.doing = Doing::Holding;
                self.schedule_step(place, user, after);
            }
            // A user that can't have it at once comes back a little later.
            (Doing::Acquiring(op), _) if op == number => {
                it.doing = Doing::Thinking;
                self.schedule_step(place, user, after + 500);
            }
            (Doing::Acting(op), _) if op == number => {
                match result {
                    Ok(Outcome::Held(holds)) => it.holds = *holds,
                    Ok(Outcome::Converted(grant)) => it.mode = Some(grant.mode),
                    _ => {}
                }
                // It may have detached its lease.
                it.doing = if it.lease.is_some() { Doing::Holding } else { Doing::Thinking };
                // A holder keeps what it has passed on until another client has it.
                let passed_on = matches!(result, Ok(Outcome::Exported(_)));
                let after = self.world.rng.range(self.mix.hold) + if passed_on { 20 * self.mix.trip.1 } else { 0 };
                self.schedule_step(place, user, after);
            }
            (Doing::Releasing(op), _) if op == number => {
                it.holds = it.holds.saturating_sub(1);
                let more = it.holds > 0 && it.lease.is_some();
                it.doing = if more { Doing::Holding } else { Doing::Thinking };
                it.lease = it.lease.filter(|_| more);
                self.schedule_step(place, user, after);
            }
            (Doing::Draining, Ok(Outcome::Drained)) => {
                it.doing = Doing::Drained;
                self.schedule_step(place, user, 0);
            }
            (Doing::Closing, Ok(Outcome::Closed { .. })) => self.client_closed(place),
            _ => {}
        }
    }

    fn user_holds(&mut self, place: usize, user: usize, grant: &Grant) {
        let it = &mut self.clients[place].users[user];
        it.holds = if it.lease == Some(grant.lease) { it.holds + 1 } else { 1 };
        (it.doing, it.lease, it.mode) = (Doing::Holding, Some(grant.lease), Some(grant.mode));
        // Some drivers move the end of a lease as soon as they have it.
        let at_once = self.world.rng.chance(self.mix.keeps);
        let rushes = self.mix.rushes > 0 && self.world.rng.chance(self.mix.rushes);
        let after = match () {
            () if rushes => 0,
            () if at_once => 1,
            () => self.world.rng.range(self.mix.hold),
        };
        self.schedule_step(place, user, after);
    }

    /// A user's lease is lost. Some users release it anyway.
    pub(crate) fn user_lost(&mut self, place: usize, lease: LeaseId) {
        let stubborn = self.world.rng.chance(200_000);
        let after = 1 + self.world.rng.range(self.mix.think);
        let client = &self.clients[place];
        // Users that share an owner share its lease.
        let holds = |user: &usize| client.users[*user].lease == Some(lease);
        for user in (0..client.users.len()).filter(holds).collect::<Vec<_>>() {
            let it = &mut self.clients[place].users[user];
            if !matches!(it.doing, Doing::Holding | Doing::Acting(_)) {
                it.lease = None;
                continue;
            }
            if stubborn {
                (it.doing, it.holds) = (Doing::Holding, 1);
            } else {
                (it.doing, it.lease, it.holds) = (Doing::Thinking, None, 0);
            }
            self.schedule_step(place, user, after);
        }
    }

    fn client_closed(&mut self, place: usize) {
        self.drop_client(place);
        let after = self.world.rng.spread((1_000, 1_000_000));
        self.world.after(after, Event::Start { client: place });
    }
}
