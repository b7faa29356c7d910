//! Checks the world as a whole, regularly and at its end.

use std::time::Duration;

use leasehold_core::{Engine, Instant, Reason, Wait};
use leasehold_harness::Micros;

use crate::client::Client;
use crate::faults::Fault;
use crate::invariants::hand_overs::Limit;
use crate::invariants::keys::Part;
use crate::invariants::progress::{Bounds, Head};
use crate::invariants::{Verdict, broken, calls};
use crate::kinds::LockKind;
use crate::network::LEAST_WINDOW;
use crate::servers::Server;
use crate::watch::Watch;
use crate::world::ClusterRun;

/// Server faults that stop renewals.
const HINDER_RENEWALS: [Fault; 3] = [Fault::ServerCrash, Fault::Stall, Fault::NotReady];
/// The latest wake-up.
const LATEST_WAKE: Duration = Duration::from_secs(4);

impl Server {
    /// Until when this server stopped renewals.
    pub(crate) fn trouble_for_renewals(&self, many_keys: bool) -> Micros {
        // A renewal with one key, such as a writer's, goes on while a slot moves.
        let moving = if many_keys { self.last_until(Fault::Migration) } else { 0 };
        HINDER_RENEWALS.iter().map(|fault| self.last_until(*fault)).max().unwrap_or(0).max(moving)
    }
}

impl ClusterRun<'_> {
    /// Checks every lock and every client.
    pub(crate) fn check_all(&mut self) {
        let bounds = self.bounds();
        for name in 0..self.servers.names.len() {
            let server = self.servers.home(name);
            let server_us = self.servers.time(server, self.world.now);
            self.observe_backing(server, name, server_us);
            if self.mix.kinds[name] == LockKind::Lock {
                self.check_lingering(name);
            } else {
                self.check_waiters(name);
            }
            let wanted = self
                .clients
                .iter()
                .any(|client| client.is_awake() && client.waits_for(name).any(|op| op.wait() != Wait::No));
            let valid = self.watch.leases.any_valid(self.world.now, name);
            let kept = self.is_kept_by_a_drain(name);
            let lock = &mut self.watch.locks[name];
            let head = lock.queue.first().filter(|_| self.mix.foreigners == 0).and_then(|token| {
                let waits = |client: &&Client| {
                    client.life == token.life && client.is_awake() && client.waits_for(name).next().is_some()
                };
                let client = self.clients.iter().find(waits)?;
                Some(Head {
                    token,
                    calm_since: client.trouble_until.max(self.servers.list[server].last_trouble()),
                    kept,
                })
            });
            let done = self.mix.kinds[name] == LockKind::Once
                && self.servers.models[server].get(server_us, self.watch.keys.key(name, Part::Result)).is_some();
            let free = head.is_some()
                && !done
                && self.watch.keys.lock_expires(&self.servers.models[server], server_us, name).is_none();
            let verdict = lock.progress.check(self.world.now, self.calm_since, (wanted, valid, free), head, bounds);
            self.watch.check(verdict);
        }
        for client in self.clients.iter().filter(|client| client.is_awake()) {
            let verdict = calls::overdue(client, client.clock.instant(self.world.now) - LATEST_WAKE);
            self.watch.check(verdict);
        }
    }

    /// Whether a client that drains holds a lock.
    fn is_kept_by_a_drain(&self, name: usize) -> bool {
        let draining = self.clients.iter().filter(|client| client.drains);
        let mut held = draining.flat_map(|client| self.watch.leases.of(client.life));
        held.any(|held| held.name == name && held.until > self.world.now)
    }

    /// By now, a client must have asked for everything that it needs, and given up everything that it doesn't need.
    pub(crate) fn check_commands(&mut self, place: usize, now: Instant) {
        let client = &self.clients[place];
        let (claim, response) = (client.config.claim_window, client.config.response_timeout);
        for name in 0..self.servers.names.len() {
            if client.waits_for(name).next().is_none() {
                self.watch.polling[place][name].nobody_waits();
            }
            if self.mix.kinds[name] == LockKind::Semaphore {
                // Releases may wait for room, for the driver's next wake-up, or for others to travel with. A client that
                // slept hears of one lost reply after the other, and each makes room.
                let timeout = client.engine.as_ref().and_then(Engine::poll_timeout);
                let soon = timeout.is_some_and(|(at, reason)| at <= now || reason == Reason::Batch);
                let waits = soon || client.config.batches && client.under_way() >= 2;
                if !waits && client.under_way() < LEAST_WINDOW && client.trouble_until < self.world.now {
                    let verdict = self.watch.semaphores[place][name].check(client.waits_for(name).count());
                    self.watch.check(verdict);
                }
                continue;
            }
            let alone = client.config.mixed_fleet || self.mix.kinds[name] == LockKind::Reentrant;
            let commands = &mut self.watch.commands[place][name];
            let mut callers = client.waits_for(name).peekable();
            let held = Watch::of_callers(&self.watch.leases, &self.watch.adopted, client.life, name).next();
            let holds = held.is_some();
            let verdict = if callers.peek().is_none() {
                // Its readers may go on with the token of the last caller that waited.
                if holds { Ok(()) } else { commands.nobody_waits(client.config.batches) }
            } else if !alone
                && self.watch.holds[place][name].is_spent(now, Limit::of(&client.config))
                && holds
                && callers.any(|op| op.wait() != Wait::No)
            {
                commands.must_ask(now, claim)
            } else {
                Ok(())
            };
            self.watch.check(verdict);
        }
        for name in std::mem::take(&mut self.watch.untold) {
            let verdict = self.watch.commands[place][name].must_have_heard(now, claim, response);
            self.watch.check(verdict);
        }
    }

    /// How long waiting may take without faults.
    fn bounds(&self) -> Bounds {
        let longest = self.watch.longest;
        // A dead holder, and then every other client dead at the head of the queue, with one claim window each.
        let dead = longest.ttl_ms * 1_000 + self.clients.len() as Micros * longest.claim_ms * 1_000;
        let slack = 2 * self.mix.response_ms.1 * 1_000 + 10 * self.mix.trip.1 + 500_000;
        let polls = if self.mix.mixed_fleet || self.mix.foreigners > 0 { 5_000_000 } else { 0 };
        let vacant = dead + slack + polls;
        let heir = (300_000 + 10 * self.mix.trip.1, longest.claim_ms * 1_000 + slack);
        Bounds { vacant, heir, head: vacant + 1_000_000 + 6 * self.mix.hold.1 + longest.ttl_ms * 1_000 }
    }

    /// How long users may take to finish once faults have stopped.
    pub(crate) fn patience(&self) -> Micros {
        let users: usize = self.clients.iter().map(|client| client.users.len()).sum();
        let turn = 4 * (self.mix.hold.1 + self.mix.think.1 + 4 * self.mix.trip.1) + 100_000;
        3 * self.bounds().vacant + users as Micros * turn + 60_000_000
    }

    pub(crate) fn unfinished(&self) -> Verdict {
        let open: Vec<String> = self
            .clients
            .iter()
            .enumerate()
            .filter(|(_, client)| !client.is_finished())
            .map(|(place, client)| format!("c{place}: {:?} {:?}", client.open, client.users))
            .collect();
        broken("unfinished", format!("after {} s without faults: {open:?}", self.patience() / 1_000_000))
    }

    /// Only fences are left on the servers.
    pub(crate) fn last_check(&mut self) -> Verdict {
        for server in 0..self.servers.list.len() {
            self.check_server(server);
            let time = self.servers.time(server, self.world.now);
            let verdict = self.watch.keys.check_at_the_end(&self.servers.models[server], time);
            self.watch.check(verdict);
        }
        self.watch.verdict()
    }
}
