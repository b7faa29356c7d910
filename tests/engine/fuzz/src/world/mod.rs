//! An engine with its labels, and what is around it: users, a server in memory, a clock. An input decides what happens.

mod engine;
mod server;
mod users;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use leasehold_core::{ClientId, Command, CommandId, Config, Engine, Failure, Input, Labels, Mode, NodeId, OpId, Reply};
use leasehold_memory::Server;

use crate::backing::Backing;
use crate::script::{Step, Words, scalar};

/// The server's clock at the engine's time zero, in µs.
const EPOCH_US: u64 = 1_800_000_000_000_000;
/// A run that takes more steps to its end hangs.
const MOST_WAKES: usize = 100_000;
const HOUR_US: u64 = 3_600_000_000;

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
