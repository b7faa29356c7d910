//! Checks everything, regularly and at the end.

use std::time::Duration;

use leasehold_core::{Instant, Mode, Wait};
use leasehold_harness::Micros;
use leasehold_model::ModelServer;

use crate::invariants::{Verdict, broken};
use crate::quorum::client::{Client, Op, UserCall};
use crate::quorum::users::text;
use crate::quorum::world::QuorumRun;
use crate::servers::Server;

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
        let out = self.attempts.out(text(op.names[0]).as_bytes(), op.began, at);
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
                let name = text(belief.name);
                let [.., readers] = self.keys.of_name(belief.name);
                // Whether a server keeps the lease for as long as the client takes it to be valid.
                let backs = |(server, model): (&Server, &ModelServer)| {
                    let reading = server.clock.reads(self.world.now);
                    let value = model.get(reading, &name).unwrap_or_default();
                    let expires = if value.starts_with("shared") && belief.mode == Mode::Shared {
                        let readers = model.zset(reading, &readers);
                        let ours = readers.iter().filter(|(token, _)| token.starts_with(&it.uuid));
                        ours.map(|(_, ms)| *ms as u64 * 1_000).max()
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
