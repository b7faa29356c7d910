//! The network between clients and servers: commands and messages are late, lost, duplicated and reordered.

use std::rc::Rc;

use leasehold_core::{Command, CommandId, Failure, Instant, Reply};
use leasehold_harness::{Micros, World};

use crate::client::{Delivery, SentCommand};
use crate::coverage::State;
use crate::faults::Fault;
use crate::invariants::waiters;
use crate::kinds::LockKind;
use crate::wire::{AcquireMode, Asked, ScriptCommand, is_fast};
use crate::world::{Arrival, ClusterRun, Event};

/// How late a command may be. A tombstone lasts 60 s.
pub(crate) const LATEST: Micros = 50_000_000;
/// How soon a client is told of a break.
const TOLD_WITHIN: Micros = 500_000;

/// How many commands may be under way even to a silent server.
pub(crate) const LEAST_WINDOW: usize = 16;

impl ClusterRun<'_> {
    /// An engine sends a command.
    pub(crate) fn send(&mut self, client: usize, id: CommandId, command: Command) {
        let command = Rc::new(command);
        let words: Vec<&[u8]> = command.words().collect();
        let batched = is_fast(&words);
        let read = Asked::read(&words).and_then(|asked| {
            asked.iter().map(|asked| Some((*asked, self.servers.name(asked.key)?))).collect::<Option<Vec<_>>>()
        });
        let Some(calls) = read.filter(|calls| (1..=64).contains(&calls.len())) else {
            let detail = format!("c{client} sends {command:?}");
            return self.watch.check(crate::invariants::broken("words", detail));
        };
        let name = calls[0].1;
        calls.iter().for_each(|(asked, _)| self.note_longest(client, &asked.script));
        self.keep_pace(client);
        let now = self.world.now;
        let it = &mut self.clients[client];
        let (life, at) = (it.life, it.clock.instant(now));
        it.sent.extend(calls.iter().enumerate().map(|(place, (Asked { script, entry, .. }, name))| SentCommand {
            id,
            leads: place == 0,
            entry: *entry,
            script: *script,
            name: *name,
            at,
            since: at,
            pauses: 0,
        }));
        // What a batch left undone leaves at once, alone, whatever is under way.
        let undone = if it.config.batches { 64 } else { 1 };
        // After a pause, the engine sends some again before it comes to the timeouts of others.
        let (known, unanswered) = (it.under_way(), it.unanswered(at));
        let most = usize::from(it.config.max_in_flight) + undone;
        if unanswered > most {
            let detail = format!("c{client} has {unanswered} commands under way, {most} at most are allowed");
            self.watch.check(crate::invariants::broken("in-flight", detail));
        }
        if known >= LEAST_WINDOW.min(most - undone) {
            it.full_at = Some(at);
        }
        if known >= LEAST_WINDOW {
            self.watch.full_until = now + 3_000_000;
        }
        if let Some((callers, _)) = waiters::counts(&words).filter(|_| self.mix.kinds[name] != LockKind::Semaphore) {
            let verdict = waiters::told(&self.clients[client], name, callers, at);
            self.watch.check(verdict);
        }
        for (asked, name) in &calls {
            self.note_sent(client, id, at, &words, &asked.script, *name);
        }
        let releases = |(asked, _): &(Asked<'_>, usize)| matches!(asked.script, ScriptCommand::Release { .. });
        let (there, back) = (self.world.rng.range(self.mix.trip), self.world.rng.range(self.mix.trip));
        for (asked, _) in &calls {
            match asked.script {
                ScriptCommand::Acquire { how: AcquireMode::Refill, .. } => {
                    self.entered_rare_state(State::Refilling, client)
                }
                ScriptCommand::Convert { .. } => self.entered_rare_state(State::Converting, client),
                ScriptCommand::Renew { .. } => self.entered_rare_state(State::Renewing, client),
                _ => {}
            }
        }
        if batched {
            self.entered_rare_state(State::Batching, client);
        }
        let server = self.servers.home(name);
        let arrival = Arrival {
            client,
            life,
            server,
            name,
            id,
            command: Rc::clone(&command),
            answers: 1,
            back,
            releases: calls.iter().any(releases),
            mixed: calls.iter().any(releases) && !calls.iter().all(releases),
        };
        self.pass(arrival, there);
    }

    /// The watchers hear of one call that leaves.
    fn note_sent(
        &mut self,
        client: usize,
        id: CommandId,
        at: Instant,
        words: &[&[u8]],
        script: &ScriptCommand,
        name: usize,
    ) {
        let deaf = self.clients[client].hears_since.is_none_or(|since| since > at);
        if deaf && matches!(script, ScriptCommand::Acquire { how: AcquireMode::Wait, .. }) {
            let detail = format!("c{client} joins a queue before its subscription is acknowledged");
            self.watch.check(crate::invariants::broken("joins-deaf", detail));
        }
        self.watch_sending(client, name, at, script);
        self.check_renewal(client, name, at, words, script);
        if self.world.transcript.is_written() {
            self.note_line(&format!("c{client}"), format_args!("  sends #{} {script:?} about {name}", id.0));
        }
    }

    /// Decides what happens to a command on its way.
    fn pass(&mut self, mut arrival: Arrival, mut there: Micros) {
        let (client, now) = (arrival.client, self.world.now);
        let cut = is_cut(&self.cuts, client, arrival.server, now);
        if cut || self.server(arrival.server).suffers(Fault::ServerCrash, now) {
            return fail(&mut self.world, &arrival, there, TOLD_WITHIN);
        }
        if there + arrival.back > 100_000 {
            self.trouble(client, now + there + arrival.back);
        }
        if self.strikes(Fault::Unavailable, client) {
            let failure = Failure::Unavailable("connection refused".into());
            return tell(&mut self.world, &arrival, there, Err(failure));
        }
        if self.strikes(Fault::CommandLost, client) {
            return fail(&mut self.world, &arrival, there, TOLD_WITHIN);
        }
        if self.strikes(Fault::Slow, client) {
            let slow = self.world.rng.range(self.mix.slow);
            if self.world.rng.chance(500_000) {
                there += slow
            } else {
                arrival.back += slow
            }
            self.trouble(client, now + there + arrival.back);
        }
        if self.strikes(Fault::CommandLate, client) {
            interrupt(&mut self.world, &arrival, there, TOLD_WITHIN);
            arrival.answers = 0;
            there += self.world.rng.spread((1_000, LATEST));
            self.trouble(client, now + there);
        } else if self.strikes(Fault::ReplyLost, client) {
            interrupt(&mut self.world, &arrival, there, TOLD_WITHIN);
            arrival.answers = 0;
        } else if !arrival.mixed && self.strikes(Fault::CommandTwice, client) {
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
        self.world.agenda.push(at, Event::Arrive(arrival));
    }

    /// The client's library sends it again. Both copies arrive before the answer, or the driver reports a break.
    fn double(&mut self, arrival: &mut Arrival, there: Micros) -> Micros {
        // A second release finds nothing, and says so. A driver never uses that as the answer.
        let first_answers = u32::from(arrival.releases);
        let first = Arrival { answers: first_answers, ..arrival.clone() };
        self.world.after(there, Event::Arrive(first));
        if first_answers > 0 || self.world.rng.chance(500_000) {
            arrival.answers -= first_answers;
            return there + self.world.rng.below(2 * self.mix.trip.1);
        }
        interrupt(&mut self.world, arrival, there, TOLD_WITHIN);
        arrival.answers = 0;
        let late = self.world.rng.spread((1_000, LATEST));
        self.trouble(arrival.client, self.world.now + there + late);
        there + late
    }

    /// Whether a single fault strikes a command now. If so, the client counts as in trouble.
    pub(crate) fn strikes(&mut self, fault: Fault, client: usize) -> bool {
        let strikes = self.faults_are_on() && self.world.rng.chance(self.mix.chance[fault.index()]);
        if strikes {
            self.note(fault, Some(client));
            self.trouble(client, self.world.now);
        }
        strikes
    }
}

/// Whether nothing passes between a client and a server.
pub(crate) fn is_cut(cuts: &[(usize, usize, Micros)], client: usize, server: usize, now: Micros) -> bool {
    cuts.iter().any(|cut| (cut.0, cut.1) == (client, server) && cut.2 > now)
}

/// A command does not arrive. The client may or may not be told, at most `within` later.
pub(crate) fn fail(world: &mut World<Event>, arrival: &Arrival, there: Micros, within: Micros) {
    if world.rng.chance(300_000) {
        tell(world, arrival, there, Err(Failure::Unavailable("connection refused".into())));
    } else {
        interrupt(world, arrival, there, within);
    }
}

/// The client is told of a break or a timeout, or of nothing.
pub(crate) fn interrupt(world: &mut World<Event>, arrival: &Arrival, there: Micros, within: Micros) {
    let failure = match world.rng.below(3) {
        0 => return,
        1 => Failure::Interrupted("connection reset".into()),
        _ => Failure::TimedOut,
    };
    let wait = world.rng.spread((100, within));
    tell(world, arrival, there + wait, Err(failure));
}

/// A command ends for its client.
pub(crate) fn tell(world: &mut World<Event>, arrival: &Arrival, after: Micros, result: Result<Reply, Failure>) {
    let Arrival { client, life, id, .. } = *arrival;
    world.after(after, Event::Deliver { client, life, what: Delivery::Reply(id, result) });
}
