//! The waiters of a name, read from the keys on the server.

use leasehold_model::ModelServer;

use super::NAMES;

/// A waiter in a name's queue.
pub(super) struct Waiter {
    pub(super) token: String,
    /// Until when it counts as alive, in the server's ms.
    pub(super) alive_until_ms: u64,
}

/// The waiters of a name, in their order. Tokens that were given up don't wait.
pub(super) fn waiters(model: &ModelServer, server_us: u64, name: &str) -> Vec<Waiter> {
    let side = |part: &str| {
        let open = if name.contains('{') { format!("leasehold::{name}") } else { format!("leasehold:{{{name}}}") };
        format!("{open}:{part}")
    };
    let queue = model.zset(server_us, &side("queue"));
    let records = model.hash(server_us, &side("waiters"));
    let read = |(token, _): (String, f64)| {
        let record = records.iter().find(|(other, _)| *other == token).map(|(_, record)| record.as_str());
        let alive_until_ms = record.and_then(|record| record.rsplit(' ').next()?.parse().ok()).unwrap_or(0);
        Waiter { token, alive_until_ms }
    };
    queue.into_iter().filter(|(_, score)| *score > 0.0).map(read).collect()
}

/// The names that live waiters want, each with its first live waiter.
pub(super) fn wanted(model: &ModelServer, server_us: u64) -> Vec<(&'static str, String)> {
    let first = |name: &&'static str| {
        let alive = |waiter: &Waiter| waiter.alive_until_ms > server_us / 1_000;
        waiters(model, server_us, name).into_iter().find(alive).map(|waiter| (*name, waiter.token))
    };
    NAMES.iter().filter_map(first).collect()
}
