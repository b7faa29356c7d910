//! The supported servers: Redis 6.2 and Valkey 7.2 or newer, without eviction of keys. And what one address does with slots and
//! with the clock.

use alloc::string::String;

use crate::error::{Error, Failure};
use crate::text::{Digits, lossy};
use crate::time::api::Duration;
use crate::wire::{NO_CLOCK, Reply, Scalar, has, is_cross_slot, slot_tag};

/// A server that can be used.
#[derive(Clone, Copy, Debug)]
pub struct Supported {
    /// Its name.
    pub name: &'static str,
    /// What the line of its `INFO` with its version begins with.
    pub version: &'static str,
    /// The oldest version that can be used, major and minor.
    pub oldest: [u32; 2],
    /// The command that deletes a key if it has a value.
    pub delete: DeleteIfEqual,
    /// That command's name.
    pub command: &'static str,
    /// The first version that has it.
    pub deletes: [u32; 2],
}

/// The servers that can be used. The first one whose line is there counts: Valkey also has a `redis_version`, but never raises it.
pub const SUPPORTED_SERVERS: [Supported; 2] = [
    Supported {
        name: "Valkey",
        version: "valkey_version:",
        oldest: [7, 2],
        delete: DeleteIfEqual::DelIfEq,
        command: "DELIFEQ",
        deletes: [9, 0],
    },
    Supported {
        name: "Redis",
        version: "redis_version:",
        oldest: [6, 2],
        delete: DeleteIfEqual::DelEx,
        command: "DELEX",
        deletes: [8, 4],
    },
];

/// What is wrong with a server that is too old: between its version and the one needed, and after that.
pub const TOO_OLD: [&str; 2] = [" is too old: leasehold needs ", " or newer"];

/// Servers that can't be used, whatever their version is: what a line of their `INFO` begins with, and the problem, before and
/// after the rest of that line.
pub const REFUSED_SERVERS: &[[&str; 3]] = &[
    [
        "kvrocks_version:",
        "Kvrocks ",
        " can't be used: it reports the version 4.0.0 of Redis, and leasehold is not tested on it",
    ],
    [
        "role:active-replica",
        "the server is an active replica of KeyDB, so two servers accept writes: set `active-replica no`",
        "",
    ],
];

/// What a line of `INFO server` of KeyDB begins with. Whether it is an active replica is in the section `replication`.
pub const KEYDB: &str = "features:cluster_mget";

/// Whether the server is KeyDB, from its reply to `INFO server`. Then [`check_server`] needs the section `replication` too.
#[must_use]
pub fn is_keydb(info: &str) -> bool {
    rest(info, KEYDB).is_some()
}

/// What an error reply to `INFO` says, in lower case, if the server doesn't tell about itself. Redis, Valkey, Dragonfly, Garnet and
/// Envoy don't know the command, or deny it to the user. Camellia doesn't support it. Codis looks for a server with the section's name,
/// and predixy says `auth permission deny`.
pub const REFUSES_INFO: [&str; 7] = [
    "noperm",
    "unknown command",
    "unsupported command",
    "not support",
    "not allowed",
    "permission deny",
    "server' not found",
];

/// Whether an error reply to `INFO` says that the server doesn't tell about itself: to this user, or because a proxy doesn't know
/// the command. Then it is used as it is. Other errors are those of a server that can't be used now: proxies begin them with `ERR`, too.
#[must_use]
pub fn refuses_info(error: &str) -> bool {
    let error = error.to_ascii_lowercase();
    REFUSES_INFO.iter().any(|words| has(&error, words))
}

/// Checks a server by its reply to `INFO server`. A server that hides its version is accepted.
///
/// # Errors
/// [`Error::Unsupported`], with the version found and the version needed, if the server is too old, and if it is one of
/// [`REFUSED_SERVERS`].
///
/// ```
/// use leasehold_core::check_server;
///
/// assert!(check_server("redis_version:7.0.15\r\n").is_ok());
/// assert_eq!(check_server("redis_version:6.0.16\r\n").unwrap_err().code(), "unsupported");
/// ```
pub fn check_server(info: &str) -> Result<(), Error> {
    for [begin, before, after] in REFUSED_SERVERS {
        if let Some(found) = rest(info, begin) {
            return Err(Error::Unsupported([before, found, after].concat()));
        }
    }
    let Some((server, found)) = server_of(info) else { return Ok(()) };
    match parsed(found) {
        Some(version) if version < server.oldest => {
            let [major, minor] = server.oldest.map(Digits::of);
            let needed = [server.name, " ", major.as_str(), ".", minor.as_str(), TOO_OLD[1]].concat();
            Err(Error::Unsupported([server.name, " ", found, TOO_OLD[0], &needed].concat()))
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

/// A command that shows whether one address enforces the slots of a cluster, and whether its scripts can read the clock. It has two
/// keys of different slots, and writes nothing. They are counters of fences, because any user at such an address needs
/// `~leasehold:fence:*`.
///
/// A driver sends it together with `INFO`, before the first lock, and gives the answer to [`check_probe`]. It doesn't ask where
/// that is known: the client library knows the cluster's servers, or the server is behind Sentinel or in memory.
// Some proxies answer commands such as `EXISTS` for keys of several slots, and refuse only scripts. What a script does where `TIME` is
// refused is in `lua/src/prelude/clock.lua`.
pub const PROBE: [&str; 5] = [
    "EVAL",
    "local clock = redis.pcall('TIME') if clock.err then clock = redis.pcall('PEXPIRETIME', KEYS[1]) end \
     return type(clock) == 'table' and clock.err and 'NOCLOCK ' .. clock.err or 0",
    "2",
    "leasehold:fence:{@@@@}",
    "leasehold:fence:{@@@A}",
];

/// What is wrong with the option that says that a server enforces slots: that the server takes other calls, and why it doesn't tell.
pub const NO_SLOTS: [&str; 2] =
    ["but the server takes keys of different slots in one call: leave it out", "and can't be checked: "];

/// How long a driver waits before it sends [`PROBE`] again, because the server was [not ready](Probed::NotReady).
pub const PROBE_PAUSE: Duration = Duration::from_millis(100);

/// How many bytes of a server's answer to [`PROBE`] an error quotes.
const LONGEST_REFUSAL: usize = 300;

/// What the answer to [`PROBE`] says about slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probed {
    /// The address enforces slots, so each slot has its own counter of fences: call [`set_cluster`](crate::Engine::set_cluster). It may
    /// be just one node of a cluster: ask for the [`slot_counters`] first.
    Slots,
    /// The address takes keys of different slots in one call, or doesn't tell. All names have one counter of fences.
    NoSlots,
    /// The server can't answer now. The driver sends [`PROBE`] again after [`PROBE_PAUSE`]. When the time for connecting is over and the
    /// server has refused the question with this failure, the driver gives the engine no other answer to a command than that it is
    /// [unavailable](Failure::Unavailable), and asks again before it sends one.
    NotReady(Failure),
}

/// Whether the address enforces slots, by its answer to [`PROBE`]: a reply, or why there is none. `wanted` is the option
/// `cluster_slots`.
///
/// All clients must decide alike, because each way has its own counters of fences. So only this answer decides. After a refusal for
/// another reason, such as a missing right, all names have one counter. A server that is not ready has given no answer.
///
/// # Errors
/// [`Error::InvalidOption`] if the option is set and the answer doesn't show that the address enforces slots.
/// [`Error::Unsupported`] if scripts have no way to read the clock, or [`Error::Auth`] if the user has no right to it.
///
/// ```
/// use leasehold_core::{Failure, Probed, Reply, Scalar, check_probe};
///
/// let refused = |text: &str| Err(Failure::Refused(text.into()));
/// let fine = Ok(Reply::One(Scalar::Int(0)));
/// assert_eq!(check_probe(false, &fine), Ok(Probed::NoSlots));
/// assert_eq!(check_probe(false, &refused("CROSSSLOT Keys in request don't hash to the same slot")), Ok(Probed::Slots));
/// assert_eq!(check_probe(false, &refused("NOPERM User u has no permissions to run the 'eval' command")), Ok(Probed::NoSlots));
/// assert!(matches!(check_probe(false, &refused("LOADING Redis is loading the dataset in memory")), Ok(Probed::NotReady(_))));
/// assert_eq!(check_probe(true, &fine).unwrap_err().code(), "invalid-option");
/// ```
pub fn check_probe(wanted: bool, answer: &Result<Reply, Failure>) -> Result<Probed, Error> {
    let problem = match answer {
        Err(Failure::Refused(text)) if is_cross_slot(text) => return Ok(Probed::Slots),
        Err(failure) if is_unready(failure) => return Ok(Probed::NotReady(failure.clone())),
        Ok(Reply::One(Scalar::Text(text))) if text.starts_with(NO_CLOCK[0].as_bytes()) => {
            // As if one of our scripts had failed with it. A server may say anything at any length.
            let refusal = lossy(text.get(..LONGEST_REFUSAL).unwrap_or(text));
            return Err(Error::of_connecting(Failure::Refused(refusal), Duration::ZERO));
        }
        _ if !wanted => return Ok(Probed::NoSlots),
        Ok(_) => ["is set, ", NO_SLOTS[0]].concat(),
        Err(failure) => ["is set, ", NO_SLOTS[1], failure.text()].concat(),
    };
    Err(Error::invalid("cluster_slots", &problem))
}

/// The counters of 16 slots, evenly spaced. A driver sends `GET` for each of them to an address that enforces slots, all at once, and
/// gives the answers to [`check_slots`].
// CLUSTER INFO and CLUSTER SLOTS don't tell: a proxy may pass them on to one of its servers, and a user may lack the right to them.
pub fn slot_counters() -> impl Iterator<Item = String> {
    (0..16).map(|part| {
        let tag = slot_tag(part << 10).map(char::from);
        ["leasehold:fence:{", &String::from_iter(tag), "}"].concat()
    })
}

/// Whether an address serves all slots, by its answers for the [`slot_counters`]: [`Slots`](Probed::Slots), unless one of them
/// is missing, or all of them say that the server is not ready. A node says nothing about slots while its whole cluster is down.
///
/// # Errors
/// The error for `MOVED`, if another node of the cluster has one of the slots. Then a client must connect as to a cluster.
/// [`Error::Unsupported`] if a provider of connections knows such a node by its answer.
///
/// ```
/// use leasehold_core::{Failure, Probed, Reply, Scalar, check_slots};
///
/// let refused = |text: &str| Err(Failure::Refused(text.into()));
/// let (free, down) = (Ok(Reply::One(Scalar::Nil)), refused("CLUSTERDOWN The cluster is down"));
/// assert_eq!(check_slots([free, refused("NOPERM no"), down.clone()]), Ok(Probed::Slots));
/// assert!(matches!(check_slots([down.clone(), down.clone()]), Ok(Probed::NotReady(_))));
/// assert!(check_slots([down, refused("MOVED 1024 10.0.0.2:6379")]).is_err());
/// ```
pub fn check_slots(answers: impl IntoIterator<Item = Result<Reply, Failure>>) -> Result<Probed, Error> {
    let (mut broken, mut unready, mut has_answered) = (None, None, false);
    for answer in answers {
        match answer {
            Err(Failure::Refused(text)) if text.starts_with("MOVED ") => return Err(Error::Server(text)),
            Err(Failure::Unsupported(text)) => return Err(Error::Unsupported(text)),
            // The others may be answers of before the break.
            Err(failure) if !matches!(failure, Failure::Refused(_)) => broken = broken.or(Some(failure)),
            Err(failure) if is_unready(&failure) => unready = unready.or(Some(failure)),
            _ => has_answered = true,
        }
    }
    Ok(broken.or(unready.filter(|_| !has_answered)).map_or(Probed::Slots, Probed::NotReady))
}

fn is_unready(failure: &Failure) -> bool {
    Error::of_connecting(failure.clone(), Duration::ZERO).is_retryable()
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
        let (server, found) = server_of(info)?;
        (parsed(found)? >= server.deletes).then_some(server.delete)
    }
}

/// The server and its version, from its reply to `INFO server`.
fn server_of(info: &str) -> Option<(Supported, &str)> {
    SUPPORTED_SERVERS.into_iter().find_map(|server| Some((server, rest(info, server.version)?)))
}

/// The rest of the line that begins so.
fn rest<'a>(info: &'a str, begin: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(begin)).map(str::trim)
}

fn parsed(version: &str) -> Option<[u32; 2]> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    Some([parts.next()??, parts.next()??])
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec::Vec;

    use super::{
        DeleteIfEqual, Failure, PROBE, Probed, Reply, Scalar, check_eviction, check_probe, check_server, is_keydb,
        refuses_info, slot_counters,
    };
    use crate::NOT_READY;

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
    fn kvrocks_and_active_replicas_of_keydb_are_refused_and_told_why() {
        let text = check_server("kvrocks_version:2.10.0\r\nredis_version:4.0.0\r\n").unwrap_err().to_string();
        assert!(text.contains("Kvrocks 2.10.0 can't be used") && text.contains("4.0.0"), "{text}");
        let keydb = "redis_version:6.3.4\r\nfeatures:cluster_mget\r\n";
        assert!(is_keydb(keydb) && !is_keydb("redis_version:6.3.4\r\n"));
        assert!(check_server(keydb).is_ok() && check_server(&[keydb, "role:master\r\n"].concat()).is_ok());
        let text = check_server(&[keydb, "# Replication\r\nrole:active-replica\r\n"].concat()).unwrap_err().to_string();
        assert!(text.contains("active-replica no"), "{text}");
    }

    #[test]
    fn an_answer_to_info_says_that_the_command_is_refused_or_that_the_server_is_not_there() {
        let refusals = [
            "NOPERM this user has no permissions to run the 'info' command",
            "NOPERM: app has no ACL permissions",
            "ERR unknown command 'INFO', with args beginning with: 'server' ",
            "ERR unknown command `INFO`",
            "unsupported command 'info'",
            "ERR Unsupported command 'info'",
            "ERR command 'info' not support",
            "ERR command is not supported",
            "ERR handle request, command 'INFO' is not allowed",
            "ERR backend server 'server' not found",
            "ERR auth permission deny",
        ];
        for refusal in refusals {
            assert!(refuses_info(refusal), "{refusal}");
        }
        let others = [
            "ERR max number of clients reached",
            "ERR Connection refused",
            "ERR Connection timed out",
            "ERR Host is down",
            "ERR router is not online",
            "ERR handle response, backend conn failure, dial tcp: connection refused",
            "ERR no server connection avaliable",
            "ERR server connection close",
            "ERR Protocol error: unauthenticated multibulk length",
            "ERR invalid password",
            "NOAUTH Authentication required.",
            "LOADING Redis is loading the dataset in memory",
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
            "no upstream host",
            "upstream failure",
        ];
        for other in others {
            assert!(!refuses_info(other), "{other}");
        }
    }

    #[test]
    fn an_address_that_enforces_slots_is_known_by_its_refusal_alone() {
        let refusals = [
            "CROSSSLOT Keys in request don't hash to the same slot",
            "ERR CROSSSLOT Keys in request don't hash to the same slot (context='', command='eval')",
            "ERR 'EVAL' command keys must in same slot",
        ];
        for (wanted, refusal) in [false, true].iter().zip(refusals.iter().cycle()) {
            assert_eq!(check_probe(*wanted, &refused(refusal)), Ok(Probed::Slots), "{refusal}");
        }
        let fine = Ok(Reply::One(Scalar::Int(0)));
        for (answer, words) in
            [(fine, "leave it out"), (refused("NOPERM no"), "NOPERM no"), (refused("ERR what"), "ERR what")]
        {
            assert_eq!(check_probe(false, &answer), Ok(Probed::NoSlots), "{answer:?}");
            let text = check_probe(true, &answer).unwrap_err().to_string();
            assert!(text.contains("cluster_slots") && text.contains(words), "{text}");
        }
        let refused = Ok(Reply::One(Scalar::Text(b"NOCLOCK ERR Unknown Redis command called from script".to_vec())));
        for wanted in [false, true] {
            let error = check_probe(wanted, &refused).unwrap_err();
            assert!(error.code() == "unsupported" && error.to_string().contains("Unknown Redis command"), "{error}");
        }
        for words in ["", "NOPERM "] {
            let endless = ["NOCLOCK ", words, &"ä".repeat(1 << 20)].concat();
            let error = check_probe(false, &Ok(Reply::One(Scalar::Text(endless.into_bytes())))).unwrap_err();
            assert!(error.to_string().len() < 1_000, "{}", error.to_string().len());
        }
        let [.., one, other] = PROBE;
        assert_ne!(crate::hash_slot(one.as_bytes()), crate::hash_slot(other.as_bytes()));
    }

    #[test]
    fn a_server_that_is_not_ready_has_not_said_whether_it_enforces_slots() {
        let codes = NOT_READY.map(|code| refused(&[code, " some text"].concat())).into_iter();
        let codes = codes.chain(["ERR Connection refused", "ERR no server avaliable", "upstream failure"].map(refused));
        let others = [Failure::TimedOut, Failure::Unavailable("down".into()), Failure::Interrupted("broken".into())];
        for answer in codes.chain(others.map(Err)) {
            for wanted in [false, true] {
                let Ok(Probed::NotReady(failure)) = check_probe(wanted, &answer) else {
                    panic!("{wanted}: {answer:?}")
                };
                assert_eq!(Some(failure), answer.clone().err());
            }
        }
    }

    #[test]
    fn the_counters_that_are_asked_for_are_those_of_slots_all_over_the_cluster() {
        let slots: Vec<u16> = slot_counters().map(|key| crate::hash_slot(key.as_bytes())).collect();
        assert_eq!(slots, (0..16).map(|part| part * 1_024).collect::<Vec<_>>());
    }

    fn refused(text: &str) -> Result<Reply, Failure> {
        Err(Failure::Refused(text.into()))
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
