//! Tells the watchers what clients send and learn, for each kind of lock.

use leasehold_core::{Engine, Instant, Reason, Wait};

use crate::channels::Topic;
use crate::client::{Client, SentCommand, UserCall};

use crate::invariants::broken;
use crate::invariants::hand_overs::Limit;
use crate::invariants::leases::Held;
use crate::kinds::LockKind;
use crate::network::LEAST_WINDOW;
use crate::wire::{AcquireMode, Answer, ScriptCommand, Status};
use crate::world::ClusterRun;

/// How long a command may wait for others to travel with, in ms.
const LONGEST_WAIT_FOR_A_BATCH: u64 = 20;

impl Client {
    /// Whether one of its callers waits for a lock, and is not about to give up.
    fn has_waiters(&self, name: usize) -> bool {
        self.waits_for(name).any(|op| op.wait() != Wait::No && !op.cancelled)
    }

    /// Whether it is closing.
    fn closes(&self) -> bool {
        self.open.iter().any(|op| self.ops[*op as usize].call == UserCall::Close)
    }
}

impl ClusterRun<'_> {
    /// The client sends a command.
    pub(crate) fn watch_sending(&mut self, place: usize, name: usize, at: Instant, script: &ScriptCommand) {
        self.sends_detached(script);
        if self.sends_adopted(script) {
            return;
        }
        let client = &self.clients[place];
        if self.mix.kinds[name] == LockKind::Semaphore {
            let semaphores = &mut self.watch.semaphores[place][name];
            match *script {
                ScriptCommand::Acquire { token, how, .. } => {
                    if how == AcquireMode::Wait {
                        semaphores.joins(token);
                    }
                    semaphores.hold(token);
                }
                ScriptCommand::Release { token, .. } => semaphores.leaves(token),
                _ => {}
            }
            let verdict = self.watch.polling[place][name].sends(at, script, None, false);
            return self.watch.check(verdict);
        }
        let hold = &mut self.watch.holds[place][name];
        let holds = hold.token;
        let mut yields = false;
        if let ScriptCommand::Release { token, .. } = *script {
            let spent = hold.is_spent(at, Limit::of(&client.config)) && hold.holds_by(token);
            // A lease that ended because its time was over, for example after a sleep, is already free for everybody.
            yields = spent && hold.is_left(at) && !hold.is_lost() && client.has_waiters(name) && !client.closes();
            hold.gives_back(token);
            // Readers go on under a newer token, which a message may have granted.
            let life = client.life;
            let readers = self.watch.leases.held.iter_mut().filter(|held| held.life == life && held.name == name);
            readers.filter(|held| held.token == Some(token)).for_each(|held| held.token = None);
        }
        let commands = self.watch.commands[place][name].sends(at, script, holds);
        let yields = yields && self.mix.kinds[name] == LockKind::Reentrant;
        let polling = self.watch.polling[place][name].sends(at, script, holds, yields);
        self.watch.check(commands.and(polling));
    }

    /// A lease whose end its holder has moved is renewed until then and no longer. A client with a single user renews it
    /// for nobody else.
    pub(crate) fn check_renewal(
        &mut self,
        place: usize,
        name: usize,
        at: Instant,
        words: &[&[u8]],
        script: &ScriptCommand,
    ) {
        let ScriptCommand::Renew { ttl_ms, .. } = *script else { return };
        let client = &self.clients[place];
        // Users' calls renew as well, a server that had forgotten the script gets the same command again, and a command
        // that had to wait was for a time that is over.
        let others = client.users.len() > 1 || client.open.iter().any(|op| client.ops[*op as usize].name == name);
        if others || words.first() != Some(&&b"EVALSHA"[..]) || self.mix.is_crowded() {
            return;
        }
        let kept = |held: &&Held| held.name == name && held.kept.is_some();
        let Some(held) = self.watch.leases.of(client.life).find(kept).cloned() else { return };
        let Some(ends) = held.ends else { return };
        // With what clocks may differ by, and the margin for a late timer. A renewal that waits for others to travel with
        // was for the time when it began to wait.
        let waited = if client.config.batches { LONGEST_WAIT_FOR_A_BATCH } else { 0 };
        let left = ends.since(at).as_millis() as u64 + waited;
        let most = ((left + 3) * 100 / 94).min((left + 53) * 100 / 99) + 2;
        if held.valid_until >= ends || ttl_ms > most {
            let detail = format!("c{place} renews for {ttl_ms} ms at {at:?}: {held:?}");
            self.watch.check(broken("needless-renewal", detail));
        }
    }

    /// Records what a client learns about a semaphore from an answer and must act on.
    pub(crate) fn learn_permits(&mut self, place: usize, now: Instant, sent: &SentCommand, answer: &Answer) {
        let client = &self.clients[place];
        let (life, name, sent_at) = (client.life, sent.name, client.clock.when(sent.at.as_micros()));
        let semaphores = &mut self.watch.semaphores[place][name];
        if let (
            ScriptCommand::Acquire { token, .. } | ScriptCommand::Renew { token, .. },
            Status::Gone | Status::Taken,
        ) = (sent.script, answer.status)
        {
            semaphores.begins(token);
        }
        if let ScriptCommand::Acquire { token, .. } | ScriptCommand::Renew { token, .. } = sent.script
            && (answer.grants() || answer.status == Status::Renewed)
        {
            semaphores.hold(token).confirmed(now, token, false);
        }
        let doomed = match sent.script {
            ScriptCommand::Acquire { token, .. } if answer.grants() => {
                let hold = semaphores.hold(token);
                if answer.waiting > 0 {
                    hold.told(now, Some(token), false);
                }
                hold.is_anew(token, answer.status == Status::Entered, answer.server_us).then_some(token)
            }
            ScriptCommand::Release { token, .. } => {
                self.watch.locks[name].tokens.given_up(self.world.now, sent_at, token);
                None
            }
            ScriptCommand::Renew { token, .. } if matches!(answer.status, Status::Gone | Status::Taken) => {
                semaphores.hold(token).holds_by(token).then_some(token)
            }
            _ => None,
        };
        if doomed.is_some() {
            let held = self.watch.leases.of(life).filter(|held| held.token == doomed);
            self.watch.doomed.extend(held.map(|held| (held.lease, "loss-untold")));
        }
    }

    /// The name now holds another kind. The token of a renewal is gone, and so is its place in the queue.
    pub(crate) fn learn_overwritten(&mut self, place: usize, sent: &SentCommand) {
        if let (LockKind::Semaphore, ScriptCommand::Renew { token, .. }) = (self.mix.kinds[sent.name], sent.script) {
            self.watch.semaphores[place][sent.name].begins(token);
        }
    }

    /// The reentrant locks of a channel for which a client waits, with the number of commands it has sent about each.
    /// It must ask at every message.
    pub(crate) fn waits_on(&self, place: usize, topic: Topic) -> Vec<(usize, u64)> {
        let client = &self.clients[place];
        let of = |name: &usize| self.servers.topics[*name] == Some(topic);
        let waits = |name: usize| {
            let (busy, sent) = self.watch.polling[place][name].waits();
            let waits = busy && client.has_waiters(name) && !client.closes();
            (waits && !self.watch.leases.has(client.life, name)).then_some((name, sent))
        };
        (0..self.servers.names.len()).filter(of).filter_map(waits).collect()
    }

    /// A message has arrived on a channel.
    pub(crate) fn check_woken(&mut self, place: usize, waited: Vec<(usize, u64)>) {
        for (name, before) in waited {
            let client = &self.clients[place];
            let (_, sent) = self.watch.polling[place][name].waits();
            // With so many commands under way, there may be no room for another one. A first attempt waits for the driver's
            // next wake-up, and while two commands are under way.
            let full = client.under_way() >= LEAST_WINDOW;
            let timeout = client.engine.as_ref().and_then(Engine::poll_timeout);
            let soon = timeout
                .is_some_and(|(at, reason)| at <= client.clock.instant(self.world.now) || reason == Reason::Batch);
            let batches = client.config.batches && (soon || client.under_way() >= 2);
            if sent == before
                && !full
                && !batches
                && client.has_waiters(name)
                && !self.watch.leases.has(client.life, name)
            {
                let detail = format!("c{place} waits for {name}, but did not ask after a message on its channel");
                self.watch.check(broken("unwoken", detail));
            }
        }
    }

    /// A lease that nobody holds is kept only for as long as its last holder wanted.
    pub(crate) fn check_lingering(&mut self, name: usize) {
        let home = self.servers.home(name);
        let server_us = self.servers.time(home, self.world.now);
        let holders = self.watch.keys.holders(&self.servers.models[home], server_us, name);
        for (place, client) in self.clients.iter().enumerate().filter(|(_, client)| client.is_awake()) {
            let hold = &self.watch.holds[place][name];
            let on_server = hold.token.is_some_and(|token| holders.iter().any(|(holder, _)| *holder == token));
            let in_use = client.open.iter().any(|op| client.ops[*op as usize].name == name);
            // The release leaves in a batch, as soon as the driver has nothing else to say and there is room.
            let (now, wake) =
                (client.clock.instant(self.world.now), client.engine.as_ref().and_then(Engine::poll_timeout));
            let leaves = client.config.batches && (client.under_way() > 1 || wake.is_some_and(|(at, _)| at <= now));
            if !on_server || leaves || in_use || self.mix.is_crowded() || self.watch.leases.has(client.life, name) {
                continue;
            }
            let calm = client.trouble_until.max(self.servers.list[home].last_trouble());
            let since = self.watch.leases.last_held(client.life, name).max(calm);
            let verdict = hold.is_idle(client.clock.instant(self.world.now), client.clock.instant(since));
            if verdict.is_err() {
                return self.watch.check(verdict);
            }
        }
    }

    /// Waiters ask regularly, whatever they receive.
    pub(crate) fn check_waiters(&mut self, name: usize) {
        for (place, client) in self.clients.iter().enumerate().filter(|(_, client)| client.is_awake()) {
            let holds = self.watch.leases.has(client.life, name) && self.mix.kinds[name] == LockKind::Reentrant;
            let since = client.waits_for(name).filter(|op| op.wait() != Wait::No).map(|op| op.since).min();
            let Some(since) = since.filter(|_| !holds && !client.closes()) else { continue };
            // A renewal for the next local caller is sent again after a quarter of the remaining time.
            let ttl = client.longest_ttl_ms * 1_000 / 4;
            let slack = std::time::Duration::from_micros(ttl + 50_000);
            let calm = client.clock.instant(client.trouble_until.min(self.world.now));
            let since = since.max(calm).max(client.clock.instant(self.watch.leases.last_held(client.life, name)));
            let now = client.clock.instant(self.world.now);
            let polling = &self.watch.polling[place][name];
            // A client that holds the lock for its callers asks for their fences. After failures, it asks less often.
            let claim = client.config.claim_window;
            let every = if polling.asks() { claim / 3 } else { claim };
            let verdict = polling.is_awake(now, since, every + slack);
            if verdict.is_err() {
                return self.watch.check(verdict);
            }
        }
    }

    /// Whether a caller must get the lease at once, because its owner holds the reentrant lock.
    pub(crate) fn must_reenter(&self, place: usize, name: usize, call: &UserCall, now: Instant) -> bool {
        let UserCall::Acquire(options) = call else { return false };
        let client = &self.clients[place];
        let own = |held: &crate::invariants::leases::Held| {
            held.name == name && held.kind == options.kind && held.valid_until > now
        };
        self.mix.kinds[name] == LockKind::Reentrant && !client.closes() && self.watch.leases.of(client.life).any(own)
    }

    /// Checks that it did.
    pub(crate) fn check_reentry(&mut self, place: usize, op: u32, must: bool) {
        let Some(op) = self.clients[place].ops.get(op as usize).filter(|op| must && !op.ended) else { return };
        let detail = format!("the owner holds the lock, but has to wait for it: {op:?}");
        self.watch.check(broken("reentry", detail));
    }
}
