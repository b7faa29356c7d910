//! What lies between clients and servers: commands and messages are late, lost, doubled, out of order.

use std::rc::Rc;

use leasehold_core::{CallId, Command, Failure, Reply};

use crate::client::{Delivery, Sent};
use crate::clock::Micros;
use crate::coverage::State;
use crate::faults::Fault;
use crate::wire::{Call, How};
use crate::world::{Arrival, Event, World};

/// How late a command may be. A tombstone lasts 60 s.
const LATEST: Micros = 50_000_000;

impl World<'_> {
    /// An engine sends a command.
    pub(crate) fn send(&mut self, client: usize, id: CallId, command: Command) {
        let words: Vec<&[u8]> = command.words().collect();
        let read = Call::read(&words).and_then(|(call, key)| Some((call, self.servers.name(key)?)));
        let Some((call, name)) = read else {
            let detail = format!("c{client} sends {command:?}");
            return self.watch.check(crate::invariants::broken("words", detail));
        };
        self.note_longest(client, &call);
        self.keep_pace(client);
        let now = self.now;
        let it = &mut self.clients[client];
        let (life, at) = (it.life, it.clock.instant(now));
        let patience = it.config.response_timeout;
        it.calls.retain(|sent| at.since(sent.at) < patience);
        it.calls.push(Sent { id, call, name, at });
        if matches!(call, Call::Acquire { how: How::Wait, .. }) && it.hears_since.is_none_or(|since| since > at) {
            let detail = format!("c{client} joins a queue before its subscription is acknowledged");
            self.watch.check(crate::invariants::broken("joins-deaf", detail));
        }
        let tenure = &mut self.watch.tenures[client][name];
        let holds = tenure.token;
        if let Call::Release { token, .. } = call {
            tenure.gives_back(token);
        }
        let verdict = self.watch.asking[client][name].sends(at, &call, holds);
        self.watch.check(verdict);
        if self.transcript.is_written() {
            self.note_line(&format!("c{client}"), format_args!("  sends #{} {call:?} about {name}", id.0));
        }
        let (there, back) = (self.rng.range(self.mix.trip), self.rng.range(self.mix.trip));
        match call {
            Call::Acquire { how: How::Refill, .. } => self.occasion(State::Refilling, client),
            Call::Convert { .. } => self.occasion(State::Converting, client),
            Call::Renew { .. } => self.occasion(State::Renewing, client),
            _ => {}
        }
        let server = self.servers.home(name);
        let arrival = Arrival {
            client,
            life,
            server,
            name,
            call: id,
            command: Rc::new(command),
            answers: 1,
            back,
            releases: matches!(call, Call::Release { .. }),
        };
        self.pass(arrival, there);
    }

    /// What becomes of a command on its way.
    fn pass(&mut self, mut arrival: Arrival, mut there: Micros) {
        let (client, now) = (arrival.client, self.now);
        let cut =
            self.cuts.iter().any(|(who, server, until)| *who == client && *server == arrival.server && *until > now);
        if cut || self.server(arrival.server).suffers(Fault::ServerCrash, now) {
            return self.fail(&arrival, there);
        }
        if there + arrival.back > 100_000 {
            self.trouble(client, now + there + arrival.back);
        }
        if self.strikes(Fault::Unavailable, client) {
            let failure = Failure::Unavailable("connection refused".into());
            return self.tell(&arrival, there, Err(failure));
        }
        if self.strikes(Fault::CommandLost, client) {
            return self.fail(&arrival, there);
        }
        if self.strikes(Fault::Slow, client) {
            let slow = self.rng.range(self.mix.slow);
            if self.rng.chance(500_000) {
                there += slow
            } else {
                arrival.back += slow
            }
            self.trouble(client, now + there + arrival.back);
        }
        if self.strikes(Fault::CommandLate, client) {
            self.interrupt(&arrival, there);
            arrival.answers = 0;
            there += self.rng.spread((1_000, LATEST));
            self.trouble(client, now + there);
        } else if self.strikes(Fault::ReplyLost, client) {
            self.interrupt(&arrival, there);
            arrival.answers = 0;
        } else if self.strikes(Fault::CommandTwice, client) {
            there = self.double(&mut arrival, there);
        } else if self.strikes(Fault::ReplyTwice, client) {
            arrival.answers = 2;
        }
        let at = now + there;
        let it = &mut self.clients[client];
        if at < it.last_arrival && self.mix.chance.iter().any(|chance| *chance > 0) {
            self.note(Fault::Reordered, Some(client));
        } else {
            it.last_arrival = at;
        }
        self.agenda.push(at, Event::Arrive(arrival));
    }

    /// The client's library sends it again by itself: both copies arrive before the answer, or the driver reports a break.
    fn double(&mut self, arrival: &mut Arrival, there: Micros) -> Micros {
        // A second release finds nothing, and says so: a driver never takes that for the answer.
        let first_answers = u32::from(arrival.releases);
        let first = Arrival {
            answers: first_answers,
            releases: arrival.releases,
            command: arrival.command.clone(),
            client: arrival.client,
            life: arrival.life,
            server: arrival.server,
            name: arrival.name,
            call: arrival.call,
            back: arrival.back,
        };
        self.agenda.push(self.now + there, Event::Arrive(first));
        if first_answers > 0 || self.rng.chance(500_000) {
            arrival.answers -= first_answers;
            return there + self.rng.below(2 * self.mix.trip.1);
        }
        self.interrupt(arrival, there);
        arrival.answers = 0;
        let late = self.rng.spread((1_000, LATEST));
        self.trouble(arrival.client, self.now + there + late);
        there + late
    }

    /// A command does not arrive; the client may or may not be told.
    fn fail(&mut self, arrival: &Arrival, there: Micros) {
        if self.rng.chance(300_000) {
            self.tell(arrival, there, Err(Failure::Unavailable("connection refused".into())));
        } else {
            self.interrupt(arrival, there);
        }
    }

    /// The client hears of a break, of a timeout, or nothing.
    fn interrupt(&mut self, arrival: &Arrival, there: Micros) {
        let failure = match self.rng.below(3) {
            0 => return,
            1 => Failure::Interrupted("connection reset".into()),
            _ => Failure::TimedOut,
        };
        let wait = self.rng.spread((100, 500_000));
        self.tell(arrival, there + wait, Err(failure));
    }

    fn tell(&mut self, arrival: &Arrival, after: Micros, result: Result<Reply, Failure>) {
        let what = Delivery::Reply(arrival.call, result);
        self.agenda.push(self.now + after, Event::Deliver { client: arrival.client, life: arrival.life, what });
    }

    /// Whether a passing fault strikes a command now. If so the client has trouble.
    fn strikes(&mut self, fault: Fault, client: usize) -> bool {
        let strikes = self.faults_are_on() && self.rng.chance(self.mix.chance[fault.index()]);
        if strikes {
            self.note(fault, Some(client));
            self.trouble(client, self.now);
        }
        strikes
    }

    /// A message leaves for a subscriber.
    pub(crate) fn send_message(&mut self, client: usize, payload: Vec<u8>) {
        let mut after = self.rng.range(self.mix.trip);
        if self.strikes(Fault::MessageLost, client) {
            return;
        }
        if self.strikes(Fault::MessageLate, client) {
            after += self.rng.spread((1_000, 10_000_000));
            self.calm_since = self.calm_since.max(self.now + after);
        }
        let life = self.clients[client].life;
        if self.strikes(Fault::MessageTwice, client) {
            let again = after + self.rng.spread((1, 5_000_000));
            let what = Delivery::Message(payload.clone());
            self.agenda.push(self.now + again, Event::Deliver { client, life, what });
        }
        self.agenda.push(self.now + after, Event::Deliver { client, life, what: Delivery::Message(payload) });
        if self.strikes(Fault::SubscriptionBreaks, client) {
            self.break_subscription(client);
        }
    }

    /// The client gets no more messages, and learns it some time later.
    pub(crate) fn break_subscription(&mut self, client: usize) {
        let it = &mut self.clients[client];
        if !it.subscribed {
            return;
        }
        it.subscribed = false;
        let life = it.life;
        let after = self.rng.spread((100, 3_000_000));
        self.calm_since = self.calm_since.max(self.now + after);
        let what = Delivery::Unsubscribed(Failure::Interrupted("connection reset".into()));
        self.agenda.push(self.now + after, Event::Deliver { client, life, what });
    }

    /// An engine subscribes.
    pub(crate) fn subscribe(&mut self, client: usize) {
        let it = &mut self.clients[client];
        let life = it.life;
        // Without an answer it may go on after its timeout.
        it.hears_since = it.hears_since.or(Some(it.clock.instant(self.now) + it.config.response_timeout));
        let after = self.rng.range(self.mix.trip);
        let failure = if self.clients[client].mute {
            Some(Failure::Unsupported("no messages on this host".into()))
        } else if self.strikes(Fault::SubscriptionBreaks, client) {
            Some(Failure::Interrupted("connection reset".into()))
        } else {
            None
        };
        match failure {
            Some(failure) => {
                let what = Delivery::Unsubscribed(failure);
                self.agenda.push(self.now + after, Event::Deliver { client, life, what });
            }
            None => self.agenda.push(self.now + after, Event::Subscribe { client, life }),
        }
    }

    /// An engine unsubscribes. Until its server knows, messages go on.
    pub(crate) fn unsubscribe(&mut self, client: usize) {
        let mut after = self.rng.range(self.mix.trip);
        if self.strikes(Fault::Slow, client) {
            after += self.rng.range(self.mix.slow);
        }
        let life = self.clients[client].life;
        self.agenda.push(self.now + after, Event::Unsubscribe { client, life });
    }

    /// The end of a subscription reaches its server.
    pub(crate) fn unsubscribe_arrives(&mut self, client: usize, life: crate::wire::Life) {
        let it = &mut self.clients[client];
        it.subscribed &= it.life != life;
    }

    /// A subscription reaches its server.
    pub(crate) fn subscribe_arrives(&mut self, client: usize, life: crate::wire::Life) {
        let down = self.servers.list[0].suffers(Fault::ServerCrash, self.now);
        let it = &mut self.clients[client];
        if it.life != life || it.engine.is_none() {
            return;
        }
        it.subscribed = !down;
        let what = if down {
            Delivery::Unsubscribed(Failure::Unavailable("connection refused".into()))
        } else {
            Delivery::Subscribed
        };
        let after = self.rng.range(self.mix.trip);
        self.agenda.push(self.now + after, Event::Deliver { client, life, what });
    }
}
