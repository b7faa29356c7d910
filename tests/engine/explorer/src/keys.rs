//! What the server has of the name: its keys, who holds it, and who waits.

use leasehold_core::Kind;
use leasehold_memory::Server;

/// The name that everybody wants.
pub(crate) const NAME: &str = "job";

/// The keys of the name. An eviction takes one of them. The last one has the result of a once.
pub(crate) const KEYS: [&str; 7] = [
    NAME,
    "leasehold:fence",
    "leasehold:{job}:queue",
    "leasehold:{job}:waiters",
    "leasehold:{job}:readers",
    "leasehold:{job}:none",
    RESULT,
];

pub(crate) const RESULT: &str = "leasehold:{job}:result";

/// The channel on which an election tells who leads.
pub(crate) const LEADER_CHANNEL: &str = "leasehold:{job}:leader";

/// A holder that is gone.
pub(crate) const GHOST: &[u8] = b"gone:1 1700000000000000";

/// The last fence, from a second ago.
pub(crate) const OLD_FENCE: &[u8] = b"1799999999000000";

/// The keys that a script of this kind declares.
pub(crate) fn of_script(kind: Kind) -> [&'static str; 6] {
    let [name, fence, queue, waiters, readers, none, result] = KEYS;
    [name, fence, queue, waiters, if matches!(kind, Kind::Once { .. }) { result } else { readers }, none]
}

/// The tokens that hold the name.
pub(crate) fn holders(server: &Server, time: u64) -> Vec<Vec<u8>> {
    let Some(value) = server.text(time, NAME.as_bytes()) else {
        // A once or an election.
        return server.fields(time, NAME.as_bytes()).map(|(token, _)| token.to_vec()).collect();
    };
    let holder = value.split(|byte| matches!(byte, b' ' | b'*')).next().unwrap_or_default();
    if holder == b"shared" {
        let readers = server.members(time, KEYS[4].as_bytes());
        return readers.filter(|(_, ends)| *ends * 1_000.0 >= time as f64).map(|(token, _)| token.to_vec()).collect();
    }
    vec![holder.to_vec()]
}

/// The tokens that wait, in order. Those that were given up have negative scores.
pub(crate) fn waiters(server: &Server, time: u64) -> Vec<Vec<u8>> {
    let queue = server.members(time, KEYS[2].as_bytes());
    queue.filter(|(_, score)| *score >= 0.0).map(|(token, _)| token.to_vec()).collect()
}

/// What the hash of a once or an election has of its one holder: the token, and what is behind it, as two words.
pub(crate) fn entry(server: &Server, time: u64) -> Option<(Vec<u8>, String, String)> {
    let (token, said) = server.fields(time, NAME.as_bytes()).next()?;
    let (first, second) = str::from_utf8(said).ok()?.split_once(' ')?;
    Some((token.to_vec(), first.to_owned(), second.to_owned()))
}
