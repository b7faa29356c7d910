//! What a server without a state answers: it grants everything.

use leasehold_core::{Command, Reply, Scalar};
use leasehold_lua::{ACQUIRE_FAST, BATCH, Script};

/// The server's clock when a client's clock shows 0.
pub const SERVER_US: i64 = 1_700_000_000_000_000;

/// The words of a command.
pub fn words(command: &Command) -> Vec<String> {
    command.words().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// The name that a command is about.
pub fn name_of(command: &Command) -> String {
    String::from_utf8_lossy(command.key().unwrap_or_default()).into_owned()
}

/// A command inside a batch.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The entry's first word.
    pub what: &'a str,
    /// The lock.
    pub name: &'a str,
    /// The lease's token.
    pub token: &'a str,
    /// The TTL of an acquire or a renewal.
    pub ttl: u64,
    /// The permits and the limit of a semaphore's acquire.
    pub permits: Option<&'a str>,
}

/// The commands inside a call of the fast path. None if the command is something else.
pub fn entries(command: &Command) -> Option<Vec<Entry<'_>>> {
    entries_of(&command.words().collect::<Vec<_>>())
}

/// The same for the words of a command.
pub fn entries_of<'a>(words: &[&'a [u8]]) -> Option<Vec<Entry<'a>>> {
    let words = words.iter().map(|word| std::str::from_utf8(word).ok()).collect::<Option<Vec<_>>>()?;
    // A release alone, on a server that needs no script for it.
    if let ["DELIFEQ", name, value] | ["DELEX", name, "IFEQ", value] = *words.as_slice() {
        return Some(vec![Entry { what: "release", name, token: value.split(' ').next()?, ttl: 0, permits: None }]);
    }
    let is = |script: Script| words.get(1).is_some_and(|word| [script.sha1, script.source].contains(word));
    let (mut keys, mut arguments) = words.get(3..)?.split_at_checked(words.get(2)?.parse().ok()?)?;
    let entry = |what: &'a str, name: &'a str, arguments: &[&'a str]| {
        let token = arguments.first()?.split(' ').next()?;
        let ttl = arguments.get(1).map_or(Some(0), |ttl| ttl.parse().ok())?;
        Some(Entry { what, name, token, ttl, permits: arguments.get(2).copied() })
    };
    match (keys, arguments) {
        ([name, _queue, _fence], [_, _]) if is(ACQUIRE_FAST) => return Some(vec![entry("acquire", name, arguments)?]),
        ([name], [_]) if is(leasehold_lua::RELEASE_FAST) => return Some(vec![entry("release", name, arguments)?]),
        (_, [acquires, rest @ ..]) if is(BATCH) => {
            // One key that never exists.
            keys = if *acquires == "0" { keys } else { keys.split_last()?.1 };
            arguments = rest;
        }
        _ => return None,
    }
    let mut entries = Vec::new();
    while let [what, rest @ ..] = arguments {
        let (of_keys, of_arguments) = match *what {
            "acquire" | "acquire-reentrant" => (2, 2),
            "share" => (3, 2),
            "permit" => (3, 3),
            "release" | "release-reentrant" => (1, 1),
            "unshare" => (2, 1),
            "unpermit" => (3, 1),
            "renew" | "renew-reentrant" => (1, 2),
            "renew-share" | "renew-permit" => (2, 2),
            _ => return None,
        };
        entries.push(entry(what, keys.first()?, rest.get(..of_arguments)?)?);
        (keys, arguments) = (keys.get(of_keys..)?, &rest[of_arguments..]);
    }
    keys.is_empty().then_some(entries)
}

/// The reply of the fast path: what `number` says for each entry, where None is what grants everything. An exclusive
/// acquire or release that is alone has a script, and so a reply, of its own.
pub fn batch_reply(entries: &[Entry<'_>], now: u64, number: impl Fn(&Entry<'_>) -> Option<i64>) -> Reply {
    let server = SERVER_US + now as i64;
    let numbers = entries
        .iter()
        .map(|entry| number(entry).unwrap_or(if entry.what.starts_with("renew") { entry.ttl as i64 } else { 1 }));
    match entries {
        [entry] if entry.what == "acquire" => {
            Reply::One(Scalar::Text(number(entry).unwrap_or(server).to_string().into_bytes()))
        }
        [entry] if entry.what == "release" => Reply::One(Scalar::Int(number(entry).unwrap_or(1))),
        _ => Reply::List([server, server].into_iter().chain(numbers).map(Scalar::Int).collect()),
    }
}

/// What grants everything.
///
/// # Panics
/// If the command runs no script of a lock.
pub fn granting(command: &Command, now: u64) -> Reply {
    if let Some(entries) = entries(command) {
        return batch_reply(&entries, now, |_| None);
    }
    let (words, server) = (words(command), SERVER_US + now as i64);
    let script = leasehold_lua::ALL.iter().find(|script| [script.sha1, script.source].contains(&&*words[1]));
    let script = script.unwrap_or_else(|| panic!("{words:?}")).name;
    let keys: usize = words[2].parse().expect("the number of keys");
    let argument = |at: usize| words[3 + keys + at].parse().expect("a number");
    let is = |what: &str| script.ends_with(what);
    match script {
        _ if is("acquire") => status("entered", [server, 1, server, argument(2), 0, 0]),
        _ if is("release") || is("force") => status("released", [0, 0, server, 0, 0, 0]),
        _ if is("renew") => status("renewed", [0, 0, server, argument(1), 0, 0]),
        _ => panic!("{words:?}"),
    }
}

/// The answer to an acquire of a lock that another client holds.
pub fn denied(word: &str) -> Reply {
    status(word, [1, 0, SERVER_US, 60_000, 1, 0])
}

/// The answer of a script for one name: a word, and then the value, the block, the server's clock, the TTL, the number
/// of waiters, and a position.
pub fn status(word: &str, numbers: [i64; 6]) -> Reply {
    Reply::List([Scalar::Text(word.into())].into_iter().chain(numbers.map(Scalar::Int)).collect())
}
