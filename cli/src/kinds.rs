//! The kind of a lock. The type of its key shows it, and the only field of a hash: see `lua/README.md`. A semaphore's permits
//! are in a key of their own.

use std::collections::HashMap;
use std::time::Duration;

use leasehold::redis_1::redis::{self, Value};
use leasehold::{Holder, Inspection};

use crate::args::Servers;
use crate::keyspace::{client_of, permits_key, result_key};
use crate::servers::Node;

/// What is in the lock's place.
pub(crate) enum Kind {
    /// A mutex or a read-write lock: the mode of its holder tells.
    Lock,
    Reentrant,
    /// How many permits each token holds.
    Semaphore(HashMap<String, u32>),
    Once,
    /// A once whose work is done.
    Done(Stored),
    Election(Leader),
}

/// The stored result of a once, without its value, which may be private.
pub(crate) struct Stored {
    /// The fence with which the work was done.
    pub(crate) fence: u64,
    /// The client that did it.
    pub(crate) client: String,
    /// How long ago that client was granted the lock.
    pub(crate) began: Duration,
    /// How long the server still keeps it.
    pub(crate) kept: Duration,
    /// The length of the value.
    pub(crate) bytes: usize,
}

/// The term of an election.
pub(crate) struct Leader {
    pub(crate) fence: u64,
    /// What the leader tells about itself.
    pub(crate) value: String,
}

impl Kind {
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Reentrant => "reentrant",
            Self::Semaphore(_) => "semaphore",
            Self::Once | Self::Done(_) => "once",
            Self::Election(_) => "election",
        }
    }

    pub(crate) const fn is_semaphore(&self) -> bool {
        matches!(self, Self::Semaphore(_))
    }

    pub(crate) const fn leader(&self) -> Option<&Leader> {
        if let Self::Election(leader) = self { Some(leader) } else { None }
    }

    pub(crate) const fn stored(&self) -> Option<&Stored> {
        if let Self::Done(stored) = self { Some(stored) } else { None }
    }

    fn permits(&self) -> Option<&HashMap<String, u32>> {
        if let Self::Semaphore(permits) = self { Some(permits) } else { None }
    }

    /// How many permits these holders have. None if it is not known of one of them.
    pub(crate) fn taken(&self, seen: &Inspection) -> Option<u32> {
        let permits = self.permits()?;
        seen.holders.iter().map(|holder| permits.get(&holder.token)).sum()
    }

    pub(crate) fn permits_of(&self, holder: &Holder) -> Option<u32> {
        self.permits()?.get(&holder.token).copied()
    }
}

/// The kind of one lock, from its server. Without it, less is shown.
pub(crate) async fn kind(servers: &Servers, name: &str) -> Option<Kind> {
    let key = format!("{}{name}", servers.prefix);
    let mut node = servers.node_of(&key).await.ok()?;
    kinds(&mut node, &[key]).await.pop().flatten()
}

/// A once of this name that has a result. None if there is none, or if this user may not read it.
pub(crate) async fn done(servers: &Servers, name: &str) -> Option<Kind> {
    let key = format!("{}{name}", servers.prefix);
    let (result, mut node) = (result_key(&key), servers.node_of(&key).await.ok()?);
    let mut pipeline = redis::pipe();
    pipeline.cmd("GET").arg(&result).cmd("PTTL").arg(&result).cmd("TIME");
    let (record, kept, (s, us)): (Option<Vec<u8>>, i64, (u64, u64)) = node.pipeline(&pipeline).await.ok()?;
    // `<writer's token> <its fence> <value>`
    let record = record?;
    let mut words = record.splitn(3, |byte| *byte == b' ');
    let token = std::str::from_utf8(words.next()?).ok()?;
    let fence: u64 = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
    Some(Kind::Done(Stored {
        fence,
        client: client_of(token).to_owned(),
        // A fence is close to the server's time at the grant, in µs.
        began: Duration::from_micros((s * 1_000_000 + us).saturating_sub(fence)),
        kept: Duration::from_millis(kept.try_into().ok()?),
        bytes: words.next()?.len(),
    }))
}

/// The kinds of the locks with these keys, in one round trip. None for a key that is gone, that is no lock, or that this
/// user may not read.
pub(crate) async fn kinds(node: &mut Node, keys: &[String]) -> Vec<Option<Kind>> {
    let mut pipeline = redis::pipe();
    for key in keys {
        pipeline.cmd("TYPE").arg(key).cmd("HGETALL").arg(key).cmd("HGETALL").arg(permits_key(key));
    }
    let answers: Vec<Value> = node.pipeline(pipeline.ignore_errors()).await.unwrap_or_default();
    let mut kinds: Vec<_> = answers
        .chunks(3)
        .map(|answers| match answers {
            [kind, fields, permits] => read(kind, fields, permits),
            _ => None,
        })
        .collect();
    kinds.resize_with(keys.len(), || None);
    kinds
}

fn read(kind: &Value, fields: &Value, permits: &Value) -> Option<Kind> {
    match redis::from_redis_value_ref::<String>(kind).ok()?.as_str() {
        "string" => Some(Kind::Lock),
        "hash" => of_field(redis::from_redis_value_ref::<HashMap<String, String>>(fields).ok()?.values().next()?),
        "zset" => {
            let mut fields: HashMap<String, String> = redis::from_redis_value_ref(permits).ok()?;
            fields.remove("limit")?;
            // A mode is `<permits>/<limit>`, or `<permits>/<limit>/<per>` of a rate.
            let held =
                fields.into_iter().filter_map(|(token, mode)| Some((token, mode.split_once('/')?.0.parse().ok()?)));
            Some(Kind::Semaphore(held.collect()))
        }
        _ => None,
    }
}

/// A hash has one field, the holder: with `<count>` if it is reentrant, `once <fence>`, or `<fence> <value>` of an election.
fn of_field(text: &str) -> Option<Kind> {
    let Some((first, rest)) = text.split_once(' ') else { return Some(Kind::Reentrant) };
    if first == "once" {
        return Some(Kind::Once);
    }
    Some(Kind::Election(Leader { fence: first.parse().ok()?, value: rest.to_owned() }))
}
