//! The contents of a lock's keys, read from the model or from a real server.

use leasehold_core::Reply;

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
        self.keys.clone().iter().map(|key| self.key_state(key)).collect()
    }

    fn key_state(&mut self, key: &str) -> KeyState {
        let kind = scalar_text(&scalar(self.command(&["TYPE", key])));
        let text_items = |reply: Reply| list(reply).iter().map(scalar_text).collect::<Vec<_>>();
        let mut items: Vec<(String, Option<f64>)> = match kind.as_str() {
            "string" => vec![(scalar_text(&scalar(self.command(&["GET", key]))), None)],
            "zset" => text_items(self.command(&["ZRANGE", key, "0", "-1", "WITHSCORES"]))
                .chunks(2)
                .map(|pair| (pair[0].clone(), pair[1].parse().ok()))
                .collect(),
            "hash" => text_items(self.command(&["HGETALL", key]))
                .chunks(2)
                .map(|pair| (format!("{} = {}", pair[0], pair[1]), None))
                .collect(),
            _ => Vec::new(),
        };
        if kind == "hash" {
            items.sort_by(|a, b| a.0.cmp(&b.0));
        }
        KeyState { kind, items, pttl: self.number(&["PTTL", key]) }
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
