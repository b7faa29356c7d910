//! What replies and messages allow: the fences that a lease may have, and how long it may last.
//!
//! The bounds are generous where a short reply leaves something out. But all that the engine grants must come from
//! something that arrived.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use leasehold_core::{Command, Reply, Scalar};
use leasehold_lua::{ACQUIRE_FAST, ALL, BATCH, CUT_TTL, MULTI, RELEASE_FAST};

use crate::names::known;

/// The most fences that one command asks for.
const MOST_FENCES: u64 = 1024;
/// A number in a reply that is greater is no TTL.
const LONGEST_MS: u64 = CUT_TTL as u64 - 1;

#[derive(Default)]
pub(crate) struct Backing {
    names: BTreeMap<&'static str, Backed>,
}

#[derive(Default)]
struct Backed {
    fences: Vec<RangeInclusive<u64>>,
    /// Until when a lease may be valid, in µs.
    until: u64,
    /// The longest TTL that a caller asked for, in milliseconds.
    ttl: u64,
}

impl Backing {
    /// A caller asks for a TTL.
    pub(crate) fn asked(&mut self, name: &'static str, ttl: u64) {
        let backed = self.names.entry(name).or_default();
        backed.ttl = backed.ttl.max(ttl);
    }

    /// The server answers a command about these names, which was sent at `sent`.
    pub(crate) fn replied(&mut self, names: &[&'static str], sent: u64, command: &Command, reply: &Reply) {
        let numbers = match reply {
            Reply::One(one) => vec![number(one)],
            Reply::List(list) => list.iter().map(number).collect::<Vec<_>>(),
        };
        for name in names {
            let backed = self.names.entry(name).or_default();
            let (fences, ms) = match (is_fast(command), numbers.as_slice()) {
                (false, [_, Some(value), block, _, ms, ..]) => {
                    let last = value.saturating_add(block.unwrap_or_default()).saturating_sub(1);
                    (vec![*value..=last], ms.unwrap_or_default())
                }
                (false, _) => (Vec::new(), 0),
                // The fast path and several names: the TTL is what the command said, and the block too.
                (true, numbers) => {
                    let all = || numbers.iter().copied().flatten();
                    let longest = all().filter(|ms| *ms <= LONGEST_MS).max().unwrap_or_default();
                    let fences = all().map(|first| first..=first.saturating_add(MOST_FENCES));
                    (fences.collect(), longest.max(backed.ttl))
                }
            };
            backed.fences.extend(fences);
            backed.until = backed.until.max(after(sent, ms));
        }
    }

    /// A message on this client's channel.
    pub(crate) fn note_waiting(&mut self, now: u64, payload: &str) {
        let words: Vec<&str> = payload.splitn(9, ' ').collect();
        let ["grant", _, _, fence, block, _, ms, _, key] = words[..] else { return };
        let (Ok(fence), Ok(block), Ok(ms)) = (fence.parse::<u64>(), block.parse::<u64>(), ms.parse()) else { return };
        if let Some(name) = known(key) {
            let backed = self.names.entry(name).or_default();
            backed.fences.push(fence..=fence.saturating_add(block).saturating_sub(1));
            backed.until = backed.until.max(after(now, ms));
        }
    }

    /// Panics if nothing that arrived allows a lease with this fence until this time.
    pub(crate) fn check(&self, name: &str, fence: u64, until: u64) {
        let backed = self.names.get(name).unwrap_or_else(|| panic!("{name} is granted, and no reply was about it"));
        let known = backed.fences.iter().any(|range| range.contains(&fence));
        assert!(known, "{name} is granted with the fence {fence}, which no reply gave");
        self.check_until(name, until);
    }

    /// Panics if nothing that arrived allows a lease until this time.
    pub(crate) fn check_until(&self, name: &str, until: u64) {
        let most = self.names.get(name).map_or(0, |backed| backed.until);
        assert!(until <= most, "{name} is granted until {until} µs, and the replies allow {most} µs");
    }
}

/// Whether the reply is shorter than that of a script for one name.
fn is_fast(command: &Command) -> bool {
    let script = command.words().nth(1).unwrap_or_default();
    [ACQUIRE_FAST, RELEASE_FAST, BATCH, MULTI]
        .iter()
        .any(|known| known.sha1.as_bytes() == script || known.source.as_bytes() == script)
}

/// The name of a command's script. Empty if it runs none.
pub(crate) fn script_of(command: &Command) -> &'static str {
    let script = command.words().nth(1).unwrap_or_default();
    let known = ALL.iter().find(|known| known.sha1.as_bytes() == script || known.source.as_bytes() == script);
    known.map_or("", |known| known.name)
}

fn after(from: u64, ms: u64) -> u64 {
    from.saturating_add(ms.saturating_mul(1_000))
}

fn number(scalar: &Scalar) -> Option<u64> {
    match scalar {
        Scalar::Int(number) => u64::try_from(*number).ok(),
        Scalar::Text(text) => u64::try_from(std::str::from_utf8(text).ok()?.parse::<i64>().ok()?).ok(),
        Scalar::Nil => None,
    }
}
