//! Runs the scripts of one lock directly, on the model or on a real server.
#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod model;
pub(crate) mod moving;
pub(crate) mod random;
pub(crate) mod real;
pub(crate) mod state;

use leasehold_core::{Reply, Scalar};
use leasehold_lua::{ACQUIRE, ACQUIRE_FAST, CONVERT, FORCE, INSPECT, RELEASE, RELEASE_FAST, RENEW, Script};

pub(crate) const EXCLUSIVE: &str = "exclusive";
pub(crate) const SHARED: &str = "shared";

/// The indexes of a lock's keys.
pub(crate) const ALL_KEYS: [usize; 6] = [0, 1, 2, 3, 4, 5];

/// A server that runs commands: the model or a real one.
pub(crate) trait Host {
    fn run(&mut self, words: &[&str]) -> Result<Reply, String>;
}

/// A token of the client with this number.
pub(crate) fn token(client: u32, counter: u64) -> String {
    format!("{client:08x}-0000-4000-8000-00000000000f:{counter}")
}

pub(crate) fn channel(token: &str) -> String {
    format!("leasehold:{}", token.split(':').next().unwrap())
}

/// A lock, with the options of the next calls.
pub(crate) struct Lock<H> {
    pub(crate) host: H,
    pub(crate) keys: [String; 6],
    pub(crate) ttl: u64,
    pub(crate) claim: u64,
    pub(crate) block: u64,
    pub(crate) used_fence: u64,
    pub(crate) fleet: &'static str,
}

/// A script's answer: a list of seven, nine or ten items.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: String,
    pub(crate) value: i64,
    pub(crate) block: i64,
    pub(crate) us: i64,
    pub(crate) ms: i64,
    pub(crate) waiting: i64,
    pub(crate) foreign: i64,
    /// The holder's token, and its last fence.
    pub(crate) holder: Option<(String, i64)>,
    /// How many callers wait at other clients.
    pub(crate) elsewhere: Option<i64>,
}

impl<H: Host> Lock<H> {
    pub(crate) fn new(host: H, name: &str) -> Self {
        let side = |what: &str| format!("leasehold:{{{name}}}:{what}");
        let keys = [
            name.to_owned(),
            "leasehold:fence".to_owned(),
            side("queue"),
            side("waiters"),
            side("readers"),
            side("none"),
        ];
        Self { host, keys, ttl: 30_000, claim: 3_000, block: 1, used_fence: 0, fleet: "native" }
    }

    pub(crate) fn try_acquire(&mut self, token: &str, mode: &str) -> Answer {
        self.acquire(token, mode, "try").unwrap()
    }

    pub(crate) fn wait(&mut self, token: &str, mode: &str) -> Answer {
        self.acquire(token, mode, "wait").unwrap()
    }

    pub(crate) fn refill(&mut self, token: &str, mode: &str) -> Answer {
        self.acquire(token, mode, "refill").unwrap()
    }

    pub(crate) fn acquire(&mut self, token: &str, mode: &str, how: &str) -> Result<Answer, String> {
        let [ttl, claim, block] = [self.ttl, self.claim, self.block].map(|n| n.to_string());
        self.call(&ACQUIRE, &ALL_KEYS, &[token, mode, &ttl, how, &claim, &block, "0", self.fleet]).map(answer)
    }

    /// The fast path of an acquire. The fence, or 0 if it has changed nothing.
    pub(crate) fn acquire_fast(&mut self, token: &str) -> i64 {
        match self.try_acquire_fast(token).unwrap() {
            Reply::One(fence) => scalar_number(&fence),
            // The server's time and the fence.
            Reply::List(items) => scalar_number(&items[1]),
        }
    }

    pub(crate) fn try_acquire_fast(&mut self, token: &str) -> Result<Reply, String> {
        let ttl = self.ttl.to_string();
        self.call(&ACQUIRE_FAST, &[0, 2, 1], &[&format!("{token} "), &ttl])
    }

    /// The fast path of a release. Whether the lock was given back.
    pub(crate) fn release_fast(&mut self, value: &str) -> bool {
        let done = scalar(self.call(&RELEASE_FAST, &[0], &[value]).unwrap());
        assert!([Scalar::Int(0), Scalar::Int(1)].contains(&done), "{done:?}");
        done == Scalar::Int(1)
    }

    pub(crate) fn release(&mut self, token: &str) -> Answer {
        self.try_release_with_tombstone(token, 0).unwrap()
    }

    pub(crate) fn release_with_tombstone(&mut self, token: &str, ms: u64) -> Answer {
        self.try_release_with_tombstone(token, ms).unwrap()
    }

    pub(crate) fn try_release_with_tombstone(&mut self, token: &str, ms: u64) -> Result<Answer, String> {
        let [tombstone, used_fence] = [ms, self.used_fence].map(|n| n.to_string());
        self.call(&RELEASE, &ALL_KEYS, &[token, &tombstone, &used_fence, self.fleet]).map(answer)
    }

    pub(crate) fn renew(&mut self, token: &str, mode: &str, ttl: i64) -> Answer {
        self.try_renew(token, mode, ttl).unwrap()
    }

    pub(crate) fn try_renew(&mut self, token: &str, mode: &str, ttl: i64) -> Result<Answer, String> {
        let keys: &[usize] = if mode == EXCLUSIVE { &[0] } else { &[0, 4] };
        self.call(&RENEW, keys, &[token, &ttl.to_string()]).map(answer)
    }

    pub(crate) fn convert(&mut self, old: &str, new: &str, mode: &str) -> Answer {
        self.convert_with_tombstone(old, new, mode, 0).unwrap()
    }

    pub(crate) fn convert_with_tombstone(
        &mut self,
        old: &str,
        new: &str,
        mode: &str,
        ms: u64,
    ) -> Result<Answer, String> {
        let [ttl, block, tombstone, used_fence] = [self.ttl, self.block, ms, self.used_fence].map(|n| n.to_string());
        self.call(&CONVERT, &ALL_KEYS, &[old, new, mode, &ttl, &block, &tombstone, &used_fence, self.fleet]).map(answer)
    }

    pub(crate) fn force(&mut self) -> Answer {
        self.force_which("leases")
    }

    /// With `any`, also a key without a TTL.
    pub(crate) fn force_which(&mut self, which: &str) -> Answer {
        answer(self.call(&FORCE, &ALL_KEYS, &[which, "0", self.fleet]).unwrap())
    }

    /// The answer's items as text.
    pub(crate) fn inspect(&mut self) -> Result<Vec<String>, String> {
        // The last two are the readers of a lock and the permits of a semaphore. A name has one of them.
        let reply = self.call(&INSPECT, &[0, 1, 2, 3, 4, 4], &[])?;
        Ok(list(reply).into_iter().map(|item| scalar_text(&item)).collect())
    }

    /// Runs EVALSHA, and then EVAL if the server doesn't know the script.
    pub(crate) fn call(&mut self, script: &Script, keys: &[usize], arguments: &[&str]) -> Result<Reply, String> {
        let count = keys.len().to_string();
        let mut words = vec!["EVALSHA", script.sha1, &count];
        words.extend(keys.iter().map(|key| self.keys[*key].as_str()));
        words.extend(arguments);
        match self.host.run(&words) {
            Err(text) if text.starts_with("NOSCRIPT") => {
                words[0] = "EVAL";
                words[1] = script.source;
                self.host.run(&words)
            }
            reply => reply,
        }
    }

    pub(crate) fn command(&mut self, words: &[&str]) -> Reply {
        self.host.run(words).unwrap()
    }

    pub(crate) fn number(&mut self, words: &[&str]) -> i64 {
        match scalar(self.command(words)) {
            Scalar::Int(number) => number,
            other => panic!("{words:?} answered {other:?}"),
        }
    }

    pub(crate) fn pttl(&mut self, key: usize) -> i64 {
        let key = self.keys[key].clone();
        self.number(&["PTTL", &key])
    }
}

pub(crate) fn list(reply: Reply) -> Vec<Scalar> {
    match reply {
        Reply::List(items) => items,
        other => panic!("not a list: {other:?}"),
    }
}

pub(crate) fn scalar(reply: Reply) -> Scalar {
    match reply {
        Reply::One(scalar) => scalar,
        other => panic!("a list: {other:?}"),
    }
}

/// A number, as an integer or as text.
pub(crate) fn scalar_number(scalar: &Scalar) -> i64 {
    scalar_text(scalar).parse().unwrap()
}

pub(crate) fn scalar_text(scalar: &Scalar) -> String {
    match scalar {
        Scalar::Nil => "nil".to_owned(),
        Scalar::Int(number) => number.to_string(),
        Scalar::Text(text) => String::from_utf8_lossy(text).into_owned(),
    }
}

fn answer(reply: Reply) -> Answer {
    let items = list(reply);
    let int = |index: usize| match items[index] {
        Scalar::Int(number) => number,
        ref other => panic!("not a number: {other:?}"),
    };
    let status = scalar_text(&items[0]);
    // An acquire that found the lock busy also tells who holds it, and since when.
    let holder = match items.len() {
        9 | 10 if ["waiting", "busy"].contains(&status.as_str()) => Some((scalar_text(&items[7]), int(8))),
        length => {
            assert_eq!(length, 7, "{items:?}");
            None
        }
    };
    let (value, block, us, ms, waiting, foreign) = (int(1), int(2), int(3), int(4), int(5), int(6));
    let elsewhere = (items.len() == 10).then(|| int(9));
    Answer { status, value, block, us, ms, waiting, foreign, holder, elsewhere }
}
