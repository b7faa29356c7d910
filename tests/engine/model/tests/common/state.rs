//! The contents of a lock's keys, read from the model or from a real server.

use leasehold_core::Reply;

use super::model::Model;
use super::{Host, Lock, list, scalar, scalar_text};

/// One key: its type, its sorted items with their scores, and its remaining TTL.
#[derive(Clone)]
pub(crate) struct KeyState {
    pub(crate) kind: String,
    pub(crate) items: Vec<(String, Option<f64>)>,
    pub(crate) pttl: i64,
}

impl std::fmt::Debug for KeyState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?} for {} ms", self.kind, self.items, self.pttl)
    }
}

impl<H: Host> Lock<H> {
    pub(crate) fn state(&mut self) -> Vec<KeyState> {
        self.keys.clone().iter().map(|key| self.read_key(key)).collect()
    }

    fn read_key(&mut self, key: &str) -> KeyState {
        let kind = scalar_text(&scalar(self.command(&["TYPE", key])));
        let words = match kind.as_str() {
            "string" => vec![scalar_text(&scalar(self.command(&["GET", key])))],
            "zset" => texts(self.command(&["ZRANGE", key, "0", "-1", "WITHSCORES"])),
            "hash" => texts(self.command(&["HGETALL", key])),
            _ => Vec::new(),
        };
        KeyState::new(kind, &words, self.number(&["PTTL", key]))
    }
}

impl Lock<Model> {
    /// As [`state`](Self::state), without a command.
    pub(crate) fn key_state(&self, key: &str) -> KeyState {
        let (server, now) = (&self.host.server, self.host.now_us);
        let (text, members, fields) = (server.get(now, key), server.zset(now, key), server.hash(now, key));
        let kind = match () {
            () if text.is_some() => "string",
            () if !members.is_empty() => "zset",
            () if !fields.is_empty() => "hash",
            () => "none",
        };
        let members = members.into_iter().flat_map(|(member, score)| [member, score.to_string()]);
        let fields = fields.into_iter().flat_map(|(field, value)| [field, value]);
        let words: Vec<String> = text.into_iter().chain(members).chain(fields).collect();
        let left = server.expires(now, key).map_or(-1, |expires| expires as i64 / 1_000 - now as i64 / 1_000);
        KeyState::new(kind.to_owned(), &words, if kind == "none" { -2 } else { left })
    }
}

/// The states of many keys of a real server, with one call.
pub(crate) fn dump(host: &mut impl Host, keys: &[String]) -> Vec<KeyState> {
    const DUMP: &str = "local all = {}
        for _, key in ipairs(KEYS) do
          local kind, words = redis.call('TYPE', key).ok, {}
          if kind == 'string' then words = { redis.call('GET', key) } end
          if kind == 'zset' then words = redis.call('ZRANGE', key, '0', '-1', 'WITHSCORES') end
          if kind == 'hash' then words = redis.call('HGETALL', key) end
          all[#all + 1] = kind
          all[#all + 1] = redis.call('PTTL', key)
          all[#all + 1] = #words
          for _, word in ipairs(words) do all[#all + 1] = word end
        end
        return all";
    let count = keys.len().to_string();
    let words: Vec<&str> = ["EVAL", DUMP, &count].into_iter().chain(keys.iter().map(String::as_str)).collect();
    let dumped = texts(host.run(&words).unwrap());
    let mut rest = dumped.as_slice();
    let mut states = Vec::new();
    while let [kind, pttl, count, more @ ..] = rest {
        let (words, more) = more.split_at(count.parse().unwrap());
        states.push(KeyState::new(kind.clone(), words, pttl.parse().unwrap()));
        rest = more;
    }
    states
}

fn texts(reply: Reply) -> Vec<String> {
    list(reply).iter().map(scalar_text).collect()
}

impl KeyState {
    fn new(kind: String, words: &[String], pttl: i64) -> Self {
        let pairs = words.chunks(2);
        let mut items: Vec<(String, Option<f64>)> = match kind.as_str() {
            "zset" => pairs.map(|pair| (pair[0].clone(), pair[1].parse().ok())).collect(),
            "hash" => pairs.map(|pair| (format!("{} = {}", pair[0], pair[1]), None)).collect(),
            _ => words.iter().map(|word| (word.clone(), None)).collect(),
        };
        // Members whose scores are a millisecond apart may change places.
        if kind == "hash" || kind == "zset" {
            items.sort_by(|a, b| a.0.cmp(&b.0));
        }
        Self { kind, items, pttl }
    }
}

/// Whether two states are equal, except for the few milliseconds that pass on a real server within a script.
pub(crate) fn alike(left: &[KeyState], right: &[KeyState], tolerance: i64) -> bool {
    left.iter().zip(right).all(|(left, right)| {
        left.kind == right.kind
            && left.items.len() == right.items.len()
            && left.items.iter().zip(&right.items).all(|(left, right)| {
                let (score, other) = (left.1.unwrap_or(0.0), right.1.unwrap_or(0.0));
                left.0 == right.0 && (score - other).abs() <= tolerance as f64
            })
            && (left.pttl - right.pttl).abs() <= tolerance
            && (left.pttl < 0) == (right.pttl < 0)
    })
}
