//! Tells the watchers what happens: on the servers, and to the users.

use leasehold_core::{Error, Grant, Instant, LeaseId, LossReason, Mode, OpId, Outcome, ReleaseOutcome};
use leasehold_model::Executed;

use crate::client::Wish;
use crate::clock::Micros;
use crate::faults::Fault;
use crate::invariants::budget::{ServerGrant, Tenure};
use crate::invariants::leases::Held;
use crate::invariants::{broken, calls, losses};
use crate::kinds::Sort;
use crate::wire::{Answer, Call, How, Message, Status, Token};
use crate::world::World;

/// Something that a script granted.
struct Granted {
    token: Token,
    fence: u64,
    block: u64,
    ms: u64,
    how: Granting,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Granting {
    /// To the caller, who had nothing.
    Entered,
    /// To the caller, who had it already.
    Again,
    /// To the caller, in another mode.
    Converted,
    /// To a waiter.
    Message,
}

impl World<'_> {
    /// A server is about to run a script.
    pub(crate) fn observe_before(&mut self, server: usize, name: usize) {
        if self.mix.sorts[name] == Sort::Semaphore {
            let server_us = self.servers.time(server, self.now);
            if !self.watch.keys.knows_permits(&self.servers.models[server], server_us, name) {
                self.watch.locks[name].permits.forgets();
            }
        }
    }

    /// A server ran a script.
    pub(crate) fn observe(&mut self, server: usize, name: usize, call: &Call, executed: &Executed) {
        let server_us = self.servers.time(server, self.now);
        let reply = match &executed.reply {
            Ok(reply) => reply,
            Err(text) if text.starts_with("NOSCRIPT") => return,
            // What gives back or keeps is never refused for lack of memory.
            Err(text) if text.starts_with("OOM") && !matches!(call, Call::Release { .. } | Call::Renew { .. }) => {
                return;
            }
            Err(text) if text.contains("WRONGTYPE") && self.holds_another_kind(name, call) => return,
            Err(text) => return self.watch.check(broken("script-error", format!("{call:?}: {text}"))),
        };
        let Some(answer) = Answer::read(reply) else {
            if *call != Call::Inspect {
                self.watch.check(broken("words", format!("{call:?} was answered {reply:?}")));
            }
            return;
        };
        self.observe_kind(name, call, &answer, executed);
        self.observe_call(server, name, call, &answer, server_us);
        self.observe_grants(name, call, &answer, executed, server_us);
        self.observe_end(server, name, call, &answer, server_us);
        self.observe_key(server, name, &answer, server_us);
        self.observe_backing(server, name, server_us);
    }

    /// The lock's key lasts as long as what was just answered.
    fn observe_key(&mut self, server: usize, name: usize, answer: &Answer, server_us: u64) {
        let answered = answer.grants() || answer.status == Status::Renewed;
        let promised = if answered { server_us / 1_000 + answer.ms.max(0) as u64 } else { 0 };
        let verdict = self.watch.keys.lasts(&self.servers.models[server], server_us, name, promised);
        self.watch.check(verdict);
    }

    /// What a script does before it grants.
    fn observe_call(&mut self, server: usize, name: usize, call: &Call, answer: &Answer, server_us: u64) {
        let now_ms = server_us / 1_000;
        let lock = &mut self.watch.locks[name];
        lock.queue.begins(now_ms);
        match *call {
            Call::Acquire { token, how, claim_ms, .. } if how != How::Refill => match answer.status {
                Status::Entered | Status::Waiting | Status::Busy => {
                    if let Call::Acquire { permits: Some(permits), .. } = *call {
                        lock.permits.asks(token, permits, !lock.queue.has(token));
                    }
                    lock.queue.calls(token, now_ms, claim_ms);
                }
                _ => {}
            },
            Call::Release { token, .. } => {
                lock.queue.leaves(token);
                lock.permits.released(token);
            }
            // A straggler may have brought the old token into the queue, and a bury takes it out.
            Call::Convert { old, bury: true, .. } => {
                let waiting = self.watch.keys.waiting(&self.servers.models[server], server_us, name);
                let gone = Some(old).filter(|old| !waiting.contains(old));
                gone.into_iter().for_each(|old| lock.queue.leaves(old));
            }
            Call::Renew { token, .. } if answer.status == Status::Renewed => {
                let verdict = lock.terms.renewed(token, now_ms, answer.ms.try_into().unwrap_or(0));
                lock.permits.renewed(token, now_ms, answer.ms.try_into().unwrap_or(0));
                let lost_at = lock.lost_at;
                if !self.grants_went_unseen(name) {
                    self.watch.check(verdict);
                }
                self.observe_orphan(name, token, lost_at);
            }
            _ => {}
        }
        if self.servers.list[server].suffers(Fault::PublishRefused, self.now) {
            // Whoever was granted is seen by nothing but its absence.
            let mut waiting = self.watch.keys.waiting(&self.servers.models[server], server_us, name);
            if let Call::Acquire { token, .. } = *call {
                waiting.push(token);
            }
            self.watch.locks[name].queue.keep(&waiting);
        }
    }

    /// Who held when the data was lost is told so by its next renewal.
    fn observe_orphan(&mut self, name: usize, token: Token, lost_at: Option<Micros>) {
        let orphan = |tenure: &&Tenure| tenure.orphan && tenure.token == Some(token);
        let tenure = {
            let lanes = self.watch.lanes.iter().flat_map(|lanes| lanes[name].each());
            self.watch.tenures.iter().map(|tenures| &tenures[name]).chain(lanes).find(orphan).copied()
        };
        let Some(tenure) = tenure else { return };
        // Unless a late command of it has taken the lock anew.
        let anew = tenure.last_granted(token).is_some_and(|grant| lost_at.is_none_or(|lost| grant.at >= lost));
        if !anew {
            let detail = format!("{tenure:?} was renewed after the server had lost it");
            self.watch.check(broken("orphan-renewed", detail));
        }
    }

    /// What a script does after it granted.
    fn observe_end(&mut self, server: usize, name: usize, call: &Call, answer: &Answer, server_us: u64) {
        let now_ms = server_us / 1_000;
        let lock = &mut self.watch.locks[name];
        match *call {
            Call::Acquire { token, mode, claim_ms, how: How::Wait, .. } if answer.status == Status::Waiting => {
                // Of those who want permits several may be granted at once.
                let mode = if self.mix.sorts[name] == Sort::Semaphore { Mode::Shared } else { mode };
                lock.queue.waits(token, mode, now_ms, claim_ms);
                let verdict = lock.tokens.seen(self.now, token, "waits");
                self.watch.check(verdict);
            }
            Call::Release { bury: true, .. } => {
                let verdict = self.watch.keys.after_bury(&self.servers.models[server], server_us, name);
                self.watch.check(verdict);
            }
            Call::Renew { .. } | Call::Inspect | Call::Acquire { how: How::Refill, .. } => return,
            _ => {}
        }
        let lock = &mut self.watch.locks[name];
        if !lock.queue.is_empty() && !self.servers.list[server].suffers(Fault::PublishRefused, self.now) {
            let value = match self.mix.sorts[name] {
                Sort::Semaphore => {
                    let members = self.watch.keys.holders(&self.servers.models[server], server_us, name);
                    let lives =
                        |(token, until): (Token, Option<u64>)| until.is_some_and(|at| at > now_ms).then_some(token);
                    let members: Vec<Token> = members.into_iter().filter_map(lives).collect();
                    let first = lock.queue.first_alive(now_ms);
                    let free = first.is_some_and(|first| lock.permits.suffice(first, &members));
                    (!free).then(|| "full".to_string())
                }
                _ => self.servers.models[server].get(server_us, &self.servers.names[name]),
            };
            let verdict = lock.queue.served(now_ms, value.as_deref());
            self.watch.check(verdict);
        }
    }

    /// Whatever a script granted, in the order in which it drew the fences.
    fn observe_grants(&mut self, name: usize, call: &Call, answer: &Answer, executed: &Executed, server_us: u64) {
        let mut grants = Vec::new();
        if answer.grants()
            && let Call::Acquire { token, .. } | Call::Convert { new: token, .. } = *call
        {
            let how = match *call {
                Call::Convert { .. } => Granting::Converted,
                _ if answer.status == Status::Entered => Granting::Entered,
                _ => Granting::Again,
            };
            let ms = answer.ms.try_into().unwrap_or(0);
            grants.push(Granted { token, fence: answer.value, block: answer.block, ms, how });
        }
        for (_, payload) in &executed.published {
            if let Some(Message::Grant { token, fence, block, ms, .. }) = Message::read(payload) {
                grants.push(Granted { token, fence, block, ms, how: Granting::Message });
            }
        }
        grants.sort_by_key(|grant| grant.fence);
        for grant in grants {
            self.observe_grant(name, &grant, server_us);
        }
    }

    fn observe_grant(&mut self, name: usize, grant: &Granted, server_us: u64) {
        let now_ms = server_us / 1_000;
        let blind = self.grants_went_unseen(name);
        let lock = &mut self.watch.locks[name];
        let drawn = lock.fences.drawn(grant.fence, grant.block, server_us);
        let back = lock.tokens.seen(self.now, grant.token, "is granted");
        let turn = match grant.how {
            Granting::Entered => lock.queue.granted(grant.token, now_ms, None),
            Granting::Message => lock.queue.granted(grant.token, now_ms, Some(grant.ms)),
            Granting::Again if !blind => lock.terms.renewed(grant.token, now_ms, grant.ms),
            Granting::Again => Ok(()),
            Granting::Converted => Ok(()),
        };
        lock.terms.set(grant.token, now_ms, grant.ms);
        if self.mix.sorts[name] == Sort::Semaphore {
            let now = self.now;
            let believed = self.watch.leases.held.iter();
            let believed = believed.filter(|held| held.name == name && held.until > now && !held.orphan);
            let believed: Vec<&Held> = believed.collect();
            let again = grant.how == Granting::Again;
            let verdict = lock.permits.granted(grant.token, now_ms, grant.ms, again, &believed);
            self.watch.check(verdict);
        }
        self.watch.check(back.and(drawn).and(turn));
        let holder = self.clients.iter_mut().enumerate().find(|(_, client)| client.life == grant.token.life);
        let Some((place, client)) = holder else { return };
        let tenure = match self.mix.sorts[name] {
            Sort::Semaphore => self.watch.lanes[place][name].tenure(grant.token),
            _ => &mut self.watch.tenures[place][name],
        };
        let granted = ServerGrant { token: grant.token, at: self.now, server_us };
        match grant.how {
            Granting::Converted => tenure.last_converted = Some(granted),
            how => tenure.server_granted(granted, how != Granting::Again),
        }
        if matches!(grant.how, Granting::Entered | Granting::Message) {
            client.granted[name] = self.now + grant.ms * 1_000;
        }
    }

    /// Whether some grant's message was refused, so that nothing is known of it.
    fn grants_went_unseen(&self, name: usize) -> bool {
        self.servers.list[self.servers.home(name)].last_until(Fault::PublishRefused) > 0
    }

    /// A valid lease stands on the server as its holder's.
    pub(crate) fn observe_backing(&mut self, server: usize, name: usize, server_us: u64) {
        let now = self.now;
        let valid = |held: &&Held| held.name == name && held.until > now && !held.orphan;
        if !self.watch.leases.held.iter().any(|held| valid(&held)) {
            return;
        }
        let (model, sort) = (&self.servers.models[server], self.mix.sorts[name]);
        if sort != Sort::Lock {
            let there = self.watch.keys.holders(model, server_us, name);
            let mine = |held: &Held, token: Token| token.life == held.life && held.token.is_none_or(|own| own == token);
            let backed = |held: &&Held| there.iter().any(|(token, _)| mine(held, *token));
            if let Some(held) = self.watch.leases.held.iter().filter(valid).find(|held| !backed(held)) {
                let verdict = broken("unbacked", format!("the server has {there:?} for {held:?}"));
                self.watch.check(verdict);
            }
            return;
        }
        let value = model.get(server_us, &self.servers.names[name]);
        let holder = value.as_deref().and_then(|value| Token::read(value.as_bytes()));
        let shared = value.as_deref() == Some("shared");
        let backed = |held: &Held| {
            holder.is_some_and(|holder| holder.life == held.life) || (shared && held.mode == Mode::Shared)
        };
        if let Some(held) = self.watch.leases.held.iter().filter(valid).find(|held| !backed(held)) {
            let verdict = broken("unbacked", format!("the server has {value:?} for {held:?}"));
            self.watch.check(verdict);
        }
    }

    /// The server keeps a lease at least as long as its holder believes.
    pub(crate) fn observe_terms(&mut self, server: usize, name: usize, server_us: u64) {
        let Some(expires) = self.watch.keys.lock_expires(&self.servers.models[server], server_us, name) else { return };
        let now = self.now;
        let believed =
            self.watch.leases.held.iter().filter(|held| held.name == name && held.until > now && !held.orphan);
        let own_ends = self.watch.keys.holders(&self.servers.models[server], server_us, name);
        let ends = |held: &Held| {
            let own = own_ends.iter().find(|(token, _)| held.token == Some(*token)).and_then(|(_, until)| *until);
            own.map_or(expires, |until| until * 1_000)
        };
        let early = |held: &&Held| self.servers.time(server, held.until) > ends(held) + 2_000;
        if let Some(held) = believed.into_iter().find(early) {
            let verdict =
                broken("outlived", format!("the server's key ends at {expires}, now is {server_us}: {held:?}"));
            self.watch.check(verdict);
        }
    }

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
        if open.converts(open.name) && !client.open.iter().any(converts) {
            self.watch.asking[place][open.name].converted();
        }
        if !(matches!(result, Err(Error::WrongKind(_))) && self.may_be_another_kind(&open)) {
            self.watch.check(calls::fits(&open, result, now, self.mix.sorts[open.name] != Sort::Lock));
        }
        match (open.wish, result) {
            (Wish::Acquire(_), Ok(Outcome::Acquired(grant))) => self.acquired(place, now, number, grant),
            (Wish::Convert(_), Ok(Outcome::Converted(grant))) => self.converted(place, open.name, grant),
            (Wish::Hold, Ok(Outcome::Held(holds))) => self.held_again(place, open.lease, *holds),
            (Wish::Verify, Ok(Outcome::Verified(false))) => {
                self.watch.doomed.extend(open.lease.map(|lease| (lease, "loss-untold")));
            }
            (Wish::Release, Ok(Outcome::Released(outcome))) => self.released(place, open.lease, *outcome),
            _ => {}
        }
        if let (Wish::Extend(_) | Wish::Hold | Wish::Convert(_), Ok(_), Some(lease)) = (open.wish, result, open.lease)
            && self.watch.doomed.contains(&(lease, "loss-late"))
        {
            let detail = format!("{open:?} ended with {result:?} on a lease that was over");
            self.watch.check(broken("loss-late", detail));
        }
        self.user_answered(place, number, result);
    }

    fn acquired(&mut self, place: usize, now: Instant, number: u32, grant: &Grant) {
        let client = &mut self.clients[place];
        let open = client.ops[number as usize];
        let Wish::Acquire(options) = open.wish else { return };
        let (name, life) = (open.name, client.life);
        if let Some(held) = self.watch.leases.find(life, grant.lease) {
            return self.held_by_owner(held, &options, grant);
        }
        let trouble = client.trouble_until.max(self.servers.list[self.servers.home(name)].last_trouble());
        let calm = trouble + 1_000_000 < self.now;
        let in_order = match self.mix.sorts[name] {
            Sort::Semaphore if grant.local && calm => calls::in_order_of_weight(client, number, now),
            Sort::Semaphore => Ok(()),
            _ => calls::in_order(client, number, now),
        };
        client.granted[name] = 0;
        self.watch.locks[name].progress.granted();
        self.counts.grants += 1;
        if self.mix.sorts[name] == Sort::Semaphore {
            let verdict = self.acquired_permits(place, now, open.name, &options, grant);
            return self.watch.check(verdict.and(in_order));
        }
        let tenure = &mut self.watch.tenures[place][name];
        let joins = grant.mode == Mode::Shared && (self.watch.leases.has(life, name) || tenure.is_left(now));
        // A reader that waits with a token of its own may get it beside a lease that was downgraded meanwhile.
        let learnt = self.watch.asking[place][name].is_granted();
        let budget = if grant.local && tenure.began_with(learnt) {
            self.counts.local += 1;
            let most = client.config.local_handoffs;
            // Who has just slept goes through old timers first, and through what came meanwhile afterwards.
            if tenure.is_untold() && !client.config.mixed_fleet && client.trouble_until < self.now {
                self.watch.untold.push(name);
            }
            tenure.handed_over(now, most, client.config.mixed_fleet && !joins)
        } else {
            tenure.begin(now, learnt, self.watch.locks[name].lost_at);
            self.watch.asking[place][name].begins(now);
            Ok(())
        };
        let held = Held {
            life,
            client: place,
            lease: grant.lease,
            name,
            kind: options.kind,
            allowed: u64::MAX,
            mode: grant.mode,
            fence: grant.fence,
            valid_until: grant.valid_until,
            until: client.clock.when(grant.valid_until.as_micros()),
            since: self.now,
            since_local: now,
            ttl: options.ttl,
            renew: options.renew,
            max_hold: options.max_hold,
            holds: 1,
            orphan: tenure.orphan,
            token: tenure.token,
        };
        let fence = self.watch.locks[name].fences.used(grant.mode, grant.fence, tenure.orphan);
        let exclusive = self.watch.leases.grant(self.now, held);
        self.watch.check(exclusive.and(fence).and(in_order).and(budget));
    }

    fn converted(&mut self, place: usize, name: usize, grant: &Grant) {
        let life = self.clients[place].life;
        let Some(held) = self.watch.leases.find(life, grant.lease) else {
            return; // It was given back meanwhile.
        };
        let (before, orphan) = (self.watch.leases.held[held].fence, self.watch.leases.held[held].orphan);
        self.watch.tenures[place][name].converted();
        self.watch.asking[place][name].heard(self.clients[place].clock.instant(self.now));
        let exclusive =
            self.watch.leases.changed(self.now, held, |held| (held.mode, held.fence) = (grant.mode, grant.fence));
        self.watch.check(exclusive);
        if grant.fence != before {
            let verdict = self.watch.locks[name].fences.used(grant.mode, grant.fence, orphan);
            self.watch.check(verdict);
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

    /// A lease that counts as held was not given back, or only one hold of it.
    fn released(&mut self, place: usize, lease: Option<LeaseId>, outcome: ReleaseOutcome) {
        let life = self.clients[place].life;
        let held = lease.and_then(|lease| self.watch.leases.find(life, lease));
        if held.is_some() != (outcome == ReleaseOutcome::StillHeld) {
            let verdict = broken("answer", format!("{outcome:?} for {held:?}"));
            self.watch.check(verdict);
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
        match (self.mix.sorts[lost.name], lost.token) {
            (Sort::Semaphore, Some(token)) => self.watch.lanes[place][lost.name].tenure(token).lost(),
            _ => self.watch.tenures[place][lost.name].lost(),
        }
        let held = self.watch.leases.end(self.now, held);
        let home = self.servers.home(held.name);
        let many_keys = held.mode == Mode::Shared || self.mix.sorts[held.name] == Sort::Semaphore;
        let since = client.trouble_until.max(self.servers.list[home].trouble_for_renewals(many_keys));
        // By a clock that may be slow.
        let patience = client.config.response_timeout.as_micros() as Micros * 101 / 100;
        let calm = losses::Calm { since, patience };
        self.watch.check(losses::told(&held, reason, self.now, now, calm));
        self.user_lost(place, lease);
    }
}
