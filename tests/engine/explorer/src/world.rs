//! A state of the exploration: clients, server, and everything in flight. It knows which steps are possible, and does
//! them.

use std::sync::Arc;

use leasehold_core::{
    Command, CommandId, Engine, Error, Failure, Input, LeaseId, LossReason, Mode, NodeId, OpId, Output, Reply, Scalar,
    Wait,
};
use leasehold_memory::Server;

use crate::client::{Belief, Client, UserState};
use crate::clock::{self, Micros, micros};
use crate::invariants::{Broken, Verdict, Watch, holders};
use crate::scenario::{Action, LONGEST_HOLD, NAME, RESPONSE_TIMEOUT, Scenario, TTL};
use crate::step::{Fault, Step};

/// The keys of the name. An eviction takes one of the first five.
pub(crate) const KEYS: [&str; 6] = [
    NAME,
    "leasehold:fence",
    "leasehold:{job}:queue",
    "leasehold:{job}:waiters",
    "leasehold:{job}:readers",
    "leasehold:{job}:none",
];

/// A holder that is gone.
pub(crate) const GHOST: &[u8] = b"gone:1 1700000000000000";

/// The last fence, from a second ago.
const OLD_FENCE: &[u8] = b"1799999999000000";

/// The server runs at most this many commands at one moment. Then a little time passes. A client whose fences are ahead
/// of the clock asks for more until the clock has caught up.
const MOST_AT_ONCE: u8 = 16;
/// How much time passes then.
const MOMENT: Micros = 2_000;

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

/// Something in flight.
#[derive(Clone)]
pub(crate) struct Flight {
    pub(crate) number: u16,
    pub(crate) client: u8,
    pub(crate) what: What,
    /// Since when it counts as in flight: a reply since its command was sent. None for something that is late.
    pub(crate) since: Option<Micros>,
    /// It is one of two copies, or can't be doubled.
    pub(crate) copied: bool,
}

/// What is in flight.
#[derive(Clone)]
pub(crate) enum What {
    Command(CommandId, Arc<Command>),
    /// With its command.
    Reply(CommandId, Arc<Command>, Arc<Result<Reply, Failure>>),
    Message(Arc<[u8]>),
    Subscribe,
    Subscribed,
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
            let able = it.users.iter().enumerate().filter(|(_, user)| user.next().is_some());
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
            Step::Wake(client) => self.feed(client, Input::Wake),
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
        self.watch.check(self.now, &self.clients, &self.server, self.scenario.margin())
    }

    /// Whether nothing has gone wrong so far: each message arrived at the moment at which it was sent.
    pub(crate) const fn is_calm(&self) -> bool {
        self.struck == 0 && self.patience == 0
    }

    fn places(&self) -> impl Iterator<Item = (u8, &Client)> {
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
        let urgent = |client: &Client| client.users.iter().any(|user| user.is_urgent(self.now));
        self.places().any(|(_, client)| match client.paused {
            Some(until) => until <= self.now,
            None => client.engine.is_some() && (urgent(client) || self.is_due(client)),
        })
    }

    /// Whether it can arrive now. What is for a client that stands still waits.
    fn arrives(&self, flight: &Flight) -> bool {
        let client = &self.clients[usize::from(flight.client)];
        matches!(flight.what, What::Command(..) | What::Subscribe) || client.runs()
    }

    /// The next moment at which something can happen by itself: a timer, the end of a user's hold or of a pause, or the
    /// lease's end on the server.
    fn next_time(&self) -> Option<Micros> {
        if self.is_over() { None } else { self.next_moment() }
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

    fn send(&mut self, client: u8, what: What, since: Option<Micros>) {
        self.last_flight += 1;
        self.flights.push(Flight { number: self.last_flight, client, what, since, copied: false });
    }

    pub(crate) fn take_flight(&mut self, number: u16) -> Option<Flight> {
        let place = self.flights.iter().position(|flight| flight.number == number)?;
        Some(self.flights.remove(place))
    }

    fn act(&mut self, client: u8, user: u8) -> Verdict {
        let (now, place) = (self.now, user);
        let it = self.client_mut(client);
        let op = it.new_op();
        let user = &mut it.users[usize::from(user)];
        let (Some(action), state) = (user.next(), user.state) else { return Ok(()) };
        user.rest = &user.rest[1..];
        match (action, state) {
            (Action::Acquire(mode), _) => self.acquire(client, place, op, mode, Wait::Forever),
            (Action::Try(mode), _) => self.acquire(client, place, op, mode, Wait::No),
            (Action::Cancel, UserState::Waiting(open)) => self.feed(client, Input::Cancel { op: open }),
            (Action::Convert(mode), UserState::Holding(lease, _)) => {
                user.state = UserState::Converting(op, lease);
                if let Some(belief) = it.belief(lease).filter(|belief| belief.until > now) {
                    belief.converts = true;
                }
                self.feed(client, Input::Convert { op, lease, mode })
            }
            (Action::Shorten(ttl), UserState::Holding(lease, _)) => {
                user.state = UserState::Shortening(op, lease);
                if let Some(belief) = it.belief(lease).filter(|belief| belief.until > now) {
                    belief.converts = true;
                }
                self.feed(client, Input::Shorten { op, lease, ttl })
            }
            (Action::Release, UserState::Holding(lease, _)) => {
                user.state = UserState::Releasing(op);
                // A lease that is over is reported as lost first.
                if it.belief(lease).is_some_and(|belief| belief.until > now) {
                    it.disbelieve(lease);
                }
                self.feed(client, Input::Release { op, lease })
            }
            _ => Ok(()),
        }
    }

    fn acquire(&mut self, client: u8, user: u8, op: OpId, mode: Mode, wait: Wait) -> Verdict {
        let options = self.scenario.options(mode, wait);
        self.client_mut(client).users[usize::from(user)].state = UserState::Waiting(op);
        self.feed(client, Input::Acquire { op, name: NAME, options: &options })
    }

    fn arrive(&mut self, number: u16) -> Verdict {
        let Some(Flight { client, what, since, copied, .. }) = self.take_flight(number) else { return Ok(()) };
        let node = NodeId(0);
        let heard = what.clone();
        match what {
            What::Command(id, command) => {
                let words: Vec<&[u8]> = command.words().collect();
                let had = holders(&self.server, clock::server(self.now));
                let reply = self.execute(&words)?;
                if !self.is_harmed {
                    self.watch.ran(self.now, &words, &reply, &had, &self.server)?;
                }
                self.send(client, What::Reply(id, command, Arc::new(reply)), since);
                self.drop_unheard();
                self.ran += 1;
                if self.ran == MOST_AT_ONCE {
                    (self.now, self.ran) = (self.now + MOMENT, 0);
                }
                Ok(())
            }
            What::Reply(id, _, result) => {
                let in_time = !copied && since.is_some_and(|since| self.now < since + micros(RESPONSE_TIMEOUT));
                let entered = entered_at(&result).filter(|_| in_time).unwrap_or(0);
                let lost = self.watch.lost_before(entered, &self.clients[usize::from(client)]);
                self.feed(client, Input::Reply { id, result: (*result).clone() })?;
                match self.clients[usize::from(client)].beliefs.iter().find(|belief| lost.contains(&belief.token)) {
                    Some(belief) => Err(Broken::new("loss-unnoticed", format!("{belief:?} was lost and taken anew"))),
                    None => Ok(()),
                }
            }
            What::Message(payload) => {
                if let Some(token) = revoked(&payload) {
                    self.client_mut(client).revoked.push(token);
                }
                // It was told before it knows of its own lease, and forgets that.
                let it = &self.clients[usize::from(client)];
                let has_lease = it.engine.as_ref().is_some_and(|engine| !engine.lingering().is_empty());
                self.watch.unheard |= it.beliefs.is_empty() && !has_lease;
                let channel = channel_of(&it.id);
                self.feed(client, Input::Message { node, channel: &channel, payload: &payload })
            }
            What::Subscribe => {
                self.client_mut(client).listens = true;
                self.send(client, What::Subscribed, since);
                self.drop_unheard();
                Ok(())
            }
            What::Subscribed => {
                let channel = channel_of(&self.clients[usize::from(client)].id);
                self.feed(client, Input::Subscribed { node, channel: &channel })
            }
        }?;
        self.hears(client, &heard);
        Ok(())
    }

    /// Nobody hears what is sent to a process that has died.
    pub(crate) fn drop_unheard(&mut self) {
        let Self { flights, clients, .. } = self;
        flights.retain(|flight| {
            let to_server = matches!(flight.what, What::Command(..) | What::Subscribe);
            to_server || clients[usize::from(flight.client)].engine.is_some()
        });
    }

    /// Runs a command on the server, and sends its messages.
    pub(crate) fn execute(&mut self, words: &[&[u8]]) -> Result<Result<Reply, Failure>, Broken> {
        let time = clock::server(self.now);
        let before = if self.struck > 0 { None } else { Some(self.server.clone()) };
        let executed = Arc::make_mut(&mut self.server).execute(time, words);
        let executed = executed.map_err(|error| Broken::new("server", error.to_string()))?;
        let converts = words.get(1) == Some(&leasehold_lua::CONVERT.sha1.as_bytes());
        self.watch.executed(time, before.filter(|_| !converts).as_deref(), &self.server)?;
        for message in executed.published {
            let listens = |client: &Arc<Client>| client.listens && channel_of(&client.id).as_bytes() == message.channel;
            if let Some(client) = self.clients.iter().position(listens) {
                self.send(client as u8, What::Message(message.payload.into()), Some(self.now));
            } else {
                self.watch.unheard = true;
            }
        }
        Ok(executed.reply.map_err(Failure::Refused))
    }

    /// Passes an input to an engine, and carries its outputs out.
    fn feed(&mut self, place: u8, input: Input<'_>) -> Verdict {
        let now = self.now;
        let client = self.client_mut(place);
        let over: Vec<LeaseId> = client.beliefs.iter().filter(|it| it.until <= now).map(|it| it.lease).collect();
        let Some(engine) = client.engine.as_mut() else { return Ok(()) };
        engine.handle(clock::client(now), input);
        let outputs: Vec<Output> = std::iter::from_fn(|| engine.poll_output()).collect();
        for output in outputs {
            match output {
                Output::Send { id, command, .. } => {
                    self.tells(place, &command)?;
                    self.send(place, What::Command(id, Arc::new(command)), Some(now));
                }
                Output::Subscribe { .. } => self.send(place, What::Subscribe, Some(now)),
                Output::Unsubscribe { .. } => self.client_mut(place).listens = false,
                Output::Completed { op, result } => self.completed(place, op, result)?,
                Output::Lost { lease, reason } => {
                    let is_taken = matches!(reason, LossReason::Gone | LossReason::Taken | LossReason::Revoked);
                    if is_taken && !self.is_harmed {
                        let detail =
                            format!("client {place} lost {lease:?} because of {reason:?}, and nothing took it");
                        return Err(Broken::new("lost-in-vain", detail));
                    }
                    let client = self.client_mut(place);
                    let Some(token) = client.belief(lease).map(|belief| belief.token.clone()) else {
                        return Err(Broken::new(
                            "lost-twice",
                            format!("client {place} lost {lease:?}, which it had not"),
                        ));
                    };
                    client.lost.push(token);
                    client.disbelieve(lease);
                    for user in &mut client.users {
                        if let UserState::Holding(held, until) = &mut user.state
                            && *held == lease
                        {
                            *until = now;
                        }
                    }
                }
                Output::Leader { .. } | Output::SendDedicated { .. } | Output::CloseDedicated { .. } => {}
            }
        }
        if let Some(late) = self.clients[usize::from(place)].beliefs.iter().find(|it| over.contains(&it.lease)) {
            return Err(Broken::new("loss-late", format!("client {place} is not told at {now} that {late:?} is over")));
        }
        self.refresh(place)
    }

    fn completed(
        &mut self,
        place: u8,
        op: OpId,
        result: Result<leasehold_core::Outcome, leasehold_core::Error>,
    ) -> Verdict {
        use leasehold_core::Outcome::{Acquired, Converted, Extended, Released};
        let now = self.now;
        let client = self.client_mut(place);
        let Some(user) = client.caller(op) else {
            return Err(Broken::new("ended-twice", format!("client {place}: {op:?} ended again: {result:?}")));
        };
        let was = user.state;
        let is_busy = matches!(result, Err(Error::Busy { .. }));
        match (result, was) {
            (Ok(Acquired(grant)), UserState::Waiting(_)) => {
                user.holds(grant.lease, now + LONGEST_HOLD);
                let token = client.token(grant.lease).unwrap_or_default();
                let belief = Belief::new(now, &grant, token);
                client.beliefs.push(belief.clone());
                self.in_order(place, op, &belief)?;
                if grant.local {
                    self.watch.handed_over(now, &belief)?;
                    self.hands_over(place, &belief)?;
                }
                self.watch.granted(clock::server(now), &belief)
            }
            (Ok(Converted(grant)), UserState::Converting(_, lease)) => {
                user.state = UserState::Holding(lease, now + LONGEST_HOLD);
                client.disbelieve(lease);
                let token = client.token(grant.lease).unwrap_or_default();
                let belief = Belief::new(now, &grant, token);
                client.beliefs.push(belief.clone());
                self.watch.granted(clock::server(now), &belief)
            }
            (Ok(Extended { .. }), UserState::Shortening(_, lease)) => {
                user.state = UserState::Holding(lease, now + LONGEST_HOLD);
                if let Some(belief) = client.belief(lease) {
                    belief.converts = false;
                }
                Ok(())
            }
            // It may go on, until the lease is over.
            (Err(_), UserState::Shortening(_, lease)) => {
                user.state = UserState::Holding(lease, now);
                Ok(())
            }
            (Err(_), UserState::Converting(_, lease)) => {
                // A conversion failed. The lease may be held as before, or lost.
                user.state = UserState::Holding(lease, now);
                let mode = client.engine.as_ref().and_then(|engine| engine.lease(lease)).map(|info| info.mode);
                if let (Some(belief), Some(mode)) = (client.belief(lease), mode) {
                    (belief.mode, belief.converts) = (mode, false);
                }
                Ok(())
            }
            (Ok(Released(_)) | Err(_), UserState::Releasing(_)) | (Err(_), UserState::Waiting(_)) => {
                user.goes_on();
                self.watch.refused |= is_busy && self.clients.iter().all(|client| client.beliefs.is_empty());
                Ok(())
            }
            (result, was) => Err(Broken::new("answer", format!("client {place}: {was:?} got {result:?}"))),
        }
    }

    /// What the client believes after an input.
    fn refresh(&mut self, place: u8) -> Verdict {
        let (now, max_hold) = (self.now, self.scenario.max_hold.map(micros));
        let client = self.client_mut(place);
        let mut beliefs = std::mem::take(&mut client.beliefs);
        for belief in &mut beliefs {
            let Some(engine) = &client.engine else { continue };
            let (until, info) = (engine.valid_until(belief.lease), engine.lease(belief.lease));
            let (Some(until), Some(info)) = (until, info) else {
                return Err(Broken::new("loss-untold", format!("client {place} has silently forgotten {belief:?}")));
            };
            (belief.until, belief.mode) = (clock::when(until), info.mode);
            if let Some(token) = client.token(belief.lease) {
                belief.token = token;
            }
            if belief.until <= now {
                return Err(Broken::new("loss-late", format!("client {place} still has {belief:?} at {now}")));
            }
            if client.revoked.contains(&belief.token) {
                return Err(Broken::new("revoked", format!("client {place} was told that it lost {belief:?}")));
            }
            if max_hold.is_some_and(|most| belief.until > belief.granted + most) {
                return Err(Broken::new("max-hold", format!("client {place} has {belief:?} for too long")));
            }
        }
        client.beliefs = beliefs;
        Ok(())
    }
}

impl Flight {
    /// Whether it is a command with this token.
    pub(crate) fn names(&self, token: &[u8]) -> bool {
        matches!(&self.what, What::Command(_, command) if names(command, token))
    }
}

/// Whether a command has this token.
pub(crate) fn names(command: &Command, token: &[u8]) -> bool {
    command.words().any(|word| word.strip_suffix(b" ").unwrap_or(word) == token)
}

/// When the server gave the lock to its client, if the answer says that.
fn entered_at(answer: &Result<Reply, Failure>) -> Option<u64> {
    let Ok(Reply::List(answer)) = answer else { return None };
    match answer.as_slice() {
        [Scalar::Text(status), _, _, Scalar::Int(at), ..] if **status == *b"entered" => u64::try_from(*at).ok(),
        _ => None,
    }
}

/// The token that an operator took, if the message says so.
fn revoked(payload: &[u8]) -> Option<Vec<u8>> {
    payload.strip_prefix(b"revoked ")?.split(|byte| *byte == b' ').next().map(<[u8]>::to_vec)
}

pub(crate) fn channel_of(id: &str) -> String {
    format!("leasehold:{id}")
}

/// How long something may be in flight without a fault, if messages may be slow.
pub(crate) const SLOW: Micros = micros(RESPONSE_TIMEOUT);
