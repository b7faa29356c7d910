//! What the command line knows about keys on the server. `lua/README.md` is the contract.

/// The side key of each name that was locked lately: the last fence. It stays for `fence_retention` after a release.
const FENCE: &str = "fence";

/// All side keys of all names.
pub(crate) const EVERY_SIDE_KEY: &str = "leasehold:*";

/// The side key `what` of the lock whose key is `key`.
fn side(key: &str, what: &str) -> String {
    if has_hash_tag(key) { format!("leasehold::{key}:{what}") } else { format!("leasehold:{{{key}}}:{what}") }
}

/// Whether a cluster would hash only a part of the key.
fn has_hash_tag(key: &str) -> bool {
    let Some((_, rest)) = key.split_once('{') else { return false };
    rest.find('}').is_some_and(|length| length > 0)
}

/// The pattern for `SCAN` that finds a side key of each lock whose key matches `pattern`. It also finds some others.
pub(crate) fn scan_pattern(pattern: &str) -> String {
    format!("leasehold:[:{{]{pattern}[}}:]*{FENCE}")
}

/// The lock's key, if this is the side key that [`scan_pattern`] looks for.
pub(crate) fn key_of(side_key: &str) -> Option<&str> {
    let rest = side_key.strip_prefix("leasehold:")?.strip_suffix(FENCE)?.strip_suffix(':')?;
    let key = match rest.strip_prefix(':') {
        Some(tagged) if has_hash_tag(tagged) => tagged,
        _ => rest.strip_prefix('{')?.strip_suffix('}')?,
    };
    (side(key, FENCE) == side_key).then_some(key)
}

/// The keys that exist while a lock is held or waited for. They are in one slot.
pub(crate) fn busy_keys(key: &str) -> [String; 2] {
    [key.to_owned(), side(key, "queue")]
}

/// All keys of a lock, for a check of access rights: the key itself, then the side keys.
pub(crate) fn all_keys(key: &str) -> Vec<String> {
    let sides = [FENCE, "queue", "waiters", "readers", "permits", "buried", "none"];
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

    #[test]
    fn a_lock_is_found_by_its_side_key_and_no_other_key_is() {
        for key in ["invoice:42", "{order:7}:stock", "a}b", "{}", "x{}y", "", ":fence", "}:fence"] {
            let side_key = side(key, FENCE);
            assert_eq!(key_of(&side_key), Some(key), "{side_key}");
            assert!(matches(&scan_pattern("*"), &side_key), "{side_key}");
            assert_eq!(key_of(&side(key, "queue")), None);
        }
        for other in ["leasehold:fence", "leasehold:x:fence", "leasehold::x:fence", "leasehold:{{a}b}:fence"] {
            assert_eq!(key_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_pattern_finds_what_matches_it() {
        for key in ["invoice:42", "{invoice}:42"] {
            let pattern = if key.starts_with('{') { "{inv*" } else { "inv*:4?" };
            assert!(matches(&scan_pattern(pattern), &side(key, FENCE)), "{key}");
        }
        assert!(!matches(&scan_pattern("inv*"), &side("order:7", FENCE)));
    }
}
