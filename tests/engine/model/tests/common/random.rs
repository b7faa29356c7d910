//! Random calls of every script and of plain commands, on a few names, with foreign values and keys of wrong types.

use leasehold_core::{Family as Kind, Reply, Scalar};
use leasehold_harness::Rng;
use leasehold_lua::{
    ACQUIRE, ACQUIRE_FAST, BATCH, CONVERT, FORCE, INSPECT, MULTI, RAISE, RELEASE, RELEASE_FAST, RENEW, Script,
    election, once, reentrant, semaphore,
};

use super::{EXCLUSIVE, SHARED, scalar_text, token};

pub(crate) const COUNTER: &str = "leasehold:fence";
/// `a` and `{a}` share a slot, and must not share a key.
pub(crate) const NAMES: [&str; 4] = ["invoice:42", "a", "{a}", "x y"];
const SIDES: [&str; 6] = ["queue", "waiters", "readers", "permits", "result", "none"];

/// What random calls must reach.
pub(crate) const PATHS: [&str; 89] = [
    "acquire entered",
    "acquire again",
    "acquire waiting",
    "acquire busy",
    "acquire gone",
    "acquire taken",
    "acquire conflict",
    "acquire BADFENCE",
    "acquire WRONGTYPE",
    "release released",
    "release left",
    "release gone",
    "release taken",
    "release BADFENCE",
    "release WRONGTYPE",
    "convert converted",
    "convert again",
    "convert conflict",
    "convert gone",
    "convert taken",
    "renew renewed",
    "renew gone",
    "renew taken",
    "renew WRONGTYPE",
    "raise raised",
    "raise gone",
    "raise taken",
    "raise BADFENCE",
    "raise WRONGTYPE",
    "multi entered",
    "multi again",
    "multi busy",
    "multi BADFENCE",
    "force released",
    "force taken",
    "inspect told",
    "inspect WRONGTYPE",
    "acquire-fast 0",
    "acquire-fast us",
    "acquire-fast us fence",
    "release-fast 0",
    "release-fast 1",
    "batch done",
    "batch undone",
    "reentrant-acquire entered",
    "reentrant-acquire again",
    "reentrant-acquire busy",
    "reentrant-acquire taken",
    "reentrant-release released",
    "reentrant-release gone",
    "reentrant-release taken",
    "reentrant-renew renewed",
    "reentrant-force released",
    "semaphore-acquire entered",
    "semaphore-acquire again",
    "semaphore-acquire waiting",
    "semaphore-acquire conflict",
    "semaphore-acquire WRONGTYPE",
    "semaphore-convert converted",
    "semaphore-convert again",
    "semaphore-convert conflict",
    "semaphore-convert gone",
    "semaphore-release released",
    "semaphore-renew renewed",
    "semaphore-force released",
    "once-acquire entered",
    "once-acquire again",
    "once-acquire waiting",
    "once-acquire busy",
    "once-acquire done",
    "once-acquire gone",
    "once-acquire WRONGTYPE",
    "once-release released",
    "once-release left",
    "once-release gone",
    "once-release taken",
    "once-force released",
    "election-acquire entered",
    "election-acquire again",
    "election-acquire waiting",
    "election-acquire busy",
    "election-acquire gone",
    "election-acquire WRONGTYPE",
    "election-release released",
    "election-release left",
    "election-release taken",
    "election-force released",
    "leader told",
    "leader WRONGTYPE",
];

/// A command for a server.
pub(crate) struct Step {
    /// The script that it runs, if any.
    pub(crate) script: Option<Script>,
    /// All words. A script is called by its digest.
    pub(crate) words: Vec<String>,
}

/// One round of calls: a kind for each name.
pub(crate) struct Calls {
    pub(crate) rng: Rng,
    kinds: [Kind; NAMES.len()],
    names: u64,
    /// How many of a thousand calls are foreign clients' commands.
    foreign: u64,
    /// Whether leases and claims end soon.
    short: bool,
    /// Whether the semaphores have a rate.
    rates: bool,
}

/// What a key holds, for calls that fit it.
pub(crate) trait Values {
    fn value(&self, key: &str) -> Option<String>;
    /// The holder of a once, and its fence.
    fn work(&self, key: &str) -> Option<(String, String)>;
}

/// The key of a name with this number in lua/README.md.
fn key(name: &str, number: usize, kind: Kind) -> String {
    let side = match (number, kind) {
        (1, _) => return name.to_owned(),
        (2, _) => return COUNTER.to_owned(),
        (3, _) => "queue",
        (4, _) => "waiters",
        (5, Kind::Semaphore) => "permits",
        (5, Kind::Once) => "result",
        (5, _) => "readers",
        _ => "none",
    };
    side_key(name, side)
}

fn side_key(name: &str, side: &str) -> String {
    if name.starts_with('{') { format!("leasehold::{name}:{side}") } else { format!("leasehold:{{{name}}}:{side}") }
}

/// Every key that a call may touch.
pub(crate) fn all_keys() -> Vec<String> {
    let of_name = |name: &&str| {
        let sides = SIDES.map(|side| side_key(name, side));
        std::iter::once((*name).to_owned()).chain(sides).collect::<Vec<_>>()
    };
    NAMES.iter().flat_map(of_name).chain([COUNTER.to_owned()]).collect()
}

/// The channel of a name's reentrant lock.
pub(crate) fn redisson_channel(name: &str) -> String {
    let tagged = if name.contains('{') { name.to_owned() } else { format!("{{{name}}}") };
    format!("redisson_lock__channel:{tagged}")
}

impl Calls {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let all = [&[Kind::Lock], Kind::ALL].concat();
        let mut kind = || *rng.pick(&all);
        let kinds = [kind(), kind(), kind(), kind()];
        let names = *rng.pick(&[1, 1, 2, 4]);
        let foreign = *rng.pick(&[0, 20, 100, 300]);
        let short = rng.once_in(3);
        let rates = rng.once_in(3);
        Self { rng, kinds, names, foreign, short, rates }
    }

    /// The next command.
    pub(crate) fn next(&mut self, values: &impl Values) -> Step {
        if self.rng.below(1_000) < self.foreign {
            return self.foreign_command();
        }
        match self.rng.below(100) {
            0..=19 => self.batch(values),
            20..=23 => self.multi(),
            _ => self.script(values),
        }
    }

    fn place(&mut self) -> usize {
        self.rng.below(self.names) as usize
    }

    /// A name's kind, or rarely another one.
    fn kind(&mut self, place: usize) -> Kind {
        match self.rng.once_in(50) {
            true => *self.rng.pick(Kind::ALL),
            false => self.kinds[place],
        }
    }

    fn token(&mut self) -> String {
        let odd = ["odd", "shared", "a b", "x*5", "", "f-f-f-f-f:7"];
        match self.rng.once_in(40) {
            true => (*self.rng.pick(&odd)).to_owned(),
            false => token(1 + self.rng.below(5) as u32, 1 + self.rng.below(2)),
        }
    }

    fn mode(&mut self, kind: Kind) -> String {
        let other = self.rng.once_in(60);
        let modes: &[&str] = match kind {
            Kind::Semaphore if self.rates && !other => &["1/1/40", "1/2/40", "2/3/40", "1/3/40"],
            Kind::Semaphore if other => &["1/3/40", "1/3/60000"],
            Kind::Semaphore => &["1/1", "1/2", "2/3", "5/3", "1/3"],
            _ if other => &["1/2", "odd", "two words"],
            Kind::Lock => &[EXCLUSIVE, EXCLUSIVE, SHARED],
            Kind::Reentrant => &[EXCLUSIVE],
            Kind::Once => &["once"],
            Kind::Election => &["leader ", "leader a b", "leader 1:1=1 2 3", "leader x:1"],
        };
        (*self.rng.pick(modes)).to_owned()
    }

    /// The mode of a batch, which has no rates.
    fn permits(&mut self) -> String {
        (*self.rng.pick(&["1/1", "1/2", "2/3", "5/3", "1/3"])).to_owned()
    }

    fn ttl(&mut self) -> String {
        let times: &[&str] = match self.short {
            true => &["30", "60", "200", "30000"],
            false => &["30000", "40000", "35000"],
        };
        match self.rng.once_in(60) {
            true => *self.rng.pick(&["0", "-5", "1", "100000000"]),
            false => *self.rng.pick(times),
        }
        .to_owned()
    }

    fn claim(&mut self) -> String {
        let times: &[&str] = if self.short { &["25", "50", "3000"] } else { &["3000", "5000", "40000"] };
        if self.rng.once_in(80) { "0".to_owned() } else { (*self.rng.pick(times)).to_owned() }
    }

    fn fence(&mut self) -> String {
        // The last ones are far above the clock.
        let fences = ["1", "1500000000000000", "2000000000000000", "8000000000000000"];
        if self.rng.once_in(6) { *self.rng.pick(&fences) } else { "0" }.to_owned()
    }

    fn fleet(&mut self, kind: Kind) -> String {
        // A reentrant lock's waiters never join the queue.
        let mixed = if kind == Kind::Reentrant { !self.rng.once_in(10) } else { self.rng.once_in(10) };
        if mixed { "mixed" } else { "native" }.to_owned()
    }

    fn script(&mut self, values: &impl Values) -> Step {
        let place = self.place();
        let name = NAMES[place];
        let kind = self.kind(place);
        let [acquire, release, renew, force] = match kind {
            Kind::Lock => [ACQUIRE, RELEASE, RENEW, FORCE],
            Kind::Reentrant => [reentrant::ACQUIRE, reentrant::RELEASE, reentrant::RENEW, reentrant::FORCE],
            Kind::Semaphore => [semaphore::ACQUIRE, semaphore::RELEASE, semaphore::RENEW, semaphore::FORCE],
            Kind::Once => [once::ACQUIRE, once::RELEASE, reentrant::RENEW, once::FORCE],
            Kind::Election => [election::ACQUIRE, election::RELEASE, reentrant::RENEW, election::FORCE],
        };
        let all = [1, 2, 3, 4, 5, 6];
        let (token, ttl) = (self.token(), self.ttl());
        let tombstone = (*self.rng.pick(&["0", "0", "0", "40", "60000"])).to_owned();
        let block = (*self.rng.pick(&["1", "33", "1024", "9000", "0"])).to_owned();
        let (used, fleet) = (self.fence(), self.fleet(kind));
        let (script, numbers, arguments): (_, &[usize], _) = match self.rng.below(32) {
            0..=12 => {
                let hows: &[&str] = match kind {
                    Kind::Reentrant => &["try", "try", "try", "try", "refill", "wait"],
                    _ => &["wait", "wait", "wait 4", "wait 2/3", "wait 1/0", "try", "refill"],
                };
                let how = (*self.rng.pick(hows)).to_owned();
                let arguments = vec![token, self.mode(kind), ttl, how, self.claim(), block, "0".to_owned(), fleet];
                (acquire, &all, arguments)
            }
            13..=18 if kind == Kind::Once && self.rng.once_in(3) => {
                let value = (*self.rng.pick(&["[1, 2]", "", "two words\n", "once 5"])).to_owned();
                let keep = (*self.rng.pick(&["30", "60", "60000"])).to_owned();
                let held = values.work(name).filter(|_| !self.rng.once_in(4));
                let (token, fence) = held.unwrap_or((token, used));
                (release, &all, vec![token, tombstone, keep, value, fence, fleet])
            }
            13..=18 => (release, &all, vec![token, tombstone, used, fleet]),
            19..=20 if kind == Kind::Election => (election::LEADER, &[1], vec![]),
            19..=20 if matches!(kind, Kind::Lock | Kind::Semaphore) => {
                let convert = if kind == Kind::Lock { CONVERT } else { semaphore::CONVERT };
                let arguments = vec![token, self.token(), self.mode(kind), ttl, block, tombstone, used, fleet];
                (convert, &all, arguments)
            }
            19..=22 => {
                // A TTL of 1 is the shortest. It changes a key without a TTL, and one in its last millisecond.
                let ttl = (*self.rng.pick(&["0", "1", "30", "50000", "-7"])).to_owned();
                let token = if self.rng.once_in(2) { self.holder(values, name) } else { token };
                let members = kind == Kind::Semaphore || kind == Kind::Lock && self.rng.once_in(2);
                (renew, if members { &[1, 5] } else { &[1] }, vec![token, ttl])
            }
            // The last key is that of a semaphore's permits, for any kind.
            23 if kind == Kind::Semaphore => (INSPECT, &[1, 2, 3, 4, 6, 5], vec![]),
            23 => (INSPECT, &all, vec![]),
            24 => {
                let which = (*self.rng.pick(&["leases", "any"])).to_owned();
                (force, &all, vec![which, used, fleet])
            }
            // Below and above the fence that was drawn.
            25 => {
                let keys: &[usize] = if self.rng.once_in(2) { &[1, 2, 5] } else { &[1, 2] };
                (RAISE, keys, vec![token, self.fence()])
            }
            26..=28 => (RELEASE_FAST, &[1], vec![self.value(values, name)]),
            _ => (ACQUIRE_FAST, &[1, 3, 2], vec![format!("{token} "), ttl]),
        };
        let keys = numbers.iter().map(|number| key(name, *number, kind)).collect();
        call(script, keys, arguments)
    }

    /// What N holds, with its mark or without it, or another value.
    fn value(&mut self, values: &impl Values, name: &str) -> String {
        let value = values.value(name).unwrap_or_default();
        let token = self.token();
        self.rng.pick(&[value.clone(), value.clone(), value.replace('*', " "), format!("{token} 5"), token]).clone()
    }

    /// The token that holds the name.
    fn holder(&mut self, values: &impl Values, name: &str) -> String {
        let value = values.value(name).unwrap_or_default();
        match value.split([' ', '*']).next() {
            Some(holder) if !holder.is_empty() => holder.to_owned(),
            _ => self.token(),
        }
    }

    fn batch(&mut self, values: &impl Values) -> Step {
        let (mut takes, mut keys, mut arguments) = (0, Vec::new(), Vec::new());
        for _ in 0..self.rng.range((1, 4)) {
            let place = self.place();
            let (name, kind) = (NAMES[place], self.kind(place));
            let (token, ttl) = (self.token(), self.ttl());
            let words = match (kind, self.rng.below(6)) {
                (Kind::Semaphore, 0..=2) => ["permit".to_owned(), token, ttl, self.permits()].to_vec(),
                (Kind::Semaphore, 3) => ["renew-permit".to_owned(), token, ttl].to_vec(),
                (Kind::Semaphore, _) => ["unpermit".to_owned(), token].to_vec(),
                (Kind::Reentrant, 0) => ["acquire-reentrant".to_owned(), token, ttl].to_vec(),
                (Kind::Reentrant, 1) => ["release-reentrant".to_owned(), token].to_vec(),
                (_, 0) => ["acquire".to_owned(), format!("{token} "), ttl].to_vec(),
                (_, 1) => ["release".to_owned(), self.value(values, name)].to_vec(),
                (_, 2) => ["renew".to_owned(), token, ttl].to_vec(),
                (_, 3) => ["share".to_owned(), token, ttl].to_vec(),
                (Kind::Reentrant | Kind::Once | Kind::Election, 4) => {
                    ["renew-reentrant".to_owned(), token, ttl].to_vec()
                }
                (_, 4) => ["renew-share".to_owned(), token, ttl].to_vec(),
                _ => ["unshare".to_owned(), token].to_vec(),
            };
            let numbers: &[usize] = match words[0].as_str() {
                "release" | "renew" | "renew-reentrant" | "release-reentrant" => &[1],
                "acquire" | "acquire-reentrant" => &[1, 3],
                "unshare" | "renew-share" | "renew-permit" => &[1, 5],
                _ => &[1, 3, 5],
            };
            takes += usize::from(["acquire", "acquire-reentrant", "share", "permit"].contains(&words[0].as_str()));
            keys.extend(numbers.iter().map(|number| key(name, *number, kind)));
            arguments.extend(words);
        }
        if takes > 0 {
            keys.push(COUNTER.to_owned());
        }
        if self.rng.once_in(100) {
            arguments.push("unknown".to_owned());
        }
        arguments.insert(0, takes.to_string());
        call(BATCH, keys, arguments)
    }

    fn multi(&mut self) -> Step {
        let (mut keys, mut arguments) = (Vec::new(), vec![self.ttl()]);
        for (place, name) in NAMES.iter().enumerate().take(self.rng.range((1, 3)) as usize) {
            // Reentrant locks, onces and elections are refused.
            let kind = self.kind(place);
            let mode = if kind == Kind::Semaphore { self.mode(kind) } else { self.mode(Kind::Lock) };
            keys.extend([1, 3, 4].map(|number| key(name, number, kind)));
            if mode != EXCLUSIVE {
                keys.push(key(name, 5, kind));
            }
            arguments.extend([self.token(), mode]);
        }
        keys.push(COUNTER.to_owned());
        call(MULTI, keys, arguments)
    }

    /// A plain command of another client, on any key.
    fn foreign_command(&mut self) -> Step {
        let place = self.place();
        let (name, kind) = (NAMES[place], self.kinds[place]);
        let number = 1 + self.rng.below(6) as usize;
        let key = key(name, number, kind);
        let token = self.token();
        let values = ["f-f-f-f-f:7 5 [3]", "somebody", "shared", "shared 5", "shared*5", "abc 123", "", "12", &token];
        let value = (*self.rng.pick(&values)).to_owned();
        // A counter far above the clock, one that there is no room above, and some that are no numbers.
        let counters =
            ["5", "1500000000000000", "9007199254736896", "9007199254736897", "abc", "-5", "0012", "", "1e15"];
        let counter = *self.rng.pick(&counters);
        let modes = [
            "once 7",
            "once 30000 3000 1 1 9999999999999",
            "exclusive 30000 3000 1 1 99",
            "1/2",
            "2/x",
            "odd",
            "1/1 30000 3000 1 1 9999999999999",
            "1/2/40 30000 3000 1 1 9999999999999",
            "12 leads",
            "7 ",
        ];
        let mode = *self.rng.pick(&modes);
        let command = self.rng.pick(&FOREIGN_COMMANDS);
        let word = |word: &str| match word {
            "<name>" => name.to_owned(),
            "<key>" => key.clone(),
            "<value>" => value.clone(),
            "<token>" => token.clone(),
            "<mode>" => mode.to_owned(),
            "<counter>" => COUNTER.to_owned(),
            "<fence>" => counter.to_owned(),
            "<acquire>" => ACQUIRE.sha1.to_owned(),
            word => word.to_owned(),
        };
        Step { script: None, words: command.split(' ').map(word).collect() }
    }
}

/// What another client may send. The words in angle brackets are replaced.
const FOREIGN_COMMANDS: [&str; 65] = [
    "SET <name> <value> PX 30000",
    "SET <name> <value>",
    "SET <name> <value> KEEPTTL",
    "SET <name> <value> NX PX 40",
    "SET <name> <value> XX GET EX 1",
    "SET <name> <value> PX",
    "SET <name> <value> PX 0",
    "SET <counter> <fence>",
    "SET <counter> <fence> PX 60000",
    "DEL <counter>",
    "DEL <key>",
    "DEL <key> <name> nothing",
    "GET <key>",
    "TYPE <key>",
    "PTTL <key>",
    "EXISTS <key> <name>",
    "PERSIST <key>",
    "PERSIST <name>",
    "PEXPIRE <key> 30000",
    "PEXPIRE <key> -1",
    "PEXPIRE <key> soon",
    "HSET <key> <token> <mode>",
    "HSET <key> field",
    "HGET <key> <token>",
    "HMGET <key> <token> used",
    "HLEN <key>",
    "HDEL <key> <token> used",
    "ZADD <key> 5 <token>",
    "ZADD <key> 9999999999999 <token>",
    "ZADD <key> -9999999999999 <token>",
    "ZADD <key> high <token>",
    "ZADD <key> 1 <token> 2",
    "ZREM <key> <token>",
    "ZSCORE <key> <token>",
    "ZRANK <key> <token>",
    "ZREVRANK <key> <token>",
    "ZCARD <key>",
    "ZCOUNT <key> -inf (0",
    "ZCOUNT <key> low 0",
    "ZRANGE <key> 0 -1 WITHSCORES",
    "ZRANGE <key> -2 -1",
    "ZRANGE <key> 0 last",
    "ZRANGEBYSCORE <key> 0 +inf",
    "ZRANGEBYSCORE <key> -inf +inf LIMIT 0 2",
    "ZRANGEBYSCORE <key> 0 +inf WITHSCORES LIMIT 0 -1",
    "ZREMRANGEBYSCORE <key> -inf (0",
    "GETRANGE <key> 0 5",
    "GETRANGE <key> -3 -1",
    "PUBLISH leasehold:someone <value>",
    "PING",
    "PING pong ping",
    "ECHO <value>",
    "SELECT 0",
    "SELECT 99",
    "WAIT 0 -1",
    "EVALSHA ffffffffffffffffffffffffffffffffffffffff 0",
    "EVALSHA <acquire> 7 <name>",
    "EVALSHA <acquire> -1 <name>",
    "EVALSHA <acquire> one <name>",
    "EVALSHA <acquire>",
    "GET",
    "FROBNICATE <key>",
    "SCRIPT FROBNICATE",
    "SCRIPT EXISTS ffff",
    "CLUSTER INFO",
];

fn call(script: Script, keys: Vec<String>, arguments: Vec<String>) -> Step {
    let head = ["EVALSHA".to_owned(), script.sha1.to_owned(), keys.len().to_string()];
    Step { script: Some(script), words: head.into_iter().chain(keys).chain(arguments).collect() }
}

impl Step {
    pub(crate) fn shown(&self) -> String {
        match self.script {
            Some(script) => format!("{} {}", script.name, self.words[2..].join(" ")),
            None => self.words.join(" "),
        }
    }

    /// The script and its status, or what an entry of a batch did.
    pub(crate) fn path(&self, reply: &Result<Reply, String>) -> String {
        let Some(script) = self.script else { return "command".to_owned() };
        let done = match reply {
            // Redis 6.2 wraps the error in a sentence about the script.
            Err(text) => ["WRONGTYPE", "OOM", "BADFENCE", "READONLY", "TRYAGAIN", "non local"]
                .into_iter()
                .find(|code| text.contains(code))
                .unwrap_or("ERR")
                .to_owned(),
            Ok(Reply::One(Scalar::Int(number))) => number.to_string(),
            Ok(Reply::One(_)) => "us".to_owned(),
            Ok(Reply::List(items)) => match (script.name, items.as_slice()) {
                ("batch", [_, _, entries @ ..]) if entries.iter().all(|done| *done == Scalar::Int(0)) => {
                    "undone".into()
                }
                ("batch", _) => "done".to_owned(),
                ("multi", [_, _, status, ..]) => scalar_text(status),
                ("inspect" | "leader", _) => "told".to_owned(),
                ("acquire-fast", _) => "us fence".to_owned(),
                (_, items) => items.first().map_or_else(String::new, scalar_text),
            },
        };
        format!("{} {done}", script.name)
    }

    /// The same call by the script's text, if there is a script.
    pub(crate) fn by_text(&self) -> Option<Vec<&str>> {
        let mut words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        (words[0], words[1]) = ("EVAL", self.script?.source);
        Some(words)
    }
}
