//! An engine with its labels, and what is around it: users, a server in memory, a clock. An input decides what happens.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use leasehold_core::{
    AcquireOptions, CLOSE_SETTINGS, ClientId, Command, CommandId, Config, Engine, Error, Failure, Input, Instant, Kind,
    Labels, LeaseId, LeaseToken, Mode, NodeId, OpId, Outcome, Output, Owner, Part, Reason, ReleaseOutcome, Replicas,
    Reply, Setter, Wait, check_label,
};
use leasehold_memory::Server;

use crate::backing::{Backing, script_of};
use crate::names::{ADOPTED, NAMES, known};
use crate::script::{Step, Words, scalar};

/// The server's clock at the engine's time zero, in µs.
const EPOCH_US: u64 = 1_800_000_000_000_000;
/// Longer TTLs only make the end of a run longer.
const MOST_TTL_MS: u64 = 60_000;
/// A run that takes more steps to its end hangs.
const MOST_WAKES: usize = 100_000;
/// The longest time of a drain.
const MOST_DRAIN_MS: u64 = CLOSE_SETTINGS[0].bounds.most;
const HOUR_US: u64 = 3_600_000_000;
/// More outputs of one input are no end of them.
const MOST_OUTPUTS: usize = 100_000;

/// Who answers the commands while a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answering {
    /// The server in memory.
    Server,
    /// Nobody.
    Nobody,
}

/// A command without a reply.
struct Sent {
    id: CommandId,
    node: NodeId,
    command: Command,
    at: u64,
}

/// What a call of a user is about.
#[derive(Clone, Debug)]
enum About {
    Names(Vec<&'static str>),
    Lease(u64),
    Client,
}

struct Held {
    names: Vec<&'static str>,
    mode: Mode,
    holds: u32,
}

/// Everything around one engine. Its methods panic when a rule is broken.
pub struct World {
    engine: Engine,
    labels: Option<Labels>,
    client: String,
    servers: Vec<Server>,
    now: u64,
    sent: VecDeque<Sent>,
    dedicated: BTreeMap<u64, Command>,
    ops: BTreeMap<u64, About>,
    leases: BTreeMap<u64, Held>,
    /// The leases that were ever granted.
    granted: Vec<u64>,
    used: BTreeSet<u64>,
    channels: BTreeSet<String>,
    backing: Backing,
    last_op: u64,
    last_command: u64,
    drains: bool,
    closed: bool,
}

impl World {
    /// The first line may choose the kind of client: `quorum`, `cluster`, `mixed`, `batches` and `handoffs=N`.
    pub fn new(line: &str) -> Self {
        let words = || line.split_ascii_whitespace();
        let has = |wanted: &str| words().any(|word| word == wanted);
        let handoffs = words().find_map(|word| word.strip_prefix("handoffs=")?.parse().ok());
        let config = Config {
            batches: has("batches"),
            mixed_fleet: has("mixed"),
            local_handoffs: handoffs.filter(|handoffs| *handoffs <= 1023),
            ..Config::default()
        };
        let id = ClientId::from_random([7; 16]);
        let members: &[&str] = if has("quorum") { &["one", "two", "three"] } else { &[] };
        let engine = if members.is_empty() { Engine::new(id, config) } else { Engine::quorum(id, config, members) };
        let mut engine = engine.expect("valid options");
        let mut labels = members.is_empty().then(|| Labels::new(id, "me").with_leases(""));
        if has("cluster") {
            engine.set_cluster(NodeId(0));
            labels.iter_mut().for_each(Labels::set_cluster);
        }
        Self {
            engine,
            labels,
            client: id.to_string(),
            servers: vec![Server::default(); members.len().max(1)],
            now: 1_000_000,
            sent: VecDeque::new(),
            dedicated: BTreeMap::new(),
            ops: BTreeMap::new(),
            leases: BTreeMap::new(),
            granted: Vec::new(),
            used: BTreeSet::new(),
            channels: BTreeSet::new(),
            backing: Backing::default(),
            last_op: 0,
            last_command: 0,
            drains: false,
            closed: false,
        }
    }

    /// Runs one step. `$own` becomes the client's id, and `$now` the server's time.
    pub fn step(&mut self, step: Step<'_>) {
        let rest = self.filled_in(step.rest);
        let step = Step { verb: step.verb, rest: &rest };
        let mut words = step.words();
        match step.verb {
            "acquire" => self.acquire(words),
            "adopt" => self.adopt(words),
            "multi" => self.acquire_all(words),
            "cancel" => {
                let op = number(&mut words).unwrap_or(self.last_op);
                self.input(Input::Cancel { op: OpId(op) });
            }
            "release" | "extend" | "shorten" | "detach" | "convert" | "hold" | "verify" | "keep" | "export"
            | "stop-renewing" => self.about_a_lease(step.verb, words),
            "inspect" => self.about_a_name(words, |op, name| Input::Inspect { op, name }),
            "force" => self.about_a_name(words, |op, name| Input::ForceRelease { op, name, foreign: false }),
            "force-foreign" => self.about_a_name(words, |op, name| Input::ForceRelease { op, name, foreign: true }),
            "drain" => self.drain(number(&mut words).unwrap_or(1_000)),
            "close" => self.close(),
            "pass" => self.pass(number(&mut words).unwrap_or(1).min(100_000)),
            // The driver is late, or is told of something else first.
            "sleep" => self.now += number(&mut words).unwrap_or(1).min(100_000_000),
            "wake" => self.until_something_is_due(),
            "answer" => self.reply(Ok(Reply::List(words.map(scalar).collect()))),
            "one" => self.reply(Ok(Reply::One(scalar(&rest)))),
            "serve" => self.serve(number(&mut words).unwrap_or(1).min(100)),
            "server" => self.other_client(&words.collect::<Vec<_>>()),
            "dedicated" => self.dedicated_reply(Ok(Reply::List(words.map(scalar).collect()))),
            "replicas" => self.dedicated_reply(Ok(Reply::One(scalar(&rest)))),
            "message" => self.message(&format!("leasehold:{}", self.client), rest.as_bytes()),
            "channel" => {
                let (channel, payload) = rest.split_once(' ').unwrap_or((&rest, ""));
                self.message(channel, payload.as_bytes());
            }
            "subscribed" => self.subscribed(),
            "unsubscribed" => {
                if let (Some(channel), Some(cause)) = (self.channels.pop_first(), failure(words.next(), "it ended")) {
                    self.event(Input::Unsubscribed { node: NodeId(0), channel: &channel, cause });
                }
            }
            "other" => self.other_reply(words),
            "reply" => self.any_reply(words),
            "lose" => self.nobody_answers(),
            verb => {
                if let Some(failure) = failure(Some(verb), &rest) {
                    self.reply(Err(failure));
                }
            }
        }
    }

    /// Users give up what they wait for and what they have. Then everything must end, and nothing may be left.
    pub fn end(mut self, answering: Answering) {
        let waits = self.ops.iter().filter(|(_, about)| matches!(about, About::Names(_))).map(|(op, _)| *op);
        for op in waits.collect::<Vec<_>>() {
            self.input(Input::Cancel { op: OpId(op) });
        }
        for _ in 0..MOST_WAKES {
            let Some(lease) = self.leases.keys().next().copied() else { break };
            self.release(lease);
        }
        for wake in 0..MOST_WAKES {
            match answering {
                Answering::Server => self.serve(u64::MAX),
                Answering::Nobody => self.nobody_answers(),
            }
            self.dedicated.clear();
            self.subscribed();
            let Some(at) = self.due() else { break };
            // A server may tell of a TTL of many years. So the process sleeps for an hour before each late wake-up.
            let sleep = if wake < MOST_WAKES / 2 { 0 } else { HOUR_US };
            self.now = self.now.max(at) + sleep;
            self.input(Input::Wake);
        }
        assert!(self.ops.is_empty(), "these calls never ended: {:?}", self.ops);
        assert!(self.engine.is_idle(), "the engine has kept something");
    }

    /// How many leases were granted.
    pub fn grants(&self) -> usize {
        self.granted.len()
    }

    /// How many leases users have.
    pub fn leases(&self) -> usize {
        self.leases.len()
    }

    /// A message on any channel, as any bytes.
    pub fn message(&mut self, channel: &str, payload: &[u8]) {
        if let Ok(text) = std::str::from_utf8(payload) {
            self.backing.note_waiting(self.now, text);
        }
        self.event(Input::Message { node: NodeId(0), channel, payload });
    }

    /// The text with what only the world knows.
    pub fn filled_in(&self, text: &str) -> String {
        text.replace("$own", &self.client).replace("$now", &self.server_time().to_string())
    }
}

/// What users do.
impl World {
    fn acquire(&mut self, mut words: Words<'_>) {
        let Some(name) = words.next().and_then(known) else { return };
        let mut options = options(words);
        // A name has one kind: a server refuses another one.
        match name {
            "r" => options.kind = Kind::Reentrant(Owner(u64::from(options.renew))),
            "s" if options.kind == Kind::Lock => options.kind = Kind::Semaphore { permits: 1, limit: 3 },
            "s" => {}
            _ => options.kind = Kind::Lock,
        }
        let about = About::Names(vec![name]);
        self.ask_for(&about, &options);
        let op = self.new_op(about);
        self.input(Input::Acquire { op, name, options: &options });
    }

    /// `adopt NAME TOKEN OPTIONS`
    fn adopt(&mut self, mut words: Words<'_>) {
        let (name, token) = (words.next().and_then(known), words.next().and_then(|text| LeaseToken::read(text).ok()));
        let (Some(name), Some(token)) = (name, token) else { return };
        let (about, options) = (About::Names(vec![name]), options(words));
        self.ask_for(&about, &options);
        let op = self.new_op(about);
        self.input(Input::Adopt { op, name, token, options: &options });
    }

    fn acquire_all(&mut self, words: Words<'_>) {
        let all: Vec<&str> = words.collect();
        // A reentrant lock stays one.
        let is_part = |word: &str| known(word).is_some_and(|name| name != "r");
        let (names, rest): (Vec<&str>, Vec<&str>) = all.iter().partition(|word| is_part(word));
        let rest = rest.join(" ");
        let options = AcquireOptions { kind: Kind::Lock, ..options(rest.split_ascii_whitespace()) };
        let about = About::Names(names.iter().filter_map(|name| known(name)).collect());
        self.ask_for(&about, &options);
        let op = self.new_op(about);
        let one_script = rest.contains("one-script");
        let mut parts = Part::mutexes(&names);
        for part in parts.iter_mut().filter(|part| part.name == "s") {
            part.kind = Kind::Semaphore { permits: 1, limit: 3 };
        }
        self.input(Input::AcquireAll { op, parts: &parts, options: &options, one_script });
    }

    fn ask_for(&mut self, about: &About, options: &AcquireOptions) {
        let About::Names(names) = about else { return };
        let ttl = u64::try_from(options.ttl.as_millis()).unwrap_or(u64::MAX);
        names.iter().for_each(|name| self.backing.asked(name, ttl));
    }

    /// `release N`: the lease that was granted as the Nth, and without a number the first one that is held.
    fn about_a_lease(&mut self, verb: &str, mut words: Words<'_>) {
        let place = number(&mut words);
        let chosen = place.and_then(|place| self.granted.get(usize::try_from(place).ok()?).copied());
        let id = chosen.or_else(|| self.leases.keys().next().copied()).unwrap_or_default();
        let lease = LeaseId(id);
        let asked = number(&mut words).unwrap_or(1_000);
        let ms = asked.min(MOST_TTL_MS);
        // Nobody may have the longest time.
        let time = Duration::from_millis(if asked == u64::MAX { asked } else { ms });
        if verb == "release" {
            return self.release(id);
        }
        if verb == "keep" {
            return self.input(Input::Keep { lease, until: Instant::from_micros(self.now) + time });
        }
        if verb == "stop-renewing" {
            return self.input(Input::StopRenewing { lease });
        }
        if let Some(held) = self.leases.get(&id) {
            held.names.iter().for_each(|name| self.backing.asked(name, ms));
        }
        let op = self.new_op(About::Lease(id));
        let mode = if ms.is_multiple_of(2) { Mode::Shared } else { Mode::Exclusive };
        self.input(match verb {
            "extend" => Input::Extend { op, lease, ttl: time },
            "shorten" => Input::Shorten { op, lease, ttl: time },
            "detach" => Input::Detach { op, lease, time: (ms > 0).then_some(time) },
            "convert" => Input::Convert { op, lease, mode },
            "hold" => Input::Hold { op, lease },
            "export" => Input::Export { op, lease },
            _ => Input::Verify { op, lease },
        });
        if verb == "detach" && self.engine.lease(lease).is_none() {
            self.leases.remove(&id);
        }
    }

    /// After the last hold's release the lease has ended for its holder, with any answer of the server.
    fn release(&mut self, id: u64) {
        let valid = self.engine.valid_until(LeaseId(id)).is_some_and(|at| at.as_micros() > self.now);
        // A lease whose time is over is lost first.
        if let Some(held) = self.leases.get_mut(&id).filter(|_| valid) {
            held.holds -= 1;
            if held.holds == 0 {
                self.leases.remove(&id);
            }
        }
        let op = self.new_op(About::Lease(id));
        self.input(Input::Release { op, lease: LeaseId(id) });
    }

    fn about_a_name(&mut self, mut words: Words<'_>, input: fn(OpId, &str) -> Input<'_>) {
        let Some(name) = words.next() else { return };
        let op = self.new_op(About::Client);
        let input = input(op, name);
        if let (Input::Inspect { .. }, Some(labels)) = (&input, &mut self.labels) {
            labels.inspects(op, name);
        }
        self.input(input);
    }

    /// Nobody gets anything more, and the holders have this many milliseconds.
    fn drain(&mut self, ms: u64) {
        // Losses that are due at this very moment come first.
        self.input(Input::Wake);
        let op = self.new_op(About::Client);
        self.drains |= ms <= MOST_DRAIN_MS;
        self.input(Input::Drain { op, grace: Duration::from_millis(ms) });
    }

    fn close(&mut self) {
        let op = self.new_op(About::Client);
        self.leases.clear();
        self.closed = true;
        if let Some(labels) = &mut self.labels {
            labels.close();
        }
        self.input(Input::Close { op });
    }

    fn new_op(&mut self, about: About) -> OpId {
        self.last_op += 1;
        self.ops.insert(self.last_op, about);
        OpId(self.last_op)
    }
}

/// What the server and the clock do.
impl World {
    /// The oldest command gets this reply.
    fn reply(&mut self, result: Result<Reply, Failure>) {
        if let Some(sent) = self.sent.pop_front() {
            self.reply_to(&sent, result);
        }
    }

    /// `other N WORDS`: the command in place N gets a reply, before older ones.
    fn other_reply(&mut self, mut words: Words<'_>) {
        let place = number(&mut words).and_then(|place| usize::try_from(place).ok());
        if let Some(sent) = place.and_then(|place| self.sent.remove(place)) {
            self.reply_to(&sent, Ok(Reply::List(words.map(scalar).collect())));
        }
    }

    /// `reply ID WORDS`: the command with this number gets a reply, also one that had an answer, and one that never was.
    fn any_reply(&mut self, mut words: Words<'_>) {
        let id = CommandId(number(&mut words).unwrap_or_default());
        let result = Ok(Reply::List(words.map(scalar).collect()));
        match self.sent.iter().position(|sent| sent.id == id).and_then(|place| self.sent.remove(place)) {
            Some(sent) => self.reply_to(&sent, result),
            None => self.input(Input::Reply { id, result }),
        }
    }

    fn reply_to(&mut self, sent: &Sent, result: Result<Reply, Failure>) {
        if let Ok(reply) = &result {
            let words: Vec<&[u8]> = sent.command.words().collect();
            let names: Vec<_> = NAMES.into_iter().filter(|name| words.contains(&name.as_bytes())).collect();
            self.backing.replied(&names, sent.at, &sent.command, reply);
        }
        let now = Instant::from_micros(self.now);
        let of_labels = self.labels.as_mut().is_some_and(|labels| labels.takes(now, sent.id, &result, &self.engine));
        if of_labels {
            return self.settle();
        }
        self.input(Input::Reply { id: sent.id, result });
    }

    /// The server in memory answers the oldest commands.
    fn serve(&mut self, most: u64) {
        for _ in 0..most.min(10_000) {
            let Some(sent) = self.sent.pop_front() else { return };
            let now = self.server_time();
            let Some(server) = self.servers.get_mut(usize::from(sent.node.0)) else { continue };
            let words: Vec<&[u8]> = sent.command.words().collect();
            let executed = server.execute(now, &words).expect("time goes on");
            self.reply_to(&sent, executed.reply.map_err(Failure::Refused));
            let own = format!("leasehold:{}", self.client);
            for message in executed.published.iter().filter(|message| message.channel == own.as_bytes()) {
                self.message(&own, &message.payload);
            }
        }
    }

    /// Another client sends a command.
    fn other_client(&mut self, words: &[&str]) {
        let now = self.server_time();
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        if let Some(server) = self.servers.first_mut() {
            let _ = server.execute(now, &words).expect("time goes on").reply;
        }
    }

    /// The engine has its own response timeout. The labels rely on the driver's.
    fn nobody_answers(&mut self) {
        let sent = std::mem::take(&mut self.sent);
        for sent in sent.iter().filter(|sent| script_of(&sent.command).is_empty()) {
            self.reply_to(sent, Err(Failure::TimedOut));
        }
    }

    fn dedicated_reply(&mut self, result: Result<Reply, Failure>) {
        if let Some((op, _)) = self.dedicated.pop_first() {
            self.input(Input::DedicatedReply { op: OpId(op), result });
        }
    }

    fn subscribed(&mut self) {
        for channel in self.channels.clone() {
            self.event(Input::Subscribed { node: NodeId(0), channel: &channel });
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now += ms * 1_000;
        self.input(Input::Wake);
    }

    fn until_something_is_due(&mut self) {
        let at = self.due().unwrap_or_default();
        // A wait of days is no reason to let the clock run.
        self.now = self.now.max(at.min(self.now + 100_000_000));
        self.input(Input::Wake);
    }

    fn due(&self) -> Option<u64> {
        let engine = self.engine.poll_timeout().map(|(at, _)| at);
        let labels = self.labels.as_ref().and_then(|labels| labels.poll_timeout(self.uses_locks()));
        engine.into_iter().chain(labels).min().map(Instant::as_micros)
    }

    fn uses_locks(&self) -> bool {
        !self.leases.is_empty() || !self.ops.is_empty()
    }

    fn server_time(&self) -> u64 {
        EPOCH_US + self.now
    }
}

/// The engine's side.
impl World {
    /// An input that may be about labels.
    fn event(&mut self, input: Input<'_>) {
        let now = Instant::from_micros(self.now);
        let of_labels = self.labels.as_mut().is_some_and(|labels| match &input {
            Input::Message { channel, payload, .. } => labels.hears(now, channel, payload),
            Input::Subscribed { channel, .. } => labels.channel(channel, None),
            Input::Unsubscribed { channel, cause, .. } => labels.channel(channel, Some(cause)),
            _ => false,
        });
        if of_labels { self.settle() } else { self.input(input) }
    }

    fn input(&mut self, input: Input<'_>) {
        let now = Instant::from_micros(self.now);
        let is_wake = matches!(input, Input::Wake);
        self.engine.handle(now, input);
        let uses_locks = self.uses_locks();
        if let Some(labels) = self.labels.as_mut().filter(|_| is_wake) {
            labels.wake(now);
            if uses_locks {
                labels.keep(now, || None);
            }
        }
        self.settle();
        // A reply makes room for a batch that has waited since earlier. It leaves with the next wake-up.
        let is_overdue = |(at, reason): &(Instant, Reason)| at.as_micros() <= self.now && *reason != Reason::Batch;
        let overdue = self.engine.poll_timeout().filter(is_overdue);
        assert!(overdue.is_none(), "{overdue:?} is due, and nothing was done");
    }

    /// Takes everything that the engine and the labels have to say, as a driver does.
    fn settle(&mut self) {
        for _ in 0..MOST_OUTPUTS {
            let Some(mut output) = self.engine.poll_output() else { return self.settle_labels() };
            let now = Instant::from_micros(self.now);
            if !self.labels.as_mut().is_some_and(|labels| labels.holds_back(|| now, &mut output)) {
                self.observe(output);
            }
        }
        panic!("no end of outputs");
    }

    fn settle_labels(&mut self) {
        let now = Instant::from_micros(self.now);
        let (mut sent, mut completed) = (Vec::new(), Vec::new());
        if let Some(labels) = &mut self.labels {
            while let Some(question) = labels.poll_question() {
                let lease = [Some((now, Some("my lease")))].into_iter();
                labels.answer(now, &question, lease.clone(), lease);
            }
            self.channels.extend(labels.wants_channel());
            sent.extend(std::iter::from_fn(|| labels.poll_command()));
            completed.extend(std::iter::from_fn(|| labels.poll_completed()));
        }
        self.sent.extend(sent.into_iter().map(|(id, command)| Sent { id, node: NodeId(0), command, at: self.now }));
        completed.into_iter().for_each(|(op, outcome)| self.completed(op, Ok(outcome)));
        self.holders_are_apart();
    }

    fn observe(&mut self, output: Output) {
        match output {
            Output::Send { id, node, command } => {
                assert!(!script_of(&command).is_empty(), "it runs no script of ours: {command:?}");
                assert!(id.0 > self.last_command || self.servers.len() > 1, "{id:?} was used before");
                self.last_command = id.0;
                self.sent.push_back(Sent { id, node, command, at: self.now });
            }
            Output::SendDedicated { op, command } => {
                assert!(self.ops.contains_key(&op.0), "{op:?} has ended, and sends");
                self.dedicated.insert(op.0, command);
            }
            Output::CloseDedicated { op } => self.dedicated.retain(|known, _| *known != op.0),
            Output::Subscribe { channel, .. } => {
                assert!(!self.closed, "closed, and subscribes");
                self.channels.insert(channel);
            }
            Output::Unsubscribe { channel, .. } => self.channels.retain(|known| *known != channel),
            Output::Completed { op, result } => self.completed(op, result),
            Output::Leader { op, .. } => assert!(self.ops.contains_key(&op.0), "{op:?} has ended, and observes"),
            Output::Lost { lease, reason } => {
                let held = self.leases.remove(&lease.0);
                assert!(held.is_some(), "{lease:?} is lost ({reason}), but was not held");
            }
        }
    }

    fn completed(&mut self, op: OpId, result: Result<Outcome, Error>) {
        assert!(!self.dedicated.contains_key(&op.0), "the connection of {op:?} stays open");
        let about = self.ops.remove(&op.0).unwrap_or_else(|| panic!("{op:?} ended twice: {result:?}"));
        match (about, result) {
            (_, Err(error)) => {
                assert!(!error.code().is_empty() && error.to_string().len() < 100_000, "{error:?}");
            }
            (About::Names(names), Ok(Outcome::Acquired(grant))) => {
                self.backing.check(names[0], grant.fence, grant.valid_until.as_micros());
                self.acquired(names, grant.lease, grant.mode, grant.valid_until);
            }
            (About::Names(names), Ok(Outcome::AcquiredAll { lease, fences, valid_until })) => {
                assert_eq!(names.len(), fences.len(), "one fence for each name");
                for (name, fence) in names.iter().zip(&fences) {
                    self.backing.check(name, *fence, valid_until.as_micros());
                }
                self.acquired(names, lease, Mode::Exclusive, valid_until);
            }
            (About::Names(_), Ok(outcome)) => panic!("{outcome:?} of an acquire"),
            (About::Lease(lease), Ok(outcome)) => self.done_to(lease, &outcome),
            (About::Client, Ok(Outcome::Inspected(inspection))) => {
                let holders = inspection.holders.iter().flat_map(|holder| [&holder.label, &holder.lease_label]);
                let waiters = inspection.waiters.iter().flat_map(|waiter| [&waiter.label, &waiter.lease_label]);
                for label in holders.chain(waiters).flatten() {
                    assert_eq!(check_label(label), Ok(()), "a label that nobody may have: {label:?}");
                }
            }
            (About::Client, Ok(_)) => {}
        }
    }

    fn acquired(&mut self, names: Vec<&'static str>, lease: LeaseId, mode: Mode, until: Instant) {
        assert!(until.as_micros() > self.now, "{names:?} is over when it begins");
        assert!(!self.closed, "closed, and grants {names:?}");
        if let Some(held) = self.leases.get_mut(&lease.0).filter(|held| held.names == ["r"]) {
            held.holds += 1;
            return;
        }
        assert!(!self.drains, "drains, and grants {names:?}");
        assert!(self.used.insert(lease.0), "{lease:?} of {names:?} was used before");
        self.granted.push(lease.0);
        self.leases.insert(lease.0, Held { names: names.clone(), mode, holds: 1 });
    }

    /// After a lease has ended, nothing succeeds for it any more.
    fn done_to(&mut self, id: u64, outcome: &Outcome) {
        let Some(held) = self.leases.get_mut(&id) else {
            // A detached lease ends before its call does.
            let fits = matches!(outcome, Outcome::Released(_) | Outcome::Verified(false) | Outcome::Exported(_));
            return assert!(fits, "{outcome:?} for lease {id}, which has ended");
        };
        let names = held.names.clone();
        match outcome {
            Outcome::Released(released) => assert_eq!(*released, ReleaseOutcome::StillHeld, "lease {id} is held"),
            Outcome::Held(holds) => held.holds = *holds,
            Outcome::Extended { valid_until } => {
                names.iter().for_each(|name| self.backing.check_until(name, valid_until.as_micros()));
            }
            Outcome::Converted(grant) => {
                held.mode = grant.mode;
                self.backing.check(names[0], grant.fence, grant.valid_until.as_micros());
            }
            _ => {}
        }
    }

    /// Checked after all outputs of an input, because a user sees none before its driver has taken them all.
    fn holders_are_apart(&self) {
        // Each adopted lease has a token of its own.
        for name in NAMES.into_iter().filter(|name| !["s", ADOPTED].contains(name)) {
            let modes = || self.leases.values().filter(|held| held.names.contains(&name)).map(|held| held.mode);
            let apart = modes().count() < 2 || modes().all(|mode| mode == Mode::Shared);
            assert!(apart, "{name} is held at once as {:?}", modes().collect::<Vec<_>>());
        }
    }
}

/// The options of an acquire: `shared`, `fixed`, `try`, `forever`, `replicas`, `ttl=MS`, `wait=MS`, `within=MS`, `permits=N`, and the
/// plain ones of the engine's table, such as `max-hold=MS`.
fn options(words: Words<'_>) -> AcquireOptions {
    let mut options = AcquireOptions::default();
    for word in words {
        let (word, value) = word.split_once('=').unwrap_or((word, ""));
        let value = value.parse::<u64>().unwrap_or_default();
        let time = Duration::from_millis(value.min(MOST_TTL_MS));
        match word {
            "shared" => options.mode = Mode::Shared,
            "fixed" => options.renew = false,
            "try" => options.wait = Wait::No,
            "forever" => options.wait = Wait::Forever,
            "replicas" => options.replicas = Some(Replicas { min: 1, timeout: Duration::from_millis(500) }),
            "ttl" => options.ttl = time,
            "wait" => options.wait = Wait::For(time),
            "within" => options.within = Some(time),
            "permits" => {
                options.kind = Kind::Semaphore { permits: u32::try_from(value).unwrap_or(u32::MAX), limit: 3 };
            }
            word => set(&mut options, word, time),
        }
    }
    options
}

/// Sets a plain option of the engine's table. A count has the number of a time's milliseconds.
fn set(options: &mut AcquireOptions, word: &str, time: Duration) {
    let mut rows = AcquireOptions::PLAIN.iter();
    options.set_plain(&mut |setter| {
        match setter {
            _ if rows.next()?.name.replace('_', "-") != word => {}
            Setter::Time(to) => *to = time,
            Setter::OptionalTime(to) => *to = Some(time),
            Setter::Count(to) => *to = Some(u32::try_from(time.as_millis()).unwrap_or(u32::MAX)),
            Setter::Flag(to) => *to = true,
        }
        Some(())
    });
}

fn number(words: &mut Words<'_>) -> Option<u64> {
    words.next()?.parse().ok()
}

fn failure(kind: Option<&str>, text: &str) -> Option<Failure> {
    let text = || text.to_owned();
    Some(match kind? {
        "refused" => Failure::Refused(text()),
        "unavailable" => Failure::Unavailable(text()),
        "interrupted" => Failure::Interrupted(text()),
        "timed-out" => Failure::TimedOut,
        "unsupported" => Failure::Unsupported(text()),
        "closed" => Failure::Closed(text()),
        _ => return None,
    })
}
