//! The supported servers: Redis 6.2 and Valkey 7.2 or newer, without eviction of keys.

use crate::error::Error;
use crate::text::Digits;

/// Checks a server by its reply to `INFO server`. A server that hides its version is accepted.
///
/// # Errors
/// [`Error::Unsupported`], with the version found and the version needed, if the server is too old.
///
/// ```
/// use leasehold_core::check_server;
///
/// assert!(check_server("redis_version:7.0.15\r\n").is_ok());
/// assert_eq!(check_server("redis_version:6.0.16\r\n").unwrap_err().code(), "unsupported");
/// ```
pub fn check_server(info: &str) -> Result<(), Error> {
    let (server, found, needed) = match server_of(info) {
        Some((Server::Valkey, found)) => ("Valkey", found, (7, 2)),
        Some((Server::Redis, found)) => ("Redis", found, (6, 2)),
        None => return Ok(()),
    };
    match parsed(found) {
        Some(version) if version < needed => {
            let (major, minor) = (Digits::of(needed.0), Digits::of(needed.1));
            let needed = [server, " ", major.as_str(), ".", minor.as_str(), " or newer"].concat();
            let problem = [server, " ", found, " is too old: leasehold needs ", &needed].concat();
            Err(Error::Unsupported(problem))
        }
        _ => Ok(()),
    }
}

/// Checks a server's `maxmemory-policy`, as returned by `CONFIG GET maxmemory-policy`. All keys of a lock have a TTL,
/// so any policy but `noeviction` can evict them. Then a lock can have two holders, or its fencing tokens can fall.
///
/// A user needs a right to run the command, and the server logs each refusal. So drivers check this only on claim.
///
/// # Errors
/// [`Error::Unsupported`], with the policy found and the one needed, for any other policy.
///
/// ```
/// use leasehold_core::check_eviction;
///
/// assert!(check_eviction("noeviction").is_ok());
/// assert_eq!(check_eviction("volatile-lru").unwrap_err().code(), "unsupported");
/// ```
pub fn check_eviction(policy: &str) -> Result<(), Error> {
    if policy == "noeviction" {
        return Ok(());
    }
    let problem = "`, which may evict a lock's keys: leasehold needs `noeviction`";
    Err(Error::Unsupported(["the server's maxmemory-policy is `", policy, problem].concat()))
}

/// A command that deletes a key if it has a value. It does what `release-fast` does, without a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeleteIfEqual {
    /// `DELIFEQ key value`, in Valkey 9.0 or newer.
    DelIfEq,
    /// `DELEX key IFEQ value`, in Redis 8.4 or newer.
    DelEx,
}

impl DeleteIfEqual {
    /// The command that a server has, by its reply to `INFO server`.
    ///
    /// ```
    /// use leasehold_core::DeleteIfEqual;
    ///
    /// let info = "redis_version:7.2.4\r\nvalkey_version:9.1.2\r\n";
    /// assert_eq!(DeleteIfEqual::of(info), Some(DeleteIfEqual::DelIfEq));
    /// assert_eq!(DeleteIfEqual::of("redis_version:7.0.15\r\n"), None);
    /// ```
    pub fn of(info: &str) -> Option<Self> {
        match server_of(info)? {
            (Server::Valkey, found) => (parsed(found)? >= (9, 0)).then_some(Self::DelIfEq),
            (Server::Redis, found) => (parsed(found)? >= (8, 4)).then_some(Self::DelEx),
        }
    }
}

enum Server {
    Redis,
    Valkey,
}

/// The server and its version, from its reply to `INFO server`.
fn server_of(info: &str) -> Option<(Server, &str)> {
    // Valkey reports a `redis_version` too, but never raises it.
    let valkey = field(info, "valkey_version").map(|found| (Server::Valkey, found));
    valkey.or_else(|| Some((Server::Redis, field(info, "redis_version")?)))
}

/// The value of a line `name:value`.
fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn parsed(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::{DeleteIfEqual, check_eviction, check_server};

    #[test]
    fn a_server_too_old_is_refused_with_the_versions_found_and_needed() {
        let text = check_server("# Server\r\nredis_version:6.0.16\r\nos:Linux\r\n").unwrap_err().to_string();
        assert!(text.contains("6.0.16") && text.contains("6.2"), "{text}");
        let text = check_server("redis_version:7.2.4\r\nvalkey_version:7.1.9\r\n").unwrap_err().to_string();
        assert!(text.contains("Valkey 7.1.9") && text.contains("7.2"), "{text}");
    }

    #[test]
    fn a_server_that_may_evict_keys_is_refused_with_the_policy_found_and_the_one_needed() {
        assert!(check_eviction("noeviction").is_ok());
        for policy in ["allkeys-lru", "volatile-lru", "volatile-ttl", "allkeys-random", ""] {
            let text = check_eviction(policy).unwrap_err().to_string();
            assert!(text.contains(policy) && text.contains("noeviction"), "{text}");
        }
    }

    #[test]
    fn a_server_that_can_delete_a_key_by_its_value_is_known_by_its_version() {
        let of = DeleteIfEqual::of;
        assert_eq!(of("redis_version:7.2.4\r\nvalkey_version:9.0.0\r\n"), Some(DeleteIfEqual::DelIfEq));
        assert_eq!(of("redis_version:7.2.4\r\nvalkey_version:8.1.4\r\n"), None);
        assert_eq!(of("redis_version:8.4.0\r\n"), Some(DeleteIfEqual::DelEx));
        for info in ["redis_version:8.2.3\r\n", "redis_version:unstable", "redis_version:9", ""] {
            assert_eq!(of(info), None, "{info}");
        }
    }

    #[test]
    fn supported_servers_and_silent_ones_pass() {
        for info in ["redis_version:6.2.14", "redis_version:7.0.15", "redis_version:10.0.0"] {
            assert!(check_server(info).is_ok(), "{info}");
        }
        assert!(check_server("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n").is_ok());
        assert!(check_server("redis_version:unstable").is_ok());
        assert!(check_server("").is_ok());
    }
}
