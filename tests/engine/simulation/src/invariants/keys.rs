//! The keys on a server: only known keys, each with a TTL, and none lives longer than what it was written for.

use leasehold_core::{AcquireOptions, ClientId, Config, Engine, Input, Instant, NodeId, OpId, Output};
use leasehold_model::ModelServer;

use super::{Verdict, broken};
use crate::kinds::{KEEP_MS, LockKind};
use crate::wire::Token;

/// The purpose of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) enum Part {
    Lock,
    Fence,
    Queue,
    Waiters,
    Readers,
    Permits,
    Result,
}

/// The key that all names of a server draw their fences from. In a cluster, each slot has one.
pub(crate) const COUNTER: &str = "leasehold:fence";

/// How many keys a name may have.
const PARTS: usize = 5;

/// The names of a run and the keys that belong to them.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    parts: Vec<(String, usize, Part)>,
}

/// The longest times that anything in the run asked for, in ms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Longest {
    /// A lease.
    pub(crate) ttl_ms: u64,
    /// A claim window.
    pub(crate) claim_ms: u64,
    /// By how much the servers' clocks were set back.
    pub(crate) behind_ms: u64,
}

impl Keys {
    /// The keys that these names may have, by the rule in `lua/README.md`.
    pub(crate) fn of<'a>(names: impl Iterator<Item = (&'a str, LockKind)>, cluster: bool) -> Self {
        let mut keys = Self::default();
        for (place, (name, kind)) in names.enumerate() {
            let tagged =
                name.split_once('{').and_then(|(_, rest)| rest.split_once('}')).is_some_and(|(tag, _)| !tag.is_empty());
            let side = |part: &str| {
                if tagged { format!("leasehold::{name}:{part}") } else { format!("leasehold:{{{name}}}:{part}") }
            };
            keys.parts.push((name.to_string(), place, Part::Lock));
            let counter = if cluster { counter_of(name) } else { COUNTER.to_string() };
            keys.parts.push((counter, place, Part::Fence));
            keys.parts.push((side("queue"), place, Part::Queue));
            keys.parts.push((side("waiters"), place, Part::Waiters));
            keys.parts.push(match kind {
                LockKind::Semaphore => (side("permits"), place, Part::Permits),
                LockKind::Once => (side("result"), place, Part::Result),
                _ => (side("readers"), place, Part::Readers),
            });
        }
        keys
    }

    /// The five keys of a name, in the order of the scripts.
    pub(crate) fn of_name(&self, name: usize) -> [String; 5] {
        std::array::from_fn(|part| self.parts[name * PARTS + part].0.clone())
    }

    /// The key of a name's readers or permits.
    pub(crate) fn beside(&self, name: &str) -> String {
        let place = self.parts.iter().find(|(key, ..)| key == name).map_or(0, |(_, place, _)| *place);
        self.key(place, Part::Readers).to_owned()
    }

    /// The last of a name's keys, whose purpose depends on the kind.
    pub(crate) fn key(&self, name: usize, part: Part) -> &str {
        let at = if part == Part::Result { Part::Readers } else { part };
        &self.parts[name * PARTS + at as usize].0
    }

    /// The key that this name's fences are drawn from.
    pub(crate) fn counter(&self, name: usize) -> &str {
        &self.parts[name * PARTS + Part::Fence as usize].0
    }

    /// The tokens that an operator takes a lock from.
    pub(crate) fn victims(&self, model: &ModelServer, server_us: u64, name: usize) -> Vec<Token> {
        let key = &self.parts[name * PARTS].0;
        let readers = &self.parts[name * PARTS + Part::Readers as usize].0;
        if model.get(server_us, key).is_some_and(|value| holder_of(&value) == "shared") {
            let live = |(member, until): (String, f64)| (until > (server_us / 1_000) as f64).then_some(member);
            let members = model.zset(server_us, readers).into_iter().filter_map(live);
            return members.filter_map(|member| Token::read(member.as_bytes())).collect();
        }
        holders(model, server_us, key)
    }

    fn part(&self, key: &str) -> Option<Part> {
        self.parts.iter().find(|(known, ..)| known == key).map(|(.., part)| *part)
    }

    /// Checks everything on a server.
    pub(crate) fn check(&self, model: &ModelServer, server_us: u64, longest: Longest) -> Verdict {
        for (key, expires_us) in model.keys(server_us) {
            let Some(part) = self.part(&key) else {
                return broken("key-unknown", format!("{key}, which expires at {expires_us:?}"));
            };
            let Some(expires_us) = expires_us else {
                if part == Part::Fence || part == Part::Lock && is_foreign(model.get(server_us, &key)) {
                    continue;
                }
                return broken("key-without-ttl", key);
            };
            let most = match part {
                Part::Lock | Part::Readers | Part::Permits => longest.ttl_ms,
                Part::Fence => 0,
                Part::Result => KEEP_MS.1,
                Part::Waiters => longest.claim_ms,
                // With the tokens that were given up.
                Part::Queue => longest.claim_ms.max(60_000),
            };
            let ttl = expires_us.saturating_sub(server_us) / 1000;
            if ttl > most + longest.behind_ms {
                return broken(
                    "key-outlives",
                    format!("{key} has {ttl} ms left, and nothing asked for more than {most}"),
                );
            }
        }
        Ok(())
    }

    /// When a lock's own key expires, in the server's µs. None if it does not exist or never expires.
    pub(crate) fn lock_expires(&self, model: &ModelServer, server_us: u64, name: usize) -> Option<u64> {
        model.expires(server_us, &self.parts[name * PARTS].0)
    }

    /// When a lock's queue expires, in the server's µs. 0 if there is none.
    pub(crate) fn queue_expires(&self, model: &ModelServer, server_us: u64, name: usize) -> u64 {
        model.expires(server_us, &self.parts[name * PARTS + Part::Queue as usize].0).unwrap_or_default()
    }

    /// A lock's key exists at least until `promised`, in the server's ms, and as long as its last reader.
    pub(crate) fn lasts(&self, model: &ModelServer, server_us: u64, name: usize, promised: u64) -> Verdict {
        let key = |part: Part| &self.parts[name * PARTS + part as usize].0;
        let Some(expires_us) = model.expires(server_us, key(Part::Lock)) else { return Ok(()) };
        let until = expires_us / 1_000;
        if until < promised {
            return broken("key-short", format!("{} ends at {until} ms, and {promised} was answered", key(Part::Lock)));
        }
        match model.greatest_score(server_us, key(Part::Readers)) {
            Some(last)
                if last as u64 > until
                    && model.get(server_us, key(Part::Lock)).as_deref().map(holder_of) == Some("shared") =>
            {
                broken("key-short", format!("{} ends at {until} ms, and its last reader at {last}", key(Part::Lock)))
            }
            _ => Ok(()),
        }
    }

    /// After a long idle time, only fences are left.
    pub(crate) fn check_at_the_end(&self, model: &ModelServer, server_us: u64) -> Verdict {
        let left = |(key, _): &(String, _)| self.part(key) != Some(Part::Fence);
        match model.keys(server_us).into_iter().find(left) {
            Some((key, until)) => {
                broken("key-outlives", format!("{key} is still there until {until:?}, now is {server_us}"))
            }
            None => Ok(()),
        }
    }

    /// Every token in a lock's keys: holders, readers and waiters.
    pub(crate) fn tokens(&self, model: &ModelServer, server_us: u64, name: usize) -> Vec<Token> {
        let mut tokens = Vec::new();
        let value = model.get(server_us, &self.parts[name * PARTS].0);
        let shared = value.as_deref().map(holder_of) == Some("shared");
        for (key, _, part) in self.parts.iter().filter(|(_, place, _)| *place == name) {
            match part {
                Part::Lock => tokens.extend(holders(model, server_us, key)),
                // Readers from before the lock was something else don't count.
                Part::Readers if !shared => {}
                Part::Queue | Part::Readers => {
                    let members = model.zset(server_us, key).into_iter().filter(|(_, score)| *score > 0.0);
                    tokens.extend(members.filter_map(|(member, _)| Token::read(member.as_bytes())));
                }
                _ => {}
            }
        }
        tokens
    }

    /// The existing keys of a lock that can be lost alone.
    pub(crate) fn losable(&self, model: &ModelServer, server_us: u64, name: usize) -> Vec<(String, Part)> {
        let there = model.keys(server_us).into_iter().filter_map(|(key, _)| {
            let (key, place, part) = self.parts.iter().find(|(known, ..)| *known == key)?;
            let losable =
                matches!(part, Part::Lock | Part::Fence | Part::Queue | Part::Readers | Part::Permits | Part::Result);
            (*place == name && losable).then(|| (key.clone(), *part))
        });
        there.collect()
    }

    /// The holders under a lock's own key. If each has its own end, with that end in the server's ms.
    pub(crate) fn holders(&self, model: &ModelServer, server_us: u64, name: usize) -> Vec<(Token, Option<u64>)> {
        let key = &self.parts[name * PARTS].0;
        let members = model.zset(server_us, key);
        if members.is_empty() {
            return holders(model, server_us, key).into_iter().map(|token| (token, None)).collect();
        }
        let read = |(member, until): &(String, f64)| Some((Token::read(member.as_bytes())?, Some(*until as u64)));
        members.iter().filter_map(read).collect()
    }

    /// How many readers the lock's server knows.
    pub(crate) fn readers(&self, model: &ModelServer, server_us: u64, name: usize) -> usize {
        model.zset(server_us, &self.parts[name * PARTS + Part::Readers as usize].0).len()
    }

    /// Whether a semaphore's server knows the permits of its members.
    pub(crate) fn knows_permits(&self, model: &ModelServer, server_us: u64, name: usize) -> bool {
        !model.hash(server_us, &self.parts[name * PARTS + Part::Readers as usize].0).is_empty()
    }

    /// While clients wait, N says so.
    pub(crate) fn marked(&self, model: &ModelServer, server_us: u64, name: usize) -> Verdict {
        let value = model.get(server_us, &self.parts[name * PARTS].0).unwrap_or_default();
        let ours = holder_of(&value) == "shared" || Token::read(value.as_bytes()).is_some();
        if !ours || value.contains('*') || self.waiting(model, server_us, name).is_empty() {
            return Ok(());
        }
        broken("unmarked", format!("{value} is held, and clients wait"))
    }

    /// A waiter was told its place and how many wait.
    pub(crate) fn placed(
        &self,
        model: &ModelServer,
        server_us: u64,
        name: usize,
        token: Token,
        told: (u64, i64),
    ) -> Verdict {
        let waiting = self.waiting(model, server_us, name);
        let place = waiting.iter().position(|other| *other == token).map_or(0, |place| place as u64 + 1);
        if told == (place, waiting.len() as i64) {
            return Ok(());
        }
        broken("position", format!("{token:?} was told {told:?}, and is {place} of {}", waiting.len()))
    }

    /// A token gave the lock back by the fast path, which was left undone. Then clients wait, or it is not held.
    pub(crate) fn undone(&self, model: &ModelServer, server_us: u64, name: usize, token: Token) -> Verdict {
        let value = model.get(server_us, &self.parts[name * PARTS].0).unwrap_or_default();
        if Token::read(value.as_bytes()) != Some(token) || value.contains('*') {
            return Ok(());
        }
        broken("release-undone", format!("{value} was not given back, and nobody waits"))
    }

    /// The tokens in a lock's queue.
    pub(crate) fn waiting(&self, model: &ModelServer, server_us: u64, name: usize) -> Vec<Token> {
        let queue = self.parts.iter().find(|(_, place, part)| *place == name && *part == Part::Queue);
        let members = queue.map(|(key, ..)| model.zset(server_us, key)).unwrap_or_default();
        let waiting = members.iter().filter(|(_, score)| *score > 0.0);
        waiting.filter_map(|(member, _)| Token::read(member.as_bytes())).collect()
    }

    /// The live waiters in a lock's queue, and for how many callers each waits.
    pub(crate) fn callers(&self, model: &ModelServer, server_us: u64, name: usize) -> Vec<(Token, u64)> {
        let records = model.hash(server_us, &self.parts[name * PARTS + Part::Waiters as usize].0);
        let record = |token: Token| {
            let (_, record) = records.iter().find(|(other, _)| Token::read(other.as_bytes()) == Some(token))?;
            let mut words = record.rsplit(' ');
            let alive_until: u64 = words.next()?.parse().ok()?;
            let callers = words.next()?.parse().ok()?;
            (alive_until > server_us / 1_000).then_some((token, callers))
        };
        self.waiting(model, server_us, name).into_iter().filter_map(record).collect()
    }

    /// The waiters in a lock's queue, and until when each counts as alive, in the server's ms.
    pub(crate) fn waiters(&self, model: &ModelServer, server_us: u64, name: usize) -> Vec<(Token, u64)> {
        let records = model.hash(server_us, &self.parts[name * PARTS + Part::Waiters as usize].0);
        let alive_until = |token: &Token| {
            let (_, record) = records.iter().find(|(other, _)| Token::read(other.as_bytes()) == Some(*token))?;
            record.rsplit(' ').next()?.parse().ok()
        };
        let waiting = self.waiting(model, server_us, name).into_iter();
        waiting.map(|token| (token, alive_until(&token).unwrap_or(0))).collect()
    }

    /// A new tombstone leaves no expired one.
    pub(crate) fn after_tombstone(&self, model: &ModelServer, server_us: u64, name: usize) -> Verdict {
        let over = |(_, score): &(String, f64)| *score < 0.0 && -*score <= (server_us / 1000) as f64;
        let queue = &self.parts[name * PARTS + Part::Queue as usize].0;
        match model.zset(server_us, queue).into_iter().find(over) {
            Some((token, until)) => {
                broken("tombstones-grow", format!("the tombstone of {token} lasted until {until}, now is {server_us}"))
            }
            None => Ok(()),
        }
    }
}

/// The tokens under a lock's own key, of any kind.
fn holders(model: &ModelServer, server_us: u64, key: &str) -> Vec<Token> {
    let text = model.get(server_us, key).into_iter();
    let fields = model.hash(server_us, key).into_iter().map(|(field, _)| field);
    let members = model.zset(server_us, key).into_iter().map(|(member, _)| member);
    text.chain(fields).chain(members).filter_map(|holder| Token::read(holder.as_bytes())).collect()
}

fn is_foreign(value: Option<String>) -> bool {
    value.is_some_and(|value| holder_of(&value) != "shared" && Token::read(value.as_bytes()).is_none())
}

/// The counter of this name's slot. It has the second key of an acquire.
fn counter_of(name: &str) -> String {
    let (config, options) = (Config { batches: false, ..Config::default() }, AcquireOptions::default());
    let mut engine = Engine::new(ClientId::from_random([1; 16]), config).expect("the default options");
    engine.set_cluster(NodeId(0));
    engine.handle(Instant::default(), Input::Acquire { op: OpId(1), name, options: &options });
    while let Some(output) = engine.poll_output() {
        if let Output::Send { command, .. } = output {
            return String::from_utf8_lossy(command.words().nth(4).unwrap_or_default()).into_owned();
        }
    }
    unreachable!("an acquire sends a command");
}

/// The holder in the value of a lock's own key, without its fence.
pub(crate) fn holder_of(value: &str) -> &str {
    value.split([' ', '*']).next().unwrap_or_default()
}
