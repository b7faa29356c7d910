//! What the command line knows about keys on the server. `lua/README.md` is the contract.

use leasehold_core::{hash_slot, slot_tag};

/// The key of a server's counter of fences.
const FENCE: &str = "leasehold:fence";

/// The waiters of a name, in order.
const QUEUE: &str = "queue";

/// Who has how many permits of a semaphore.
const PERMITS: &str = "permits";
const RESULT: &str = "result";

/// All side keys of all names, and the counters of the fences.
pub(crate) const EVERY_SIDE_KEY: &str = "leasehold:*";

/// So many bytes of a string tell whether it is a lock of ours.
pub(crate) const LONGEST_VALUE: usize = 80;

/// How the locks are spread over the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// One server has them all.
    Single,
    /// Each slot of a cluster has its own counter of fences.
    Cluster,
    /// Each server of a quorum has them all.
    Quorum,
}

impl Spread {
    /// The counter that a lock's fences are drawn from.
    pub(crate) fn fence(self, key: &str) -> String {
        match self {
            Self::Single => FENCE.to_owned(),
            Self::Cluster => {
                let tag = slot_tag(hash_slot(key.as_bytes()));
                format!("{FENCE}:{{{}}}", tag.map(char::from).iter().collect::<String>())
            }
            Self::Quorum => format!("{FENCE}:quorum"),
        }
    }
}

/// The side key `what` of the lock whose key is `key`.
fn side(key: &str, what: &str) -> String {
    if has_hash_tag(key) { format!("leasehold::{key}:{what}") } else { format!("leasehold:{{{key}}}:{what}") }
}

/// The key of a semaphore's permits.
pub(crate) fn permits_key(key: &str) -> String {
    side(key, PERMITS)
}

/// The key of the stored result of a once.
pub(crate) fn result_key(key: &str) -> String {
    side(key, RESULT)
}

/// Whether a cluster would hash only a part of the key.
pub(crate) fn has_hash_tag(key: &str) -> bool {
    let Some((_, rest)) = key.split_once('{') else { return false };
    rest.find('}').is_some_and(|length| length > 0)
}

/// The pattern for `SCAN` that finds the queue of each lock whose key matches `pattern`. It also finds some others.
pub(crate) fn queue_pattern(pattern: &str) -> String {
    format!("leasehold:[:{{]{pattern}[}}:]*{QUEUE}")
}

/// The lock's key, if this is the key of a queue.
pub(crate) fn key_of(queue: &str) -> Option<&str> {
    let rest = queue.strip_prefix("leasehold:")?.strip_suffix(QUEUE)?.strip_suffix(':')?;
    let key = match rest.strip_prefix(':') {
        Some(tagged) if has_hash_tag(tagged) => tagged,
        _ => rest.strip_prefix('{')?.strip_suffix('}')?,
    };
    (side(key, QUEUE) == queue).then_some(key)
}

/// Whether the key can't be a lock's own, because no name begins like this.
pub(crate) fn is_reserved(key: &str) -> bool {
    key.starts_with("leasehold:")
}

/// Whether a string is the state of a lock: a token or `shared`, then a space, or `*` while clients wait, then a fence.
pub(crate) fn is_lock(value: &[u8]) -> bool {
    let Some(at) = value.iter().position(|byte| matches!(byte, b' ' | b'*')) else { return false };
    let (holder, fence) = (value.get(..at).unwrap_or_default(), value.get(at + 1..).unwrap_or_default());
    is_number(fence) && (holder == b"shared" || is_token(holder))
}

/// Whether this is a client's id, a colon and a number. Redisson's holders look the same.
pub(crate) fn is_token(text: &[u8]) -> bool {
    let (Some(id), Some(number)) = (text.get(..36), text.get(36..)) else { return false };
    let is_id = id.iter().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    is_id && number.strip_prefix(b":").is_some_and(is_number)
}

fn is_number(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

/// All keys of a lock, for a check of access rights: the key itself, then the side keys.
pub(crate) fn all_keys(key: &str) -> Vec<String> {
    let sides = [QUEUE, "waiters", "readers", PERMITS, RESULT, "none"];
    std::iter::once(key.to_owned()).chain(sides.map(|what| side(key, what))).collect()
}

/// A channel as clients use them for their messages.
pub(crate) fn channel(id: &str) -> String {
    format!("leasehold:{id}")
}

/// The client that a token belongs to. The number after it tells the client's tokens apart.
pub(crate) fn client_of(token: &str) -> &str {
    token.rsplit_once(':').map_or(token, |(client, _)| client)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::glob::matches;

    const TOKEN: &str = "01234567-89ab-cdef-0123-456789abcdef:7";

    #[test]
    fn a_queue_tells_its_locks_key_and_no_other_key_does() {
        for key in ["invoice:42", "{order:7}:stock", "a}b", "{}", "x{}y", "", ":queue", "}:queue"] {
            let queue = side(key, QUEUE);
            assert_eq!(key_of(&queue), Some(key), "{queue}");
            assert!(matches(&queue_pattern("*"), &queue), "{queue}");
            assert_eq!(key_of(&side(key, "waiters")), None);
        }
        for other in ["leasehold:queue", "leasehold:x:queue", "leasehold::x:queue", "leasehold:{{a}b}:queue"] {
            assert_eq!(key_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_pattern_finds_the_queues_of_what_matches_it() {
        for key in ["invoice:42", "{invoice}:42"] {
            let pattern = if key.starts_with('{') { "{inv*" } else { "inv*:4?" };
            assert!(matches(&queue_pattern(pattern), &side(key, QUEUE)), "{key}");
        }
        assert!(!matches(&queue_pattern("inv*"), &side("order:7", QUEUE)));
    }

    #[test]
    fn only_the_state_of_a_lock_of_ours_is_taken_for_one() {
        for lock in [format!("{TOKEN} 12"), format!("{TOKEN}*1764024867000000"), "shared 3".into(), "shared*3".into()] {
            assert!(is_lock(lock.as_bytes()) && lock.len() <= LONGEST_VALUE, "{lock}");
        }
        let longest = format!("{}{} {}", &TOKEN[..37], u64::MAX, u64::MAX);
        assert!(is_lock(longest.as_bytes()) && longest.len() < LONGEST_VALUE, "{longest}");
        for data in ["", "7", "shared", "shared ", "shared x", "shared 3 ", "hello 3", TOKEN, &format!("{TOKEN}  1")] {
            assert!(!is_lock(data.as_bytes()), "{data}");
        }
        assert!(!is_lock(b"\xff\xfe 3"));
    }
}
