//! A cluster's hash slots: which server serves which keys.
//!
//! <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>

use std::fmt;
use std::sync::Arc;

use redis::Value;

const SLOT_COUNT: u16 = 16_384;

/// A server's address as the cluster announces it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::net) struct Address {
    pub(super) host: Arc<str>,
    pub(super) port: u16,
}

impl Address {
    pub(super) fn new(host: &str, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// Parses `host:port`. An empty host stands for the host of the server that answered.
    fn parse(text: &str, answered_by: &Self) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = if host.is_empty() { Arc::clone(&answered_by.host) } else { host.into() };
        Some(Self { host, port: port.parse().ok()? })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// The known primary of each slot.
#[derive(Clone, Debug, Default)]
pub(super) struct SlotMap {
    primaries: Vec<Address>,
    replicas: Vec<Address>,
    /// For each slot, the index of its primary plus 1. 0 if it is unknown.
    owners: Vec<u16>,
}

impl SlotMap {
    /// Parses the answer to `CLUSTER SLOTS` from the server at `answered_by`.
    pub(super) fn parse(answer: &Value, answered_by: &Address) -> Option<Self> {
        let Value::Array(ranges) = answer else { return None };
        let mut slots = Self::default();
        for range in ranges {
            let Value::Array(range) = range else { return None };
            let [Value::Int(first), Value::Int(last), primary, replicas @ ..] = range.as_slice() else { return None };
            let (first, last) = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
            slots.replicas.extend(replicas.iter().filter_map(|replica| address(replica, answered_by)));
            let Some(primary) = address(primary, answered_by) else { continue };
            for slot in first..=last.min(SLOT_COUNT - 1) {
                slots.set_owner(slot, &primary);
            }
        }
        Some(slots)
    }

    pub(super) fn owner(&self, slot: u16) -> Option<&Address> {
        let index = self.owners.get(usize::from(slot))?.checked_sub(1)?;
        self.primaries.get(usize::from(index))
    }

    pub(super) fn set_owner(&mut self, slot: u16, owner: &Address) {
        let index = self.primaries.iter().position(|known| known == owner).unwrap_or_else(|| {
            self.primaries.push(owner.clone());
            self.primaries.len() - 1
        });
        self.owners.resize(usize::from(SLOT_COUNT), 0);
        if let (Some(entry), Ok(index)) = (self.owners.get_mut(usize::from(slot)), u16::try_from(index + 1)) {
            *entry = index;
        }
    }

    pub(super) fn primaries(&self) -> &[Address] {
        &self.primaries
    }

    /// All servers, primaries first.
    pub(super) fn servers(&self) -> impl Iterator<Item = &Address> {
        self.primaries.iter().chain(&self.replicas)
    }
}

/// The ids of all servers in an answer to `CLUSTER SLOTS`.
pub(super) fn node_ids(answer: &Value) -> Vec<String> {
    let servers = list(answer).iter().flat_map(list).map(list);
    let mut ids: Vec<_> = servers.filter_map(|server| redis::from_redis_value_ref(server.get(2)?).ok()).collect();
    ids.sort();
    ids.dedup();
    ids
}

fn list(value: &Value) -> &[Value] {
    if let Value::Array(values) = value { values } else { &[] }
}

/// Parses one server in an answer to `CLUSTER SLOTS`: host and port. The host is empty if the server doesn't know its own.
fn address(server: &Value, answered_by: &Address) -> Option<Address> {
    let Value::Array(fields) = server else { return None };
    let (host, port) = match fields.as_slice() {
        [Value::BulkString(host), Value::Int(port), ..] => (String::from_utf8_lossy(host).into_owned(), port),
        [Value::Nil, Value::Int(port), ..] => (String::new(), port),
        _ => return None,
    };
    let port = u16::try_from(*port).ok()?;
    match host.as_str() {
        "?" => None,
        "" => Some(Address { host: Arc::clone(&answered_by.host), port }),
        host => Some(Address::new(host, port)),
    }
}

/// Where a server redirects a command to.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::net) enum Redirect {
    /// The slot has moved to that server for good.
    Moved { slot: u16, to: Address },
    /// The slot is being moved. These keys are already there, or don't exist.
    Ask { to: Address },
}

impl Redirect {
    /// Parses the error with which the server at `answered_by` refused a command.
    pub(in crate::net) fn parse(refusal: &str, answered_by: &Address) -> Option<Self> {
        let mut words = refusal.split_ascii_whitespace();
        let (code, slot, to) = (words.next()?, words.next()?, Address::parse(words.next()?, answered_by)?);
        match code {
            "MOVED" => Some(Self::Moved { slot: slot.parse().ok().filter(|slot| *slot < SLOT_COUNT)?, to }),
            "ASK" => Some(Self::Ask { to }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_tells_who_serves_each_slot() {
        let asked = Address::new("10.0.0.1", 7000);
        let wire = b"*2\r\n*4\r\n:0\r\n:99\r\n*2\r\n$0\r\n\r\n:7000\r\n*2\r\n$8\r\n10.0.0.9\r\n:7001\r\n\
            *3\r\n:100\r\n:16383\r\n*3\r\n$8\r\n10.0.0.2\r\n:7002\r\n$2\r\nid\r\n";
        let answer = redis::parse_redis_value(wire).expect("a value");
        let mut slots = SlotMap::parse(&answer, &asked).expect("an answer of a cluster");
        assert_eq!(slots.owner(0), Some(&asked), "it does not know its own host");
        assert_eq!(slots.owner(99), Some(&asked));
        assert_eq!(slots.owner(100), Some(&Address::new("10.0.0.2", 7002)));
        assert_eq!(slots.servers().count(), 3);
        assert_eq!(node_ids(&answer), ["id"]);
        slots.set_owner(100, &asked);
        assert_eq!((slots.owner(100), slots.primaries().len()), (Some(&asked), 2));
        assert_eq!(SlotMap::default().owner(5), None);
    }

    #[test]
    fn a_redirect_tells_where_to_go() {
        let here = Address::new("::1", 1);
        let to = Address::new("10.0.0.2", 7002);
        let moved = Some(Redirect::Moved { slot: 5, to: to.clone() });
        assert_eq!(Redirect::parse("MOVED 5 10.0.0.2:7002", &here), moved);
        assert_eq!(Redirect::parse("ASK 5 10.0.0.2:7002", &here), Some(Redirect::Ask { to }));
        assert_eq!(Redirect::parse("ASK 5 :9", &here), Some(Redirect::Ask { to: Address::new("::1", 9) }));
        for other in ["ERR no", "MOVED", "MOVED 99999 10.0.0.2:7002", "MOVED 5 nowhere"] {
            assert_eq!(Redirect::parse(other, &here), None, "{other}");
        }
    }
}
