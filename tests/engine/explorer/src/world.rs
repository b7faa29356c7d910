//! A state of the exploration: clients, server, and everything in flight. It knows which steps are possible, and does
//! them.

use std::sync::Arc;

use leasehold_core::Engine;
use leasehold_memory::Server;

use crate::client::{Client, User, UserState};
use crate::clock::{self, Micros, micros};
use crate::flight::{Flight, What};
use crate::invariants::Watch;
use crate::keys::{GHOST, KEYS, NAME, OLD_FENCE};
use crate::scenario::{Action, RESPONSE_TIMEOUT, Scenario, TTL};
use crate::step::{Fault, Step};
use crate::verdict::Verdict;

/// How long something may be in flight without a fault, if messages may be slow.
pub(crate) const SLOW: Micros = micros(RESPONSE_TIMEOUT);

/// A state.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) now: Micros,
    pub(crate) clients: Vec<Arc<Client>>,
    pub(crate) server: Arc<Server>,
    pub(crate) flights: Vec<Flight>,
    pub(crate) watch: Watch,
    /// How many faults may still happen.
    pub(crate) faults_left: u8,
    /// How many faults have happened.
    pub(crate) struck: u8,
    /// Whether one of them was worse than a message that is lost or late.
    pub(crate) is_harmed: bool,
    /// How long something may be in flight without a fault.
    pub(crate) patience: Micros,
    /// How many commands the server has run at this moment.
    pub(crate) ran: u8,
    pub(crate) scenario: &'static Scenario,
    pub(crate) last_flight: u16,
}

impl World {
    /// The beginning of a scenario.
    pub(crate) fn new(scenario: &'static Scenario, faults: u8, patience: Micros) -> Result<Self, String> {
        let mut server = Server::default();
        let run = |server: &mut Server, words: &[&[u8]]| {
            server.execute(clock::server(0), words).map_err(|error| error.to_string())
        };
        for script in leasehold_lua::ALL {
            run(&mut server, &[b"SCRIPT", b"LOAD", script.source.as_bytes()])?;
        }
        // Somebody has used this server before.
        run(&mut server, &[b"SET", KEYS[1].as_bytes(), OLD_FENCE])?;
        if scenario.held_at_first {
            let ttl = TTL.as_millis().to_string();
            run(&mut server, &[b"SET", NAME.as_bytes(), GHOST, b"PX", ttl.as_bytes()])?;
        }
        let places = 0..u8::try_from(scenario.clients.len()).unwrap_or(u8::MAX);
        let client = |place| Client::new(place, scenario).map(Arc::new).map_err(|error| error.to_string());
        Ok(Self {
            now: 0,
            clients: places.map(client).collect::<Result<_, String>>()?,
            server: Arc::new(server),
            flights: Vec::new(),
            watch: Watch::default(),
            faults_left: faults,
            struck: 0,
            is_harmed: false,
            patience,
            ran: 0,
            scenario,
            last_flight: 0,
        })
    }

    /// Everything that may happen next.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::with_capacity(16);
        for (client, it) in self.places().filter(|(_, it)| it.runs()) {
            let able = it.users.iter().enumerate().filter(|(_, user)| self.next_of(user).is_some());
            steps.extend(able.map(|(user, _)| Step::Act { client, user: user as u8 }));
            if self.is_due(it) {
                steps.push(Step::Wake(client));
            }
        }
        for flight in self.flights.iter().filter(|flight| self.arrives(flight)) {
            steps.push(Step::Arrive(flight.number));
        }
        for (client, it) in self.places() {
            if it.paused.is_some_and(|until| until <= self.now) {
                steps.push(Step::Resume(client));
            }
        }
        let next = self.next_time();
        let held_back = |flight: &&Flight| {
            let ends = flight.since.map(|since| since + self.patience);
            next.is_some_and(|next| ends.is_some_and(|ends| ends <= next)) && self.arrives(flight)
        };
        if next.is_some() && !self.is_busy() && !self.flights.iter().any(|flight| held_back(&flight)) {
            steps.push(Step::Pass);
        }
        if self.faults_left > 0 && !self.is_over() {
            if !self.is_busy() {
                steps.extend(self.flights.iter().filter(held_back).map(|late| Step::Fault(Fault::Delay(late.number))));
            }
            self.add_faults(&mut steps);
        }
        steps
    }

    fn add_faults(&self, steps: &mut Vec<Step>) {
        for flight in &self.flights {
            steps.push(Step::Fault(Fault::Lose(flight.number)));
            if !flight.copied {
                steps.push(Step::Fault(Fault::Double(flight.number)));
            }
        }
        for (client, _) in self.places().filter(|(_, it)| it.runs() && !it.is_done()) {
            steps.extend([Fault::Crash(client), Fault::Pause(client)].map(Step::Fault));
        }
        let time = clock::server(self.now);
        let there = |key: &str| self.server.keys(time).any(|known| known == key.as_bytes());
        let keys = KEYS.iter().enumerate().filter(|(_, key)| there(key));
        steps.extend(keys.map(|(place, _)| Step::Fault(Fault::Evict(place as u8))));
        if self.server.keys(time).next().is_some() {
            steps.push(Step::Fault(Fault::Wipe));
        }
        if there(NAME) {
            steps.push(Step::Fault(Fault::Revoke));
        }
    }

    /// Whether nobody wants anything any more, and nothing is in flight.
    pub(crate) fn is_over(&self) -> bool {
        self.flights.is_empty() && self.clients.iter().all(|client| client.is_done())
    }

    /// Does a step. Its flight, client or user must be there.
    pub(crate) fn take(&mut self, step: Step) -> Verdict {
        match step {
            Step::Act { client, user } => self.act(client, user),
            Step::Arrive(number) => self.arrive(number),
            Step::Wake(client) => self.feed(client, leasehold_core::Input::Wake),
            Step::Resume(client) => {
                self.client_mut(client).paused = None;
                Ok(())
            }
            Step::Pass => {
                let Some(next) = self.next_time() else { return Ok(()) };
                self.watch.passes(self.now, &self.clients)?;
                self.nobody_is_stranded()?;
                (self.now, self.ran) = (next, 0);
                Ok(())
            }
            Step::Fault(fault) => {
                self.faults_left = self.faults_left.saturating_sub(1);
                self.struck += 1;
                self.is_harmed |= !matches!(fault, Fault::Lose(_) | Fault::Delay(_));
                self.strike(fault)
            }
        }?;
        let is_held = self.server.keys(clock::server(self.now)).any(|key| key == NAME.as_bytes());
        self.watch.refused &= is_held && self.clients.iter().all(|client| client.beliefs.is_empty());
        self.watch.end_in_time(&self.clients)?;
        if !self.is_harmed {
            self.watch.passing.check(self.now, &self.server)?;
        }
        self.watch.check(self.now, &self.clients, &self.server, self.scenario.margin())
    }

    /// Whether nothing has gone wrong so far: each message arrived at the moment at which it was sent.
    pub(crate) const fn is_calm(&self) -> bool {
        self.struck == 0 && self.patience == 0
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = (u8, &Client)> {
        self.clients.iter().enumerate().map(|(place, client)| (place as u8, &**client))
    }

    pub(crate) fn client_mut(&mut self, place: u8) -> &mut Client {
        Arc::make_mut(&mut self.clients[usize::from(place)])
    }

    fn is_due(&self, client: &Client) -> bool {
        let timeout = client.engine.as_ref().and_then(Engine::poll_timeout);
        timeout.is_some_and(|(at, _)| clock::when(at) <= self.now)
    }

    /// Whether something must happen before time passes.
    fn is_busy(&self) -> bool {
        let acts =
            |user: &User| user.is_urgent(self.now) && (user.state != UserState::Idle || self.next_of(user).is_some());
        let urgent = |client: &Client| client.users.iter().any(acts);
        self.places().any(|(_, client)| match client.paused {
            Some(until) => until <= self.now,
            None => client.engine.is_some() && (urgent(client) || self.is_due(client)),
        })
    }

    /// Whether it can arrive now. What is for a client that stands still waits.
    fn arrives(&self, flight: &Flight) -> bool {
        let client = &self.clients[usize::from(flight.client)];
        matches!(flight.what, What::Command(..) | What::Subscribe(_)) || client.runs()
    }

    /// The next moment at which something can happen by itself: a timer, the end of a user's hold or of a pause, or the
    /// lease's end on the server.
    fn next_time(&self) -> Option<Micros> {
        // An observer asks for ever, although nobody does anything else.
        let observes = self.scenario.has(|action| *action == Action::Observe);
        let only_observes = observes && self.clients.iter().all(|client| !client.will_act());
        if self.is_over() || only_observes { None } else { self.next_moment() }
    }

    /// The same, although nobody wants anything any more.
    pub(crate) fn next_moment(&self) -> Option<Micros> {
        let of_client = |(_, client): (u8, &Client)| {
            if client.paused.is_some() {
                return client.paused;
            }
            let timer = client.engine.as_ref()?.poll_timeout().map(|(at, _)| clock::when(at));
            let holds = client.users.iter().filter_map(|user| match user.state {
                UserState::Holding(_, until) => Some(until),
                _ => None,
            });
            holds.chain(timer).min()
        };
        let expiry = self.server.expires(clock::server(self.now), NAME.as_bytes());
        let expiry = expiry.map(|last| (last + 1_000).saturating_sub(clock::SERVER_ORIGIN));
        self.places().filter_map(of_client).chain(expiry).filter(|at| *at > self.now).min()
    }

    pub(crate) fn send(&mut self, client: u8, what: What, since: Option<Micros>) {
        self.last_flight += 1;
        self.flights.push(Flight { number: self.last_flight, client, what, since, copied: false });
    }

    pub(crate) fn take_flight(&mut self, number: u16) -> Option<Flight> {
        let place = self.flights.iter().position(|flight| flight.number == number)?;
        Some(self.flights.remove(place))
    }
}
