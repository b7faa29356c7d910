//! Checks everything, regularly and at the end.

use std::time::Duration;

use leasehold_core::{Instant, Mode, Wait};
use leasehold_harness::Micros;
use leasehold_model::ModelServer;

use crate::invariants::{Verdict, broken};
use crate::quorum::client::{Client, Op, UserCall, Wanted};
use crate::quorum::users::text;
use crate::quorum::watch::Belief;
use crate::quorum::world::{Manner, QuorumRun, STARVED};
use crate::servers::Server;
use crate::world::Phase;

/// How often a caller of several names waits in vain before it takes them in order.
const TURNS: u32 = 4;

impl Client {
    /// A try that still waits although too few servers are left for a majority. Only of a client with a single user, because
    /// several may share an attempt.
    fn undecided(&self, servers: usize, at: Instant) -> Option<String> {
        let tries = |op: &&Op| {
            let Op { call: UserCall::Acquire(options), .. } = op else { return false };
            !op.ended && options.wait == Wait::No
        };
        let op = self.ops.iter().find(tries).filter(|_| self.users.len() == 1)?;
        // Timers that are due at this very moment may come after the check.
        let at = at - Duration::from_millis(1);
        let out = self.attempts.out(text(op.parts[0].name).as_bytes(), op.began, at);
        (2 * (servers - out) <= servers).then(|| format!("{out} of {servers} servers can't agree to {:?}", op.call))
    }
}

impl QuorumRun<'_> {
    /// Checks everything.
    pub(crate) fn check_all(&mut self) {
        let majority = self.servers.len() / 2 + 1;
        let mut verdicts = Vec::new();
        for (place, it) in self.clients.iter().enumerate() {
            let at = it.clock.instant(self.world.now);
            // By the world's clock, like the wake-up. A wake-up that is due at this very moment may come after this
            // check.
            let over = |ends: Instant| it.clock.when(ends.as_micros()) < self.world.now;
            let late = it.ops.iter().enumerate().find(|(_, op)| !op.ended && op.ends.is_some_and(over));
            if let Some((op, known)) = late.filter(|_| it.is_awake()) {
                verdicts.push(broken("ends-in-time", format!("c{place} op {} {:?} at {at:?}", op + 1, known.call)));
            }
            if let Some(undecided) = it.undecided(self.servers.len(), at).filter(|_| it.is_awake()) {
                verdicts.push(broken("undecided", format!("c{place} at {at:?}: {undecided}")));
            }
            // While a client sleeps, its leases must be as good as it said before.
            for belief in self.watch.beliefs.iter().filter(|belief| belief.life == it.life) {
                let Wanted { name, mode, .. } = belief.part;
                let ([.., readers], name) = (self.keys.of_name(name), text(name));
                // Of a semaphore, each lease has a token of its own.
                let longer = |other: &&Belief| {
                    (other.life, other.part.name, other.until >= belief.until) == (belief.life, belief.part.name, true)
                };
                let leases = self.watch.beliefs.iter().filter(longer).count();
                // The ends of its tokens, the latest first.
                let ends = |model: &ModelServer, reading, key: &str| {
                    let ours = model.zset(reading, key).into_iter().filter(|(token, _)| token.starts_with(&it.uuid));
                    let mut ends: Vec<u64> = ours.map(|(_, ms)| ms as u64 * 1_000).collect();
                    ends.sort_unstable_by_key(|ends| std::cmp::Reverse(*ends));
                    ends
                };
                // Whether a server keeps the lease for as long as the client takes it to be valid.
                let backs = |(server, model): (&Server, &ModelServer)| {
                    let reading = server.clock.reads(self.world.now);
                    let value = model.get(reading, &name).unwrap_or_default();
                    let expires = if value.starts_with("shared") && mode == Mode::Shared {
                        ends(model, reading, &readers).first().copied()
                    } else if belief.part.permits() > 0 {
                        ends(model, reading, &name).get(leases - 1).copied()
                    } else {
                        model.expires(reading, &name).filter(|_| value.starts_with(&it.uuid))
                    };
                    expires.unwrap_or(0) + 2_000 >= server.clock.reads(belief.until)
                };
                let backed = self.servers.iter().zip(&*self.models).filter(|pair| backs(*pair)).count();
                if belief.until > self.world.now && backed < majority {
                    let until = belief.until;
                    let detail = format!("c{place} holds {name} until {until}, and {backed} servers agree");
                    verdicts.push(self.watch.unbacked(belief, self.world.now, detail));
                }
            }
        }
        verdicts.into_iter().for_each(|verdict| self.watch.check(verdict));
        if self.mix.is_single() && self.mix.chance == 0 {
            for client in 0..self.clients.len() {
                let verdict = self.waits_with_nothing(client);
                self.watch.check(verdict);
            }
        }
    }

    /// A caller of several names waits for one of them and holds none meanwhile, until it has waited four times in vain. Then it
    /// takes them in order. Of the callers of a client, one at a time does that. It is served before long.
    fn waits_with_nothing(&mut self, client: usize) -> Verdict {
        let (now, it) = (self.world.now, &self.clients[client]);
        let clock = self.servers[0].clock.reads(now);
        let value = |lock: &str| self.models[0].get(clock, lock).unwrap_or_default();
        let live = |key: &str| {
            let is_live =
                |(token, ends): &&(String, f64)| token.starts_with(&it.uuid) && *ends > (clock / 1_000) as f64;
            self.models[0].zset(clock, key).iter().filter(is_live).count()
        };
        let reads = |name: usize| {
            let [lock, .., readers] = self.keys.of_name(name);
            value(&lock).starts_with("shared") && live(&readers) > 0
        };
        // What the server has for it and no user holds, for longer than messages and the ends of leases take.
        let idle = |name: usize| {
            let [lock, ..] = self.keys.of_name(name);
            let permits = if self.mix.limits[name] > 0 { live(&lock) } else { 0 };
            let held = usize::from(value(&lock).starts_with(&it.uuid)) + usize::from(reads(name)) + permits;
            let users = self.watch.beliefs.iter().filter(|belief| (belief.life, belief.part.name) == (it.life, name));
            held > users.count()
        };
        let has: Vec<usize> = (0..self.mix.names).filter(|name| it.is_awake() && idle(*name)).collect();
        let idle: Vec<usize> = self.watch.idle_for(it.life, &has, now);
        let mut open = it.ops.iter().filter(|op| matches!(op.call, UserCall::AcquireAll(_)) && !op.ended);
        if self.mix.manner == Manner::MultiBusy
            && let Some(op) = open.clone().find(|op| op.began + STARVED < now && self.phase == Phase::Busy)
        {
            return broken("multi-starved", format!("c{client} waits for {:?} since {}", op.parts, op.began));
        }
        let in_order = |op: &Op| {
            let mut names: Vec<usize> = op.parts.iter().map(|part| part.name).collect();
            names.sort_unstable_by_key(|name| text(*name));
            // Readers of a client share a token. And it may not have been told yet that the server has forgotten one.
            let shared = |name: usize| op.parts.iter().any(|part| part.name == name && part.mode == Mode::Shared);
            let has =
                |name: &usize| has.contains(name) || shared(*name) && reads(*name) || self.watch.has_forgot(*name);
            let held = names.iter().take_while(|name| has(name)).count();
            let turns =
                it.users.len() > 1 || it.turns >= TURNS || names.iter().any(|name| self.watch.has_forgot(*name));
            // The one for which it waits may have been granted just now.
            held > 0 && idle.iter().all(|name| names[..held].contains(name)) && turns
        };
        if idle.is_empty() || open.any(in_order) {
            return Ok(());
        }
        broken(
            "multi-holds",
            format!("c{client} has {idle:?}, which nobody holds, after {} turns; at the moment {has:?}", it.turns),
        )
    }

    /// Readers wait for their turn on the first server, where a writer may wait. So the first server has let a reader in,
    /// unless it could not answer. A reader that is the first in the queue for long asks the others, too.
    pub(crate) fn check_reader(&mut self, client: usize, name: usize, began: Micros) {
        let (now, it) = (self.world.now, &self.clients[client]);
        let calm = self.mix.chance == 0 && began > self.calm_since + 1_000_000;
        if !calm || now > began + 1_000_000 {
            return;
        }
        let reading = self.servers[0].clock.reads(now);
        let value = self.models[0].get(reading, &text(name)).unwrap_or_default();
        let [.., readers] = self.keys.of_name(name);
        let among = self.models[0].zset(reading, &readers).iter().any(|(token, _)| token.starts_with(&it.uuid));
        let inside = value.starts_with(&it.uuid) || value.starts_with("shared") && among;
        if !inside {
            let detail = format!("c{client} reads {name}, and the first server, with `{value}`, did not let it in");
            self.watch.check(broken("readers-pass", detail));
        }
    }

    /// Nothing may be left.
    pub(crate) fn last_check(&self) -> Verdict {
        let rule = if self.mix.is_of_several() { "multi-kept" } else { "left-behind" };
        for (place, it) in self.clients.iter().enumerate() {
            if it.engine.as_ref().is_some_and(|engine| !engine.is_idle()) {
                return broken(rule, format!("c{place} has something left to do"));
            }
        }
        for (at, (server, model)) in self.servers.iter().zip(&*self.models).enumerate() {
            for name in 0..self.mix.names {
                if let Some(token) = model.get(server.clock.reads(self.world.now), &text(name)) {
                    return broken(rule, format!("s{at} still has {token} for {name}"));
                }
            }
        }
        Ok(())
    }
}
