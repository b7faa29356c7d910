//! What is around the engine: users, a server, a clock, all at random.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold_core::{
    AcquireOptions, ClientId, Command, CommandId, Config, Engine, Failure, Input, Instant, Kind, LeaseId, LeaseToken,
    Mode, NodeId, OpId, Owner, Replicas, Reply, Scalar, Wait,
};
use leasehold_harness::Rng;

use crate::rules::{answer, sane_answer};

const NAMES: [&str; 6] = ["a", "b", "{c}d", "r", "s", "adopted"];
const NODE: NodeId = NodeId(0);
/// Stands for the client's own channel.
const OWN: &str = "leasehold:";
/// Where the releases of the reentrant lock are told.
const LOCKS: &str = "redisson_lock__channel:{r}";

pub(crate) struct FuzzedEngine {
    pub(crate) engine: Engine,
    rng: Rng,
    pub(crate) seed: u64,
    pub(crate) now: u64,
    /// Calls of users that have not ended, with the name or the lease that they are about.
    pub(crate) ops: BTreeMap<u64, About>,
    /// Commands without an answer.
    pub(crate) calls: BTreeMap<u64, Command>,
    /// Commands on dedicated connections without an answer, by call.
    pub(crate) dedicated: BTreeMap<u64, Command>,
    /// Leases that are held.
    pub(crate) leases: BTreeMap<u64, Held>,
    /// The leases that were ever granted.
    pub(crate) used_leases: BTreeSet<u64>,
    last_op: u64,
    pub(crate) last_call: u64,
    pub(crate) last_lease: u64,
    pub(crate) closed: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum About {
    Name(&'static str),
    Lease(u64),
    Client,
}

pub(crate) struct Held {
    pub(crate) name: &'static str,
    pub(crate) mode: Mode,
    pub(crate) holds: u32,
}

impl FuzzedEngine {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let config =
            Config { local_handoffs: *rng.pick(&[0, 1, 32]), mixed_fleet: rng.once_in(8), ..Config::default() };
        let id = ClientId::from_random([u8::try_from(seed % 256).expect("a byte"); 16]);
        let engine = Engine::new(id, config).expect("a valid configuration");
        let (ops, calls, dedicated, leases, used_leases) = Default::default();
        let (now, last_op, last_call, last_lease) = (1_000_000, 0, 0, 0);
        Self {
            engine,
            rng,
            seed,
            now,
            ops,
            calls,
            dedicated,
            leases,
            used_leases,
            last_op,
            last_call,
            last_lease,
            closed: false,
        }
    }

    /// One random input.
    pub(crate) fn anything_happens(&mut self) {
        self.time_passes();
        match self.rng.below(20) {
            0..=2 => self.a_user_acquires(),
            3..=6 => self.a_user_does_something_to_a_lease(),
            7 => {
                let open: Vec<u64> = self.ops.keys().copied().collect();
                let op = self.pick_or_any(&open, self.last_op);
                self.input(Input::Cancel { op: OpId(op) });
            }
            8..=14 => self.some_call_ends(),
            15 => self.a_dedicated_connection_answers(),
            16 | 17 => self.a_message_comes(),
            18 => self.the_subscription_changes(),
            _ => self.input(Input::Wake),
        }
    }

    /// Users give up what they wait for and what they have.
    pub(crate) fn everything_is_given_up(&mut self) {
        let waits = self.ops.iter().filter(|(_, about)| matches!(about, About::Name(_))).map(|(op, _)| *op);
        for op in waits.collect::<Vec<_>>() {
            self.input(Input::Cancel { op: OpId(op) });
        }
        while let Some(lease) = self.leases.first_key_value().map(|(lease, _)| *lease) {
            let op = self.new_op(About::Lease(lease));
            self.release(op, lease);
        }
    }

    pub(crate) fn closes(&mut self) {
        let op = self.new_op(About::Client);
        self.leases.clear();
        self.closed = true;
        self.input(Input::Close { op });
    }

    pub(crate) fn the_server_answers_until_idle(&mut self) {
        self.until_idle(|fuzzed| {
            while let Some((call, command)) = fuzzed.calls.pop_first() {
                fuzzed.now += 100;
                fuzzed.input(Input::Reply { id: CommandId(call), result: Ok(sane_answer(&command, fuzzed.now)) });
            }
        });
    }

    pub(crate) fn nobody_answers_until_idle(&mut self) {
        self.until_idle(|fuzzed| fuzzed.calls.clear());
    }

    fn until_idle(&mut self, mut answer: impl FnMut(&mut Self)) {
        for _ in 0..1_000_000 {
            answer(self);
            self.input(Input::Subscribed { node: NODE, channel: OWN });
            answer(self);
            let Some((at, _)) = self.engine.poll_timeout() else { break };
            self.now = self.now.max(at.as_micros());
            self.input(Input::Wake);
        }
        assert!(self.ops.is_empty(), "seed {}: these calls never ended: {:?}", self.seed, self.ops);
        assert!(self.engine.is_idle(), "seed {}: something is left", self.seed);
    }
}

/// What happens.
impl FuzzedEngine {
    fn time_passes(&mut self) {
        self.now += match self.rng.below(400) {
            0 => self.rng.below(20_000_000),
            1..=5 => self.rng.below(700_000),
            6..=200 => self.rng.below(5_000),
            _ => 0,
        };
        if let (Some((at, _)), true) = (self.engine.poll_timeout(), self.rng.once_in(8)) {
            self.now = self.now.max(at.as_micros());
        }
        // Answers that never come make room for others.
        while self.calls.len() > 12 {
            self.calls.pop_first();
        }
    }

    fn a_user_acquires(&mut self) {
        let name = *self.rng.pick(&NAMES);
        let renew = !self.rng.once_in(4);
        let kind = match name {
            "r" => Kind::Reentrant(Owner(self.rng.below(3))),
            "s" => {
                let (permits, limit) = *self.rng.pick(&[(1, 3), (1, 3), (1, 3), (2, 3), (3, 3), (4, 3)]);
                Kind::Semaphore { permits, limit }
            }
            _ => Kind::Lock,
        };
        let options = AcquireOptions {
            kind,
            mode: if kind == Kind::Lock { *self.rng.pick(&[Mode::Exclusive, Mode::Shared]) } else { Mode::Exclusive },
            ttl: Duration::from_millis(*self.rng.pick(&[9, 10, 900, 900, 5_000, 5_000, 30_000, 30_000, 30_000])),
            renew,
            max_hold: (renew && self.rng.once_in(4)).then(|| Duration::from_millis(5 + self.rng.below(8_000))),
            wait: match self.rng.below(4) {
                0 => Wait::No,
                1 => Wait::Forever,
                _ => Wait::For(Duration::from_millis(self.rng.below(9_000))),
            },
            within: self.rng.once_in(4).then_some(Duration::from_millis(500)),
            replicas: (name != "r" && self.rng.once_in(4)).then(|| Replicas {
                min: *self.rng.pick(&[0, 1, 2, 2]),
                timeout: Duration::from_millis(self.rng.below(900)),
            }),
            linger: self.rng.once_in(4).then(|| Duration::from_millis(self.rng.below(400))),
        };
        let op = self.new_op(About::Name(name));
        if name == "adopted" {
            let token = self.any_token();
            return self.input(Input::Adopt { op, name, token, options: &options });
        }
        self.input(Input::Acquire { op, name, options: &options });
    }

    /// One of another client, or one that this client has used or will use.
    fn any_token(&mut self) -> LeaseToken {
        let client = if self.rng.once_in(2) { self.uuid() } else { ClientId::from_random([0xff; 16]).to_string() };
        LeaseToken::read(&format!("{client}:{}", self.rng.below(200))).expect("a token")
    }

    fn a_user_does_something_to_a_lease(&mut self) {
        let held: Vec<u64> = self.leases.keys().copied().collect();
        // Users don't know the leases that wait for replicas.
        let known: Vec<u64> = self.used_leases.iter().copied().collect();
        let from = if held.is_empty() || self.rng.once_in(10) { &known } else { &held };
        let lease = if from.is_empty() { 0 } else { *self.rng.pick(from) };
        if self.rng.once_in(12) {
            return self.the_end_moves(LeaseId(lease));
        }
        if self.rng.once_in(24) {
            return self.input(Input::StopRenewing { lease: LeaseId(lease) });
        }
        let op = self.new_op(About::Lease(lease));
        let id = LeaseId(lease);
        match self.rng.below(13) {
            0..=4 => self.release(op, lease),
            5 => {
                let ttl = Duration::from_millis(*self.rng.pick(&[1, 1_000, 40_000, u64::MAX]));
                let shortens = self.rng.once_in(2);
                self.input(if shortens {
                    Input::Shorten { op, lease: id, ttl }
                } else {
                    Input::Extend { op, lease: id, ttl }
                });
            }
            6 | 7 => {
                let mode = *self.rng.pick(&[Mode::Exclusive, Mode::Shared]);
                self.input(Input::Convert { op, lease: id, mode });
            }
            8 => self.input(Input::Hold { op, lease: id }),
            9 => self.input(Input::Verify { op, lease: id }),
            10 => self.input(Input::Export { op, lease: id }),
            _ => {
                self.ops.insert(op.0, About::Client);
                let name = *self.rng.pick(&["a", "b", "}"]);
                self.input(Input::Inspect { op, name });
            }
        }
    }

    /// To any time, even one that is over.
    fn the_end_moves(&mut self, lease: LeaseId) {
        let ms = *self.rng.pick(&[0, 1, 1_000, 40_000, 10_000_000_000]);
        let until = (self.now + ms * 1_000).saturating_sub(self.rng.below(2_000));
        self.input(Input::Keep { lease, until: Instant::from_micros(until) });
    }

    /// The last hold's release ends the lease for its holder, whatever the server says later.
    fn release(&mut self, op: OpId, lease: u64) {
        let deadline = self.engine.valid_until(LeaseId(lease));
        if let Some(held) = self.leases.get_mut(&lease).filter(|_| deadline.is_some_and(|at| at.as_micros() > self.now))
        {
            held.holds -= 1;
            if held.holds == 0 {
                self.leases.remove(&lease);
            }
        }
        self.input(Input::Release { op, lease: LeaseId(lease) });
    }

    fn some_call_ends(&mut self) {
        let open: Vec<u64> = self.calls.keys().copied().collect();
        let call = self.pick_or_any(&open, self.last_call);
        let command = self.calls.remove(&call);
        let text = || String::from("ERR of some kind");
        let result = match (self.rng.below(16), command) {
            (0..=8, Some(command)) => Ok(sane_answer(&command, self.now)),
            (0..=10, _) => Ok(self.any_answer()),
            (11, _) => Ok(self.garbage()),
            (12, _) => Err(Failure::Interrupted(text())),
            (13, _) => Err(Failure::Unavailable(text())),
            (14, _) => {
                let error = ["NOSCRIPT none", "WRONGTYPE of key", "NOPERM no", "LOADING", "OOM full", "TRYAGAIN", ""];
                Err(Failure::Refused((*self.rng.pick(&error)).to_owned()))
            }
            _ => Err(self.rng.pick(&[Failure::TimedOut, Failure::Unsupported(String::new())]).clone()),
        };
        self.input(Input::Reply { id: CommandId(call), result });
    }

    fn a_dedicated_connection_answers(&mut self) {
        let open: Vec<u64> = self.dedicated.keys().copied().collect();
        let op = self.pick_or_any(&open, self.last_op);
        let is_wait = self.dedicated.remove(&op).is_some_and(|command| command.words().next() == Some(b"WAIT"));
        let result = match self.rng.below(8) {
            0..=3 if is_wait => Ok(Reply::One(Scalar::Int(2))),
            0..=3 => Ok(answer("renewed", [0, 0, self.now, 30_000, 0, 0])),
            4 => Ok(self.any_answer()),
            5 => Ok(Reply::One(Scalar::Int(1))),
            6 => Err(Failure::Refused("NOSCRIPT none".into())),
            _ => Err(Failure::Interrupted(String::new())),
        };
        self.input(Input::DedicatedReply { op: OpId(op), result });
    }

    /// Well formed, whether or not it fits the question.
    fn any_answer(&mut self) -> Reply {
        let statuses = "entered again converted waiting busy renewed released left gone taken conflict";
        let statuses: Vec<&str> = statuses.split(' ').collect();
        let status = *self.rng.pick(&statuses);
        let value = *self.rng.pick(&[0, 1, 2, self.now]);
        let block = *self.rng.pick(&[0, 1, 2, 33]);
        let ms = *self.rng.pick(&[0, 1, 5, 400, 3_000, 30_000, 60_000]);
        let server = self.now - self.rng.below(1_000_000);
        let waiting = *self.rng.pick(&[0, 0, 1, 500]);
        answer(status, [value, block, server, ms, waiting, self.rng.below(2)])
    }

    fn garbage(&mut self) -> Reply {
        let scalars = [Scalar::Nil, Scalar::Int(-1), Scalar::Int(i64::MAX), Scalar::Text(b"\xff entered".to_vec())];
        match self.rng.below(3) {
            0 => Reply::One(self.rng.pick(&scalars).clone()),
            1 => Reply::List((0..self.rng.below(9)).map(|_| self.rng.pick(&scalars).clone()).collect()),
            _ => Reply::List(vec![Scalar::Text(b"waiting".to_vec()); 7]),
        }
    }

    fn a_message_comes(&mut self) {
        let name = *self.rng.pick(&NAMES);
        if name == "r" {
            return self.input(Input::Message { node: NODE, channel: LOCKS, payload: b"0" });
        }
        if self.rng.once_in(3) {
            return self.input(Input::Message {
                node: NODE,
                channel: OWN,
                payload: format!("wanted {name}").as_bytes(),
            });
        }
        let uuid = self.uuid();
        let token = self.rng.below(200);
        let mode = *self.rng.pick(&["exclusive", "shared", "none"]);
        let (fence, server) = (self.rng.draw() >> 11, self.now - self.rng.below(1_000_000));
        let ms = *self.rng.pick(&[0, 10, 3_000]);
        let payload = format!("grant {uuid}:{token} {mode} {fence} 3 {server} {ms} {} {name}", self.rng.below(2));
        self.input(Input::Message { node: NODE, channel: OWN, payload: payload.as_bytes() });
    }

    /// Mostly one of these; else any number that was given out, or none's.
    fn pick_or_any(&mut self, from: &[u64], last: u64) -> u64 {
        if from.is_empty() || self.rng.once_in(10) { self.rng.below(last + 1) } else { *self.rng.pick(from) }
    }

    fn uuid(&self) -> String {
        let hex = format!("{:02x}", self.seed % 256);
        [4, 2, 2, 2, 6].map(|bytes| hex.repeat(bytes)).join("-")
    }

    fn the_subscription_changes(&mut self) {
        let channel = *self.rng.pick(&[OWN, LOCKS]);
        let cause = match self.rng.below(40) {
            0 => Failure::Unsupported(String::new()),
            1..=9 => Failure::Interrupted(String::new()),
            _ => return self.input(Input::Subscribed { node: NODE, channel }),
        };
        self.input(Input::Unsubscribed { node: NODE, channel, cause });
    }

    fn new_op(&mut self, about: About) -> OpId {
        self.last_op += 1;
        self.ops.insert(self.last_op, about);
        OpId(self.last_op)
    }
}
