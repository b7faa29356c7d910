//! Tells the watchers what the engines report to users.

use std::time::Duration;

use leasehold_core::{Error, Grant, Instant, LeaseId, LossReason, Mode, OpId, Outcome, ReleaseOutcome, Wait};
use leasehold_harness::Micros;

use crate::client::{Op, UserCall};
use crate::faults::Fault;
use crate::invariants::fences::User;
use crate::invariants::hand_overs::Limit;
use crate::invariants::leases::Held;
use crate::invariants::{broken, calls, losses, waiters};
use crate::kinds::LockKind;
use crate::network::LEAST_WINDOW;
use crate::world::ClusterRun;

impl ClusterRun<'_> {
    /// A call of a user has ended.
    pub(crate) fn completed(&mut self, place: usize, now: Instant, op: OpId, result: &Result<Outcome, Error>) {
        let client = &mut self.clients[place];
        let number = op.0 as u32;
        if client.engine.is_none() {
            return;
        }
        let Some(open) = client.ops.get_mut(number as usize).filter(|open| !open.ended) else {
            return self
                .watch
                .check(broken("ends-once", format!("{op:?} ended again, or was never asked: {result:?}")));
        };
        open.ended = true;
        let open = *open;
        client.open.retain(|other| *other != number);
        let converts = |op: &u32| client.ops[*op as usize].converts(open.name);
        // The next conversion, if there is one, begins after the answer to this one.
        let is_refused = matches!(result, Err(leasehold_core::Error::Conflict(_)));
        if open.converts(open.name) && (is_refused || !client.open.iter().any(converts)) {
            self.watch.commands[place][open.name].converted();
        }
        if !(matches!(result, Err(Error::WrongKind(_))) && self.may_be_another_kind(&open)) {
            self.watch.check(calls::fits(&open, result, now, self.mix.kinds[open.name] != LockKind::Lock));
        }
        if matches!(open.call, UserCall::Acquire(_)) {
            let (life, now) = (self.clients[place].life, self.world.now);
            let wanting = &mut self.watch.locks[open.name].wanting;
            let since = self.mix.oldest_record().map(|age| now.saturating_sub(age));
            let verdict = waiters::refused(wanting, since, &open, result);
            wanting.ends(life, open.user, now);
            self.watch.check(verdict);
        }
        let waits = matches!(open.call, UserCall::Acquire(options) if options.wait != Wait::No);
        // At first the server doesn't know the scripts. Then a call takes up to four round trips.
        let scripts_are_loaded = self.world.now > 500_000 && self.clients[place].lacked_script < open.since;
        if self.mix.is_crowded() && scripts_are_loaded && !waits && matches!(result, Err(Error::Unreachable { .. })) {
            self.watch
                .check(broken("queue-silence", format!("{open:?} ended with {result:?}, and every server answers")));
        }
        if let (UserCall::Acquire(_), Err(_)) = (open.call, result) {
            self.watch.holds[place][open.name].gave_up(now);
        }
        self.check_granted(place, now, &open, result);
        if let Ok(outcome) = result {
            self.check_result(place, op, outcome);
        }
        match (open.call, result) {
            (UserCall::Acquire(_), Ok(Outcome::Acquired(grant))) => self.acquired(place, now, number, grant),
            (UserCall::Adopt(options, _), Ok(Outcome::Acquired(grant))) => {
                self.adopted(place, now, number, &options, grant);
            }
            (UserCall::Export, Ok(Outcome::Exported(token))) => self.passed_on(place, open.name, open.lease, *token),
            (UserCall::Detach(_), Ok(Outcome::Exported(token))) => self.detached(place, open.name, *token),
            (UserCall::Convert(_), Ok(Outcome::Converted(grant))) => self.converted(place, open.name, grant),
            (UserCall::Hold, Ok(Outcome::Held(holds))) => self.held_again(place, open.lease, *holds),
            (UserCall::Verify, Ok(Outcome::Verified(false))) => {
                self.watch.doomed.extend(open.lease.map(|lease| (lease, "loss-untold")));
            }
            (UserCall::Release | UserCall::Store(_), Ok(Outcome::Released(outcome))) => {
                self.released(place, open.lease, *outcome);
            }
            (UserCall::Acquire(_), Ok(Outcome::Stored { .. })) => self.watch.locks[open.name].progress.granted(),
            // A caller that arrives at this very moment did not wait when the lock was released.
            (UserCall::Acquire(_), Err(_)) if self.clients[place].waits_for(open.name).all(|op| op.since == now) => {
                self.watch.polling[place][open.name].nobody_waits();
            }
            _ => {}
        }
        if let (UserCall::Extend(_) | UserCall::Hold | UserCall::Convert(_), Ok(_), Some(lease)) =
            (open.call, result, open.lease)
            && self.watch.doomed.contains(&(lease, "loss-late"))
        {
            let detail = format!("{open:?} ended with {result:?} on a lease that was over");
            self.watch.check(broken("loss-late", detail));
        }
        self.user_answered(place, number, result);
    }

    /// A client that drains grants no further lease. It has its whole time for that.
    fn check_granted(&mut self, place: usize, now: Instant, open: &Op, result: &Result<Outcome, Error>) {
        let client = &mut self.clients[place];
        match result {
            Ok(Outcome::Acquired(grant))
                if client.drains && self.watch.leases.find(client.life, grant.lease).is_none() =>
            {
                self.watch.check(broken("drains", format!("{open:?} was granted at {now:?}")));
            }
            Ok(Outcome::Drained) => client.drained = open.ends.map(|ends| ends - calls::SLACK),
            _ => {}
        }
    }

    fn acquired(&mut self, place: usize, now: Instant, number: u32, grant: &Grant) {
        let client = &mut self.clients[place];
        let open = client.ops[number as usize];
        let UserCall::Acquire(options) = open.call else { return };
        let (name, life) = (open.name, client.life);
        if let Some(held) = self.watch.leases.find(life, grant.lease) {
            return self.held_by_owner(held, &options, grant);
        }
        let trouble = client.trouble_until.max(self.servers.list[self.servers.home(name)].last_trouble());
        // A lane whose command was lost asks again after a response timeout at the latest.
        let response = client.config.response_timeout.as_micros() as Micros;
        let calm = trouble + response + 1_000_000 < self.world.now;
        let in_order = match self.mix.kinds[name] {
            LockKind::Semaphore if grant.local && calm => calls::in_order_of_weight(client, number, now),
            LockKind::Semaphore => Ok(()),
            _ => calls::in_order(client, number, now),
        };
        client.granted[name] = 0;
        self.watch.locks[name].progress.granted();
        self.counts.grants += 1;
        if self.mix.kinds[name] == LockKind::Semaphore {
            let verdict = self.acquired_permits(place, now, open.name, &options, grant);
            return self.watch.check(verdict.and(in_order));
        }
        let hold = &mut self.watch.holds[place][name];
        let joins = grant.mode == Mode::Shared && (self.watch.leases.has(life, name) || hold.is_left(now));
        // A reader that waits with a separate token may be granted beside a lease that was downgraded in the meantime.
        let learnt = self.watch.commands[place][name].is_granted();
        let budget = if grant.local && hold.began_with(learnt) {
            self.counts.local += 1;
            let limit = Limit::of(&client.config);
            // After a sleep, a client handles old timers first, and only then what arrived in the meantime.
            if hold.is_untold() && !client.config.mixed_fleet && client.trouble_until < self.world.now {
                self.watch.untold.push(name);
            }
            hold.handed_over(now, limit, client.config.mixed_fleet && !joins)
        } else {
            hold.begin(now, learnt, self.watch.locks[name].lost_at);
            hold.orphan |= hold.token.is_some_and(|token| self.watch.forced.contains(&token));
            self.watch.commands[place][name].begins(now);
            // The client's other readers of this lock go on under the token that was granted now.
            let others = self.watch.leases.held.iter_mut().filter(|held| (held.life, held.name) == (life, name));
            let adopted = &self.watch.adopted;
            let others = others.filter(|held| held.token.is_none_or(|token| !adopted.contains_key(&token)));
            others.for_each(|held| held.token = hold.token);
            Ok(())
        };
        self.watch.holds[place][name].used(options.linger);
        let hold = &mut self.watch.holds[place][name];
        let granted = Held::granted(client, place, name, (self.world.now, now), &options, grant);
        let held = Held { orphan: hold.orphan, token: hold.token, ..granted };
        if let Some(token) = held.token.filter(|token| self.watch.revoked.contains(token)) {
            self.watch.check(broken("revoked", format!("{token:?} was taken by force, but is held: {held:?}")));
        }
        let server_us = self.servers.time(self.servers.home(name), self.world.now);
        let hold = &mut self.watch.holds[place][name];
        let user = User::of(hold.orphan, self.watch.locks[name].fences.is_victim(hold.token));
        let fence = self.watch.locks[name].fences.used(grant.mode, grant.fence, user, server_us);
        let fence = fence.and(self.watch.locks[name].blocks.uses(life, grant.fence));
        let exclusive = self.watch.leases.grant(self.world.now, held);
        self.watch.check(exclusive.and(fence).and(in_order).and(budget));
    }

    fn converted(&mut self, place: usize, name: usize, grant: &Grant) {
        let life = self.clients[place].life;
        let Some(held) = self.watch.leases.find(life, grant.lease) else {
            return; // It was given back meanwhile.
        };
        let (before, orphan) = (self.watch.leases.held[held].fence, self.watch.leases.held[held].orphan);
        self.watch.holds[place][name].converted();
        let token = self.watch.holds[place][name].token;
        self.watch.commands[place][name].note_waiting(self.clients[place].clock.instant(self.world.now));
        let exclusive = self.watch.leases.changed(self.world.now, held, |held| {
            (held.mode, held.fence, held.token) = (grant.mode, grant.fence, token.or(held.token));
        });
        self.watch.check(exclusive);
        if grant.fence != before {
            let server_us = self.servers.time(self.servers.home(name), self.world.now);
            let user = User::of(orphan, self.watch.locks[name].fences.is_victim(token));
            let verdict = self.watch.locks[name].fences.used(grant.mode, grant.fence, user, server_us);
            self.watch.check(verdict.and(self.watch.locks[name].blocks.uses(life, grant.fence)));
        }
    }

    fn held_again(&mut self, place: usize, lease: Option<LeaseId>, holds: u32) {
        let life = self.clients[place].life;
        let Some(held) = lease.and_then(|lease| self.watch.leases.find(life, lease)) else {
            return self.watch.check(broken("answer", format!("held {holds} times, but it is no lease of c{place}")));
        };
        let held = &mut self.watch.leases.held[held];
        held.holds += 1;
        if held.holds != holds {
            let verdict = broken("answer", format!("held {holds} times by the engine, {} by its users", held.holds));
            self.watch.check(verdict);
        }
    }

    /// A lease that counts as held was not released, or only one hold of it.
    fn released(&mut self, place: usize, lease: Option<LeaseId>, outcome: ReleaseOutcome) {
        let life = self.clients[place].life;
        let held = lease.and_then(|lease| self.watch.leases.find(life, lease));
        if held.is_some() != (outcome == ReleaseOutcome::StillHeld) {
            let verdict = broken("answer", format!("{outcome:?} for {held:?}"));
            self.watch.check(verdict);
        }
    }

    /// A timer that is late by no more than the margin still reports a loss before the lease ends on the server.
    fn check_margin(&mut self, place: usize, now: Instant, held: &Held) {
        let client = &self.clients[place];
        let granted = held.ttl.min(client.config.claim_window).min(held.left);
        let granted = held.ends.map_or(granted, |ends| granted.min(ends.since(held.since_local)));
        let margin = (granted / 20).min(Duration::from_millis(50));
        let (Some(token), Mode::Exclusive, LockKind::Lock) = (held.token, held.mode, self.mix.kinds[held.name]) else {
            return;
        };
        let converts = client.open.iter().any(|op| client.ops[*op as usize].converts(held.name));
        // The TTL of a lease whose end has moved may be any.
        let moved = held.kept.is_some();
        if held.orphan || !held.renew || moved || converts || now.since(held.valid_until) > margin {
            return;
        }
        let server = self.servers.home(held.name);
        let server_us = self.servers.time(server, self.world.now);
        let there = self.watch.keys.holders(&self.servers.models[server], server_us, held.name);
        if there.iter().all(|(holder, _)| *holder != token) {
            let detail = format!("told at {now:?}, when the server had ended it: {held:?}");
            self.watch.check(broken("margin", detail));
        }
    }

    /// A lease was lost.
    pub(crate) fn lost(&mut self, place: usize, now: Instant, lease: LeaseId, reason: LossReason) {
        let client = &self.clients[place];
        let Some(held) = self.watch.leases.find(client.life, lease) else {
            let detail = format!("{lease:?} of c{place} was lost ({reason}) after it had ended");
            return self.watch.check(broken("loss-twice", detail));
        };
        self.counts.losses += 1;
        let lost = &self.watch.leases.held[held];
        match (self.mix.kinds[lost.name], lost.token) {
            (_, token) if self.is_adopted(token) => {}
            (LockKind::Semaphore, Some(token)) => self.watch.semaphores[place][lost.name].hold(token).lost(),
            _ => self.watch.holds[place][lost.name].lost(),
        }
        let held = self.watch.leases.end(self.world.now, held);
        let home = self.servers.home(held.name);
        let many_keys = held.mode == Mode::Shared || self.mix.kinds[held.name] == LockKind::Semaphore;
        let mut since = client.trouble_until.max(self.servers.list[home].trouble_for_renewals(many_keys));
        // While so many replies are outstanding, no renewal can leave.
        if client.under_way() >= LEAST_WINDOW {
            since = self.world.now;
        }
        // By a clock that may be slow.
        let patience = client.config.response_timeout.as_micros() as Micros * 101 / 100;
        let calm = losses::Calm { since, patience };
        // A reader whose record was evicted is lost early. So is a lease if an answer from before a failover seems to be newer
        // than one from the slower clock.
        let evicted = self.watch.locks[held.name].readers_lost;
        let slower = self.servers.list[home].last_until(Fault::SlowerClock);
        let turned_back = slower > 0 && self.world.now < slower + patience;
        if !((evicted || turned_back) && matches!(reason, LossReason::Gone | LossReason::Taken)) {
            self.watch.check(losses::told(&held, reason, self.world.now, now, calm));
        }
        if reason == LossReason::Expired {
            self.check_margin(place, now, &held);
        }
        self.user_lost(place, lease);
    }
}
