//! Faults that strike from time to time: a server, a client, or the link between them.

use leasehold_harness::Micros;

use crate::faults::Fault;
use crate::quorum::client::Doing;
use crate::quorum::users::text;
use crate::quorum::world::QuorumRun;
use crate::world::{Event, Phase};

impl QuorumRun<'_> {
    pub(crate) fn strike(&mut self) {
        if !self.faults_are_on() {
            return;
        }
        let after = self.world.rng.spread((self.mix.gap / 4, self.mix.gap * 2));
        self.world.after(after, Event::Strike);
        let (server, client) =
            (self.world.rng.below(self.servers.len() as u64), self.world.rng.below(self.clients.len() as u64));
        let (server, client) = (server as usize, client as usize);
        let until = self.world.now + self.world.rng.spread(self.mix.outage);
        self.counts.faults += 1;
        self.calm_since = self.calm_since.max(until.max(self.world.now + 100_000));
        if self.mix.is_single() && (self.mix.chance == 0 || self.world.rng.chance(700_000)) {
            return self.strike_names(client);
        }
        match self.world.rng.below(10) {
            0 if self.mix.is_single() => self.fail_over(until),
            0..=2 => {
                let forgets = self.mix.losing && self.world.rng.chance(600_000);
                self.crash_server(server, until, forgets);
                // Sometimes more than one server.
                while self.world.rng.chance(300_000) {
                    let other = self.world.rng.below(self.servers.len() as u64) as usize;
                    self.crash_server(other, until, forgets);
                }
            }
            3 => self.servers[server].suffer(Fault::Stall, self.world.now, until),
            4 => self.servers[server].suffer(Fault::OutOfMemory, self.world.now, until),
            5 => self.models[server].script_flush(),
            6..=7 => {
                self.cuts.push((client, server, until));
                self.break_subscriptions(|other| server == 0 && other == client);
            }
            8 => self.pause(client, until),
            _ => self.crash_client(client),
        }
        let now = self.world.now;
        self.cuts.retain(|(.., until)| *until > now);
    }

    /// A client crashes, or a key vanishes.
    fn strike_names(&mut self, client: usize) {
        if self.world.rng.chance(600_000) {
            let name = self.world.rng.below(self.mix.names as u64) as usize;
            return self.vanish(name);
        }
        let first = self.first_of_several();
        if let Some((_, name, dies)) = first {
            self.world.agenda.push(dies, Event::Vanish { name });
        }
        self.crash_client(first.map_or(client, |(client, ..)| client));
    }

    /// A client that is the first of several waiters for a name, and when it counts as dead if it falls silent now. If the
    /// lock becomes free then, the queue has a dead waiter before a live one, until the latter asks.
    fn first_of_several(&self) -> Option<(usize, usize, Micros)> {
        let clock = self.servers[0].clock;
        (0..self.mix.names).find_map(|name| {
            let waiters = self.keys.waiters(&self.models[0], clock.reads(self.world.now), name);
            let [(first, alive_until_ms), (second, _), ..] = *waiters.as_slice() else { return None };
            let client = self.clients.iter().position(|it| it.life == first.life && it.is_awake())?;
            let dies = clock.when(alive_until_ms * 1_000).max(self.world.now) + 1;
            (first.life != second.life).then_some((client, name, dies))
        })
    }

    /// The key of a name is gone. Users that think ask now, before a waiter does.
    pub(crate) fn vanish(&mut self, name: usize) {
        let now = self.world.now;
        self.world.transcript.line(now, "s0", format_args!("forgets {name}"));
        self.models[0].execute(self.servers[0].clock.reads(now), &[b"DEL", text(name).as_bytes()]);
        self.watch.forgot(name..name + 1, now);
        for client in 0..self.clients.len() {
            for user in 0..self.clients[client].users.len() {
                if self.clients[client].users[user].doing == Doing::Nothing {
                    let after = self.world.rng.below(20_000);
                    self.next_step(client, user, after);
                }
            }
        }
    }

    /// A replica takes over that lacks the last writes of some names.
    fn fail_over(&mut self, until: u64) {
        self.crash_server(0, until, false);
        let clock = self.servers[0].clock.reads(self.world.now);
        for name in 0..self.mix.names {
            if self.world.rng.chance(500_000) {
                let [lock, _, queue, waiters, holders] = self.keys.of_name(name);
                for key in [lock, queue, waiters, holders] {
                    self.models[0].execute(clock, &[b"DEL", key.as_bytes()]);
                }
                self.watch.forgot(name..name + 1, self.world.now);
            }
        }
        self.watch.forgot_tombstones();
    }

    fn crash_server(&mut self, server: usize, until: u64, forgets: bool) {
        // A restart takes longer than the clocks differ.
        let until = until.max(self.world.now + 100_000);
        if self.world.transcript.is_written() {
            let what = format!("s{server} is down until {until}{}", if forgets { ", and forgets" } else { "" });
            self.world.transcript.line(self.world.now, "", format_args!("{what}"));
        }
        self.servers[server].suffer(Fault::ServerCrash, self.world.now, until);
        self.models[server].script_flush();
        self.break_subscriptions(|_| server == 0);
        if forgets {
            self.models[server].flush_all();
            self.watch.forgot(0..self.mix.names, self.world.now);
        }
    }

    fn pause(&mut self, client: usize, until: u64) {
        let it = &mut self.clients[client];
        if it.is_awake() {
            let life = it.life;
            it.asleep_until = Some(until);
            self.world.agenda.push(until, Event::Resume { client, life });
        }
    }

    fn crash_client(&mut self, client: usize) {
        if self.clients[client].engine.take().is_some() {
            self.note(client, format_args!("crashes"));
            self.watch.gone(self.clients[client].life);
            let after = self.world.rng.spread((1_000, 2_000_000));
            self.world.after(after, Event::Start { client });
        }
    }

    pub(crate) fn faults_are_on(&self) -> bool {
        self.phase == Phase::Busy
    }
}
