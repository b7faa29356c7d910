//! Faults that strike a client, a link or a server from time to time.

use leasehold_core::Failure;
use leasehold_harness::Micros;

use crate::client::Delivery;
use crate::coverage::State;
use crate::faults::Fault;
use crate::invariants::keys::Part;
use crate::wire::Life;
use crate::world::{ClusterRun, Event};

/// States that pass so quickly that faults have to wait for them.
const RARE: [State; 4] = [State::Renewing, State::Refilling, State::Converting, State::Closing];

/// The errors of a server that can't serve.
const NOT_READY: [&str; 5] = [
    "LOADING Redis is loading the dataset in memory",
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "CLUSTERDOWN The cluster is down",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "READONLY You can't write against a read only replica.",
];

impl ClusterRun<'_> {
    /// The next fault strikes.
    pub(crate) fn strike(&mut self) {
        if !self.faults_are_on() {
            return;
        }
        let next = self.world.rng.range((self.mix.gap / 5, self.mix.gap * 2));
        self.world.after(next, Event::Strike);
        if self.world.rng.chance(400_000) {
            self.ambush = Some(*self.world.rng.pick(&RARE));
        } else {
            self.strike_now(None);
        }
    }

    /// A client enters a rare state. If a fault waits for it, the fault strikes before the state is over.
    pub(crate) fn entered_rare_state(&mut self, state: State, client: usize) {
        if self.ambush == Some(state) {
            self.ambush = None;
            let after = self.world.rng.below(self.mix.trip.1);
            self.world.after(after, Event::Ambush { client });
        }
    }

    /// A fault strikes. If it strikes a client, then this one.
    pub(crate) fn strike_now(&mut self, client: Option<usize>) {
        if !self.faults_are_on() {
            return;
        }
        let Some(fault) = self.draw_strike() else { return };
        let client = client.unwrap_or_else(|| self.world.rng.below(self.clients.len() as u64) as usize);
        let outage = self.world.rng.spread(self.mix.outage);
        let until = self.world.now + outage;
        match fault {
            Fault::Pause | Fault::Suspend | Fault::Crash => {
                if self.clients[client].is_awake() {
                    self.strike_client(fault, client, until);
                }
            }
            Fault::Partition => {
                let server = self.world.rng.below(self.servers.list.len() as u64) as usize;
                self.note(fault, Some(client));
                self.cuts.retain(|(.., until)| *until > self.world.now);
                self.cuts.push((client, server, until));
                self.trouble(client, until);
            }
            _ => {
                let server = self.world.rng.below(self.servers.list.len() as u64) as usize;
                self.note(fault, None);
                self.strike_server(fault, server, until);
            }
        }
    }

    fn draw_strike(&mut self) -> Option<Fault> {
        if self.mix.strikes.is_empty() {
            return None;
        }
        Some(*self.world.rng.pick(&self.mix.strikes))
    }

    /// A holder that has passed its lease on dies. A command of it may be on its way.
    pub(crate) fn die(&mut self, place: usize, life: Life) {
        let client = &self.clients[place];
        if client.life == life && client.is_awake() && self.faults_are_on() {
            let until = self.world.now + self.world.rng.spread(self.mix.outage);
            self.strike_client(Fault::Crash, place, until);
        }
    }

    /// A replica with a slower clock takes over. It has all data but the queues.
    pub(crate) fn fail_over(&mut self, server: usize) {
        let now = self.world.now;
        // A client takes no grant that seems to be older than an answer, so it waits until the clock has caught up.
        if self.servers.list[server].suffers(Fault::SlowerClock, now) {
            return;
        }
        let behind = self.world.rng.spread((1_500, 2_000_000));
        let server_us = self.servers.time(server, now);
        for name in self.servers.at(server) {
            let counter = self.servers.models[server].get(server_us, self.watch.keys.counter(name));
            let counter = counter.and_then(|text| text.parse().ok()).unwrap_or(u64::MAX);
            self.watch.locks[name].fences.clock_fell_back(counter, server_us);
            // Which waiters of the primary are alive by the slower clock is unclear, so the replica lacks the queue.
            let [_, _, queue, waiters, _] = self.watch.keys.of_name(name);
            let model = &mut self.servers.models[server];
            // It may refuse writes at this moment.
            model.set_read_only(false);
            model.execute(server_us, &[b"DEL", queue.as_bytes(), waiters.as_bytes()]);
            self.lose(name, Part::Queue);
        }
        self.server(server).clock.step_back(behind);
        // Keys and leases that expire by its clock last longer.
        self.watch.longest.behind_ms += behind / 1_000 + 1;
        let until = now + behind + behind / 50;
        self.server(server).suffer(Fault::SlowerClock, now, until);
        self.calm_since = self.calm_since.max(until);
        (0..self.clients.len()).for_each(|client| self.trouble(client, until));
    }

    fn strike_client(&mut self, fault: Fault, place: usize, until: Micros) {
        self.note(fault, Some(place));
        self.calm_since = self.calm_since.max(self.world.now);
        let life = self.clients[place].life;
        if fault == Fault::Crash {
            self.drop_client(place);
            return self.world.agenda.push(until, Event::Start { client: place });
        }
        let client = &mut self.clients[place];
        client.asleep_until = Some(until);
        client.trouble_until = client.trouble_until.max(until);
        self.world.agenda.push(until, Event::Resume { client: place, life });
        if fault == Fault::Suspend {
            self.cut_off(place);
            if self.bugs.clock_stops_asleep {
                self.stop_clock(place, until);
            }
        }
    }

    /// All connections of a client break while it sleeps. It finds out when it wakes up.
    fn cut_off(&mut self, place: usize) {
        let client = &mut self.clients[place];
        let broke = || Failure::Interrupted("connection reset".into());
        let calls: Vec<_> =
            client.sent.iter().filter(|sent| sent.leads).map(|sent| Delivery::Reply(sent.id, Err(broke()))).collect();
        client.inbox.extend(calls);
        let ended = client.take_topics();
        client.inbox.extend(ended.into_iter().map(|topic| Delivery::Unsubscribed(topic, broke())));
        self.count_listeners();
    }

    /// A deliberate bug: the client's clock does not count the time asleep.
    fn stop_clock(&mut self, place: usize, until: Micros) {
        let client = &mut self.clients[place];
        let asleep = client.clock.reads(until) - client.clock.reads(self.world.now);
        client.clock.step_back(asleep);
        let (life, clock) = (client.life, client.clock);
        for held in self.watch.leases.held.iter_mut().filter(|held| held.life == life) {
            held.until = clock.when(held.valid_until.as_micros());
        }
    }

    fn strike_server(&mut self, fault: Fault, server: usize, until: Micros) {
        let now = self.world.now;
        self.calm_since = self.calm_since.max(now);
        match fault {
            Fault::SlowerClock => return self.fail_over(server),
            Fault::ScriptFlush => return self.servers.models[server].script_flush(),
            Fault::Flush | Fault::Evict => {
                if fault == Fault::Flush {
                    return self.lose_data(server);
                }
                if self.evict(server) != Some(Part::Fence) {
                    // Fences in use may be a millisecond ahead of the counter, so the next script comes some
                    // milliseconds later. A counter that was lost begins above them.
                    self.server(server).suffer(Fault::Stall, now, now + 3_000);
                }
                return;
            }
            Fault::ServerCrash | Fault::ServerWiped => {
                let until = until.max(now + 10_000);
                self.crash_server(fault, server, until);
            }
            Fault::NotReady => {
                let not_ready_error = *self.world.rng.pick(&NOT_READY);
                self.server(server).not_ready_error = not_ready_error;
                self.server(server).suffer(fault, now, until);
            }
            _ => self.server(server).suffer(fault, now, until),
        }
        self.calm_since = self.calm_since.max(until);
    }

    fn crash_server(&mut self, fault: Fault, server: usize, until: Micros) {
        let now = self.world.now;
        self.servers.models[server].script_flush();
        // An outage may overlap with another one. Only the additional time counts.
        let began = self.servers.list[server].last_until(Fault::ServerCrash).max(now);
        self.server(server).suffer(Fault::ServerCrash, now, until);
        if fault == Fault::ServerWiped {
            self.lose_data(server);
            // Another machine may take its place, with a clock that is behind by less than the outage.
            let behind = self.world.rng.below((until.saturating_sub(began) * 9 / 10).saturating_sub(5_000));
            self.server(server).clock.step_back(behind);
        }
        if server == 0 {
            (0..self.clients.len()).for_each(|client| self.break_subscription(client));
        }
    }

    /// The end of a liveness run: every fault stops, and sleeping clients wake up soon.
    pub(crate) fn repair_everything(&mut self) {
        self.cuts.clear();
        self.servers.list.iter_mut().for_each(|server| server.repair(self.world.now));
        for place in 0..self.clients.len() {
            let client = &mut self.clients[place];
            if client.asleep_until.is_some() {
                client.asleep_until = Some(self.world.now);
                let life = client.life;
                self.world.agenda.push(self.world.now, Event::Resume { client: place, life });
            }
        }
        self.calm_since = self.calm_since.max(self.world.now);
    }
}
