//! Faults that strike from time to time: a server, a client, or the link between them.

use crate::quorum::world::{Event, Phase, QuorumRun, Trouble};

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
        match self.world.rng.below(10) {
            0..=2 => {
                let forgets = self.mix.losing && self.world.rng.chance(600_000);
                self.crash_server(server, until, forgets);
                // Sometimes more than one server.
                while self.world.rng.chance(300_000) {
                    let other = self.world.rng.below(self.servers.len() as u64) as usize;
                    self.crash_server(other, until, forgets);
                }
            }
            3 => self.servers[server].suffer(Trouble::Stalled, until),
            4 => self.servers[server].suffer(Trouble::Full, until),
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

    fn crash_server(&mut self, server: usize, until: u64, forgets: bool) {
        // A restart takes longer than the clocks differ.
        let until = until.max(self.world.now + 100_000);
        if self.world.transcript.is_written() {
            let what = format!("s{server} is down until {until}{}", if forgets { ", and forgets" } else { "" });
            self.world.transcript.line(self.world.now, "", format_args!("{what}"));
        }
        self.servers[server].suffer(Trouble::Down, until);
        self.models[server].script_flush();
        self.break_subscriptions(|_| server == 0);
        if forgets {
            self.models[server].flush_all();
            self.watch.forgot(server, self.world.now);
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
