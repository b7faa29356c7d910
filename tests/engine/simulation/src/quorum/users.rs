//! What users do: acquire, hold, sometimes extend, release, do something else.

use std::time::Duration;

use leasehold_core::{
    AcquireOptions, Error, Input, Instant, Kind, LeaseId, LossReason, Mode, OpId, Outcome, Part, ReleaseOutcome, Wait,
};

use crate::invariants::broken;
use crate::quorum::client::{Doing, Op, UserCall, Wanted};
use crate::quorum::network::A_CALL;
use crate::quorum::watch::Belief;
use crate::quorum::world::{Manner, QuorumRun};
use crate::wire::Life;
use crate::world::{Event, Phase};

impl QuorumRun<'_> {
    pub(crate) fn step(&mut self, client: usize, life: Life, user: usize, number: u32) {
        let it = &self.clients[client];
        if it.life != life || it.engine.is_none() || it.users[user].step != number {
            return;
        }
        if !it.is_awake() {
            return self.next_step(client, user, 10_000);
        }
        match it.users[user].doing {
            // While a client drains, its users go on asking.
            Doing::Nothing if self.phase != Phase::Busy && !it.drains => {}
            Doing::Nothing => {
                let name = self.world.rng.below(self.mix.names as u64) as usize;
                if self.mix.manner == Manner::MultiBusy {
                    return self.wants_for_ever(client, user);
                } else if self.mix.is_of_several() && self.world.rng.chance(800_000) {
                    let (parts, options) = (self.parts(name), self.options());
                    self.call(client, user, &parts, UserCall::AcquireAll(options));
                } else if self.world.rng.chance(20_000) {
                    self.call(client, user, &[Wanted::exclusive(name)], UserCall::Inspect);
                } else {
                    let options = self.options();
                    let part = self.part(name, options.mode);
                    let options = AcquireOptions { kind: part.kind, mode: part.mode, ..options };
                    self.call(client, user, &[part], UserCall::Acquire(options));
                }
                if self.world.rng.chance(50_000) {
                    let after = self.world.rng.spread((100, 2_000_000));
                    let op = OpId(self.clients[client].ops.len() as u64);
                    self.world.after(after, Event::Cancel { client, life, op });
                }
            }
            Doing::Calling(_) => {}
            Doing::Drained => {
                // What is due at this very moment happens first. Then the client gives back what its other users hold.
                self.tell_engine(client, Input::Wake);
                self.watch.gone(life);
                self.call(client, user, &[Wanted::exclusive(0)], UserCall::Close);
            }
            Doing::Holding(lease) if self.mix.manner == Manner::MultiBusy => {
                self.call_about(client, user, lease, UserCall::Release(lease));
            }
            // Some work goes on for as long as it may.
            Doing::Holding(_) if it.drains && self.world.rng.chance(700_000) => {
                let after = self.world.rng.spread((1_000, 2_000_000));
                self.next_step(client, user, after);
            }
            Doing::Holding(lease) if self.world.rng.chance(self.mix.keeps()) => self.keep(client, user, lease),
            Doing::Holding(lease) if self.mix.is_single() && self.world.rng.chance(60_000) => {
                self.ends_soon(client, user, lease)
            }
            Doing::Holding(lease) => {
                let call = match self.world.rng.below(10) {
                    0 => UserCall::Extend(lease, Duration::from_millis(self.world.rng.spread((100, 5_000)))),
                    1 => UserCall::Verify(lease),
                    2 => UserCall::Hold(lease),
                    _ => UserCall::Release(lease),
                };
                self.call_about(client, user, lease, call);
            }
        }
    }

    /// Calls about a lease.
    fn call_about(&mut self, client: usize, user: usize, lease: LeaseId, call: UserCall) {
        let life = self.clients[client].life;
        let held = self.watch.beliefs.iter().filter(|belief| (belief.life, belief.lease) == (life, lease));
        let parts: Vec<Wanted> = held.map(|belief| belief.part).collect();
        self.call(client, user, &parts, call);
    }

    /// Its lease is to end soon, or is not renewed any more.
    fn ends_soon(&mut self, client: usize, user: usize, lease: LeaseId) {
        if self.world.rng.chance(700_000) {
            let ttl = Duration::from_millis(self.world.rng.spread((50, 3_000)));
            return self.call_about(client, user, lease, UserCall::Shorten(lease, ttl));
        }
        let after = self.world.rng.range(self.mix.hold);
        self.next_step(client, user, after);
        self.watch.fixed(self.clients[client].life, lease, None);
        self.tell_engine(client, Input::StopRenewing { lease });
    }

    /// Some names in any order, the first one given.
    fn parts(&mut self, first: usize) -> Vec<Wanted> {
        let mut parts = vec![self.part(first, Mode::Exclusive)];
        for _ in 0..self.world.rng.below(4) {
            let name = self.world.rng.below(self.mix.names as u64) as usize;
            if !parts.iter().any(|part| part.name == name) {
                parts.push(self.part(name, Mode::Exclusive));
            }
        }
        parts
    }

    /// A name as its kind of lock. On a single server, there are readers and semaphores as well.
    fn part(&mut self, name: usize, mode: Mode) -> Wanted {
        let limit = self.mix.limits[name];
        if limit > 0 {
            let permits = 1 + self.world.rng.below(u64::from(limit)) as u32;
            return Wanted { kind: Kind::Semaphore { permits, limit }, ..Wanted::exclusive(name) };
        }
        let shares = self.mix.is_single() && self.world.rng.chance(self.mix.readers);
        Wanted { mode: if shares { Mode::Shared } else { mode }, ..Wanted::exclusive(name) }
    }

    /// The first user of a client wants all names, and each of the others always the same one.
    fn wants_for_ever(&mut self, client: usize, user: usize) {
        let options = AcquireOptions { wait: Wait::Forever, ttl: Duration::from_secs(5), ..AcquireOptions::default() };
        if user == 0 {
            let parts: Vec<Wanted> = (0..self.mix.names).map(|name| self.part(name, Mode::Exclusive)).collect();
            return self.call(client, user, &parts, UserCall::AcquireAll(options));
        }
        let part = self.part((user - 1) % self.mix.names, Mode::Exclusive);
        self.call(client, user, &[part], UserCall::Acquire(AcquireOptions { kind: part.kind, ..options }));
    }

    /// Moves the end of its lease, as a driver does that renews only while a caller is present.
    fn keep(&mut self, client: usize, user: usize, lease: LeaseId) {
        // What is due at this very moment happens first.
        self.tell_engine(client, Input::Wake);
        let until = Duration::from_millis(self.world.rng.spread((1, 8_000)));
        let after = self.world.rng.range(self.mix.hold);
        let it = &self.clients[client];
        let until = it.clock.instant(self.world.now) + until;
        let valid_until = it.engine.as_ref().and_then(|engine| engine.valid_until(lease));
        self.watch.kept(it.life, lease, self.world.now, (until, valid_until));
        self.note(client, format_args!("u{user} keeps {lease:?} until {until:?}"));
        self.next_step(client, user, after);
        self.tell_engine(client, Input::Keep { lease, until });
    }

    fn options(&mut self) -> AcquireOptions {
        let ttl = Duration::from_millis(self.world.rng.range(self.mix.ttl_ms));
        let wait = match self.world.rng.below(4) {
            0 => Wait::No,
            1 => Wait::Forever,
            _ => Wait::For(Duration::from_millis(self.world.rng.spread((1, 20_000)))),
        };
        let renew = !self.world.rng.chance(150_000);
        let max_hold =
            (renew && self.world.rng.chance(50_000)).then(|| Duration::from_millis(self.world.rng.spread((10, 5_000))));
        let shared = self.mix.shared > 0 && self.world.rng.chance(self.mix.shared);
        let mode = if shared { Mode::Shared } else { Mode::Exclusive };
        AcquireOptions { mode, ttl, wait, renew, max_hold, ..AcquireOptions::default() }
    }

    pub(crate) fn call(&mut self, client: usize, user: usize, parts: &[Wanted], call: UserCall) {
        let at = self.clients[client].clock.instant(self.world.now);
        let it = &mut self.clients[client];
        let ends = it.ends(call, parts.len(), at, self.servers.len());
        it.ops.push(Op { user, parts: parts.to_vec(), call, began: self.world.now, ends, ended: false });
        if matches!(call, UserCall::AcquireAll(_)) {
            it.turns = 0;
        }
        let op = OpId(it.ops.len() as u64);
        it.users[user].doing = Doing::Calling(op);
        it.users[user].step += 1;
        it.pace.1 = it.pace.1.saturating_sub(A_CALL * (self.servers.len() * parts.len()) as u64);
        let names: Vec<usize> = parts.iter().map(|part| part.name).collect();
        self.note(client, format_args!("u{user} op {} {call:?} of {names:?}", op.0));
        match call {
            UserCall::Release(lease) => self.release_begins(client, lease),
            UserCall::Extend(lease, _) | UserCall::Shorten(lease, _) => {
                self.watch.lifts_its_end(self.clients[client].life, lease)
            }
            _ => {}
        }
        let texts: Vec<String> = names.into_iter().map(text).collect();
        let text = texts.first().map(String::as_str).unwrap_or_default();
        let part = |(name, part): (_, &Wanted)| Part { name, kind: part.kind, mode: part.mode };
        let parts: Vec<Part<'_>> = texts.iter().map(String::as_str).zip(parts).map(part).collect();
        self.tell_engine(
            client,
            match call {
                UserCall::Acquire(ref options) => Input::Acquire { op, name: text, options },
                UserCall::AcquireAll(ref options) => {
                    Input::AcquireAll { op, parts: &parts, options, one_script: false }
                }
                UserCall::Release(lease) => Input::Release { op, lease },
                UserCall::Extend(lease, ttl) => Input::Extend { op, lease, ttl },
                UserCall::Shorten(lease, ttl) => Input::Shorten { op, lease, ttl },
                UserCall::Verify(lease) => Input::Verify { op, lease },
                UserCall::Hold(lease) => Input::Hold { op, lease },
                UserCall::Inspect => Input::Inspect { op, name: text },
                UserCall::Drain(grace) => Input::Drain { op, grace },
                UserCall::Close => Input::Close { op },
            },
        );
        self.watch.release_called();
        // A refusal comes at once, and changes nothing.
        let it = &self.clients[client];
        if let (UserCall::Shorten(lease, ttl), false) = (call, it.ops[op.0 as usize - 1].ended) {
            self.watch.fixed(it.life, lease, Some(at + ttl));
        }
    }

    /// A user that does nothing lets the others finish, and then closes the client.
    pub(crate) fn drain(&mut self, client: usize) {
        let idle = self.clients[client].users.iter().position(|user| user.doing == Doing::Nothing);
        let Some(user) = idle.filter(|_| self.clients[client].is_awake()) else { return };
        // What is due at this very moment happens first.
        self.tell_engine(client, Input::Wake);
        self.clients[client].drains = true;
        // Not drawn, so that the seeds stay as they were.
        let grace = Duration::from_micros(self.world.now % 5_000_000);
        self.call(client, user, &[Wanted::exclusive(0)], UserCall::Drain(grace));
        let acquires = |op: &&Op| matches!(op.call, UserCall::Acquire(_) | UserCall::AcquireAll(_)) && !op.ended;
        if let Some(op) = self.clients[client].ops.iter().find(acquires) {
            self.watch.check(broken("drains", format!("c{client} drains, and {:?} still waits", op.call)));
        }
    }

    /// From now on, its user does not rely on it.
    fn release_begins(&mut self, client: usize, lease: LeaseId) {
        let life = self.clients[client].life;
        let it = &mut self.clients[client];
        let holds = it.ops.iter().filter(|op| op.call == UserCall::Hold(lease) && op.ended).count();
        let released = it.ops.iter().filter(|op| op.call == UserCall::Release(lease)).count();
        if released > holds {
            self.watch.release_begins(life, lease);
        }
    }

    pub(crate) fn completed(&mut self, client: usize, op: OpId, result: Result<Outcome, Error>) {
        self.note(client, format_args!("op {} ends: {result:?}", op.0));
        let life = self.clients[client].life;
        let Some(known) = self.clients[client].ops.get_mut(op.0 as usize - 1).filter(|known| !known.ended) else {
            return self.watch.check(broken("ends-once", format!("c{client} op {}", op.0)));
        };
        known.ended = true;
        let Op { user, call, .. } = *known;
        let mut doing = Doing::Nothing;
        match (call, &result) {
            (UserCall::Acquire(options), Ok(Outcome::Acquired(grant))) => {
                self.granted(client, op, (grant.lease, grant.valid_until), &options, &[grant.fence]);
                doing = Doing::Holding(grant.lease);
            }
            (UserCall::AcquireAll(options), Ok(Outcome::AcquiredAll { lease, fences, valid_until })) => {
                self.granted(client, op, (*lease, *valid_until), &options, fences);
                doing = Doing::Holding(*lease);
            }
            // A name was lost before the try had all of them.
            (UserCall::AcquireAll(options), Err(Error::Lost(_))) if options.wait == Wait::No => {}
            (
                UserCall::Acquire(_) | UserCall::AcquireAll(_),
                Err(Error::Busy { .. } | Error::Unreachable { .. } | Error::Cancelled | Error::Closed),
            ) => {}
            // A full server says so, and the error is that of a majority.
            (UserCall::Acquire(_) | UserCall::AcquireAll(_), Err(Error::Server(text))) if text.contains("OOM") => {}
            (UserCall::Release(lease), Ok(Outcome::Released(ReleaseOutcome::StillHeld))) => {
                doing = Doing::Holding(lease)
            }
            (UserCall::Release(_), _) | (UserCall::Inspect | UserCall::Close, _) => {}
            (UserCall::Drain(_), Ok(Outcome::Drained)) => {
                doing = Doing::Drained;
                self.clients[client].drains = false;
            }
            (
                UserCall::Extend(lease, _)
                | UserCall::Shorten(lease, _)
                | UserCall::Verify(lease)
                | UserCall::Hold(lease),
                _,
            ) => {
                if self.watch.beliefs.iter().any(|belief| (belief.life, belief.lease) == (life, lease)) {
                    doing = Doing::Holding(lease);
                }
            }
            (call, result) => {
                let detail = format!("op {} {call:?} ends with {result:?}", op.0);
                self.watch.check(broken("answer", detail));
            }
        }
        if call == UserCall::Close {
            self.closed(client);
        }
        self.clients[client].users[user].doing = doing;
        let pause = match doing {
            // Longer than its client may take to learn of a loss.
            Doing::Holding(_)
                if self.mix.manner != Manner::MultiBusy && self.mix.is_single() && self.world.rng.chance(5_000) =>
            {
                (self.mix.told_within(), self.mix.told_within() + 2_000_000)
            }
            Doing::Holding(_) => self.mix.hold,
            _ => self.mix.think,
        };
        let pause = self.world.rng.range(pause);
        self.next_step(client, user, pause);
    }

    /// Each name of a lease is watched on its own.
    fn granted(
        &mut self,
        client: usize,
        op: OpId,
        (lease, valid_until): (LeaseId, Instant),
        options: &AcquireOptions,
        fences: &[u64],
    ) {
        let (now, it) = (self.world.now, &self.clients[client]);
        let (life, at, until) = (it.life, it.clock.instant(now), it.clock.when(valid_until.as_micros()));
        if it.drains {
            self.watch.check(broken("drains", format!("op {} of c{client} was granted", op.0)));
        }
        let Op { parts, began, .. } = it.ops[op.0 as usize - 1].clone();
        self.counts.grants += 1;
        if valid_until <= at {
            self.watch.check(broken("answer", format!("op {} is granted what is over", op.0)));
        }
        if parts.len() != fences.len() {
            self.watch.check(broken("multi-all", format!("op {} has the fences {fences:?} for {parts:?}", op.0)));
        }
        // The servers granted a name when it was sent, or later. The first of several may have been renewed since, and a
        // reader may share the token, and so the TTL, of another one.
        let sent = until.saturating_sub(options.ttl.as_micros() as u64);
        let alone = parts.len() == 1 && options.mode == Mode::Exclusive;
        let since = match alone {
            // A client that has not been notified of a lost key yet may hand its lease over locally.
            _ if self.mix.is_single() => began.saturating_sub(self.mix.told_within()),
            true => now.min(sent),
            false => began,
        };
        if options.mode == Mode::Shared && options.max_hold.is_none() && !self.mix.is_single() {
            self.check_reader(client, parts[0].name, began);
        }
        let ends = options.max_hold.map(|most| at + most);
        for (part, fence) in parts.into_iter().zip(fences) {
            let (ttl, renew, wanted_since) = (options.ttl.as_micros() as u64, options.renew, now);
            let belief = Belief { life, lease, part, since, until, renew, ends, shortened: None, ttl, wanted_since };
            self.watch.granted(belief, *fence, now);
        }
    }

    pub(crate) fn lost(&mut self, client: usize, lease: LeaseId, reason: LossReason) {
        self.note(client, format_args!("loses {lease:?}: {reason:?}"));
        self.counts.losses += 1;
        let life = self.clients[client].life;
        let at = self.clients[client].clock.instant(self.world.now);
        self.watch.lost(life, lease, reason, (self.world.now, at));
        let users = self.clients[client].users.iter();
        if let Some(user) = users.enumerate().find_map(|(user, it)| (it.doing == Doing::Holding(lease)).then_some(user))
        {
            self.clients[client].users[user].doing = Doing::Nothing;
            let pause = self.world.rng.range(self.mix.think);
            self.next_step(client, user, pause);
        }
    }

    pub(crate) fn next_step(&mut self, client: usize, user: usize, after: u64) {
        let it = &mut self.clients[client];
        it.users[user].step += 1;
        let (life, number) = (it.life, it.users[user].step);
        self.world.after(after, Event::Step { client, life, user, number });
    }
}

/// A lock's name. The even ones are in the same slot of a cluster.
pub(crate) fn text(name: usize) -> String {
    if name.is_multiple_of(2) { format!("{{lock}}-{name}") } else { format!("lock-{name}") }
}
