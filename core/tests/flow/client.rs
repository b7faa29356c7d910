//! One client of a server that answers what the test wants.

use std::time::Duration;

use leasehold_core::{
    AcquireOptions, ClientId, Command, CommandId, Config, Engine, Error, Failure, Input, Instant, LeaseId, OpId,
    Outcome, Output, Reply, Scalar, Wait,
};

/// One engine, its commands that have no answer yet, and what it told its users.
pub(crate) struct Client {
    pub(crate) engine: Engine,
    pub(crate) now: u64,
    pub(crate) op: u64,
    pub(crate) unanswered: Vec<(CommandId, Command)>,
    pub(crate) ended: Vec<(OpId, Result<Outcome, Error>)>,
    pub(crate) lost: Vec<LeaseId>,
    /// The most commands that were unanswered at once.
    pub(crate) most: usize,
}

impl Client {
    pub(crate) fn new(config: Config) -> Self {
        let engine = Engine::new(ClientId::from_random([7; 16]), config).unwrap();
        Self { engine, now: 1_000_000, op: 0, unanswered: vec![], ended: vec![], lost: vec![], most: 0 }
    }

    pub(crate) fn feed(&mut self, input: Input<'_>) {
        self.engine.handle(Instant::from_micros(self.now), input);
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Send { id, command, .. } => self.unanswered.push((id, command)),
                Output::Completed { op, result } => self.ended.push((op, result)),
                Output::Lost { lease, .. } => self.lost.push(lease),
                Output::Subscribe { .. }
                | Output::Unsubscribe { .. }
                | Output::SendDedicated { .. }
                | Output::CloseDedicated { .. } => {}
            }
        }
        self.most = self.most.max(self.unanswered.len());
    }

    pub(crate) fn next_op(&mut self) -> OpId {
        self.op += 1;
        OpId(self.op)
    }

    pub(crate) fn acquire(&mut self, name: &str, options: AcquireOptions) -> OpId {
        let op = self.next_op();
        self.feed(Input::Acquire { op, name, options: &options });
        op
    }

    /// Lets time pass, and wakes the engine whenever it wants that.
    pub(crate) fn pass(&mut self, time: Duration) {
        let until = self.now + time.as_micros() as u64;
        while let Some((at, _)) = self.engine.poll_timeout().filter(|(at, _)| at.as_micros() <= until) {
            self.now = self.now.max(at.as_micros());
            self.feed(Input::Wake);
        }
        self.now = until;
        self.feed(Input::Wake);
    }

    /// The server answers the oldest command, as one that grants everything.
    pub(crate) fn answer(&mut self) -> Command {
        let (id, command) = self.unanswered.remove(0);
        self.feed(Input::Reply { id, result: Ok(granting(&command, self.now)) });
        command
    }

    /// The server answers the oldest command, or refuses one that grants nothing.
    pub(crate) fn answer_anything(&mut self) {
        let (id, command) = self.unanswered.remove(0);
        let known = entries(&command).is_some();
        let result = if known { Ok(granting(&command, self.now)) } else { Err(Failure::Refused("ERR".into())) };
        self.feed(Input::Reply { id, result });
    }

    /// The server answers everything, each command `pace` after the one before.
    pub(crate) fn serve(&mut self, pace: Duration) -> usize {
        let mut served = 0;
        while !self.unanswered.is_empty() {
            self.pass(pace);
            self.answer();
            served += 1;
        }
        served
    }

    /// Takes `count` names, and answers what that takes.
    pub(crate) fn hold(&mut self, count: usize, options: AcquireOptions) -> Vec<LeaseId> {
        for place in 0..count {
            self.acquire(&format!("n{place}"), options);
        }
        self.feed(Input::Wake);
        self.serve(Duration::from_micros(10));
        let granted = |(_, result): (OpId, _)| match result {
            Ok(Outcome::Acquired(grant)) => grant.lease,
            other => panic!("{other:?}"),
        };
        let leases: Vec<_> = self.ended.drain(..).map(granted).collect();
        assert_eq!(leases.len(), count);
        leases
    }

    /// Fills the window and the queue behind it.
    pub(crate) fn fill(&mut self, count: usize) {
        for place in 0..count {
            self.acquire(&format!("fill{place}"), fixed());
        }
    }

    /// The server answers a command every 100 ms until one about `name` leaves or the call ends.
    pub(crate) fn serve_until_it_leaves(&mut self, name: &str, op: OpId) {
        let about = |(_, command): &(CommandId, Command)| name_of(command) == name;
        while self.result_of(op).is_none() && !self.unanswered.iter().any(about) {
            self.pass(Duration::from_millis(100));
            if !self.unanswered.is_empty() {
                self.answer();
            }
        }
    }

    pub(crate) fn result_of(&self, op: OpId) -> Option<&Result<Outcome, Error>> {
        self.ended.iter().find(|(ended, _)| *ended == op).map(|(_, result)| result)
    }
}

pub(crate) fn words(command: &Command) -> Vec<String> {
    command.words().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// The name that a command is about.
pub(crate) fn name_of(command: &Command) -> String {
    words(command)[3].clone()
}

/// A command inside a batch.
pub(crate) struct Entry {
    pub(crate) what: String,
    pub(crate) name: String,
    pub(crate) token: String,
    /// The TTL of an acquire or a renewal.
    ttl: i64,
}

/// The commands inside a call of the common path. None if the command is something else.
pub(crate) fn entries(command: &Command) -> Option<Vec<Entry>> {
    let words = words(command);
    let is = |script: leasehold_lua::Script| [script.sha1, script.source].contains(&&*words[1]);
    let count: usize = words[2].parse().unwrap();
    let (mut keys, mut arguments) = (&words[3..3 + count], &words[3 + count..]);
    let entry = |what: &str, name: &String, token: &String, ttl: Option<&String>| {
        let token = token.split(' ').next().unwrap_or_default().to_owned();
        let ttl = ttl.map_or(0, |ttl| ttl.parse().unwrap());
        Entry { what: what.to_owned(), name: name.clone(), token, ttl }
    };
    if is(leasehold_lua::ACQUIRE_FAST) {
        return Some(vec![entry("acquire", &keys[0], &arguments[0], arguments.get(1))]);
    }
    if is(leasehold_lua::RELEASE_FAST) {
        return Some(vec![entry("release", &keys[0], &arguments[0], None)]);
    }
    if !is(leasehold_lua::BATCH) {
        return None;
    }
    if arguments[0] != "0" {
        keys = &keys[..keys.len() - 1];
    }
    arguments = &arguments[1..];
    let mut entries = Vec::new();
    while let [what, token, ..] = arguments {
        let (of_keys, of_arguments) = match &**what {
            "acquire" | "acquire-reentrant" => (2, 3),
            "share" => (3, 3),
            "permit" => (3, 4),
            "unpermit" => (3, 2),
            "unshare" => (2, 2),
            "renew-share" | "renew-permit" => (2, 3),
            "release" | "release-reentrant" => (1, 2),
            _ => (1, 3),
        };
        let ttl = arguments.get(2).filter(|_| of_arguments > 2);
        entries.push(entry(what, &keys[0], token, ttl));
        (keys, arguments) = (&keys[of_keys..], &arguments[of_arguments..]);
    }
    assert!(keys.is_empty(), "{words:?}");
    Some(entries)
}

/// The reply of the common path: what `number` says for each entry, where None is what grants everything.
pub(crate) fn batch_reply(entries: &[Entry], now: u64, number: impl Fn(&Entry) -> Option<i64>) -> Reply {
    let server = 1_700_000_000_000_000 + now as i64;
    let numbers = entries
        .iter()
        .map(|entry| number(entry).unwrap_or(if entry.what.starts_with("renew") { entry.ttl } else { 1 }));
    match entries {
        [entry] if entry.what == "acquire" => {
            Reply::One(Scalar::Text(number(entry).unwrap_or(server).to_string().into_bytes()))
        }
        [entry] => Reply::One(Scalar::Int(number(entry).unwrap_or(1))),
        _ => Reply::List([server, server].into_iter().chain(numbers).map(Scalar::Int).collect()),
    }
}

/// By the number of arguments: acquire has eight behind its six keys, release four, force two, and renew two behind one
/// key, or two for readers.
pub(crate) fn granting(command: &Command, now: u64) -> Reply {
    if let Some(entries) = entries(command) {
        return batch_reply(&entries, now, |_| None);
    }
    let words = words(command);
    let (keys, server) = (words[2].parse::<usize>().unwrap(), 1_700_000_000_000_000 + now as i64);
    let arguments = &words[3 + keys..];
    let (status, fence, block, ttl) = match (keys, arguments.len()) {
        (_, 8) => ("entered", server, 1, arguments[2].parse().unwrap()),
        (_, 4 | 0) => ("released", 0, 0, 0),
        (1 | 2, 2) => ("renewed", 0, 0, arguments[1].parse().unwrap()),
        _ => panic!("{words:?}"),
    };
    let numbers = [fence, block, server, ttl, 0, 0].map(Scalar::Int);
    Reply::List([Scalar::Text(status.into())].into_iter().chain(numbers).collect())
}

/// The answer to an acquire of a lock that another client holds.
pub(crate) fn denied(status: &str) -> Reply {
    let numbers = [1, 0, 1_700_000_000_000_000, 60_000, 1, 0].map(Scalar::Int);
    Reply::List([Scalar::Text(status.into())].into_iter().chain(numbers).collect())
}

pub(crate) fn tries() -> AcquireOptions {
    AcquireOptions { wait: Wait::No, ..fixed() }
}

pub(crate) fn fixed() -> AcquireOptions {
    AcquireOptions { ttl: Duration::from_secs(600), renew: false, ..AcquireOptions::default() }
}
