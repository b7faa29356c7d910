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
    words(command)[3].clone()
}

/// A command inside a batch.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The entry's first word.
    pub what: String,
    /// The lock.
    pub name: String,
    /// The lease's token.
    pub token: String,
    /// The TTL of an acquire or a renewal.
    ttl: i64,
}

/// The commands inside a call of the common path. None if the command is something else.
///
/// # Panics
/// If its words are not those of such a call.
pub fn entries(command: &Command) -> Option<Vec<Entry>> {
    let words = words(command);
    let is = |script: Script| [script.sha1, script.source].contains(&&*words[1]);
    let count: usize = words[2].parse().expect("the number of keys");
    let (mut keys, mut arguments) = (&words[3..3 + count], &words[3 + count..]);
    let entry = |what: &str, name: &String, token: &String, ttl: Option<&String>| {
        let token = token.split(' ').next().unwrap_or_default().to_owned();
        let ttl = ttl.map_or(0, |ttl| ttl.parse().expect("a TTL"));
        Entry { what: what.to_owned(), name: name.clone(), token, ttl }
    };
    if is(ACQUIRE_FAST) {
        return Some(vec![entry("acquire", &keys[0], &arguments[0], arguments.get(1))]);
    }
    if is(leasehold_lua::RELEASE_FAST) {
        return Some(vec![entry("release", &keys[0], &arguments[0], None)]);
    }
    if !is(BATCH) {
        return None;
    }
    if arguments[0] != "0" {
        keys = &keys[..keys.len() - 1];
    }
    arguments = &arguments[1..];
    let mut entries = Vec::new();
    while let [what, token, ..] = arguments {
        let (of_keys, of_arguments) = match &**what {
            "acquire" | "acquire-reentrant" => (2, 3),
            "share" => (3, 3),
            "permit" => (3, 4),
            "unpermit" => (3, 2),
            "unshare" => (2, 2),
            "renew-share" | "renew-permit" => (2, 3),
            "release" | "release-reentrant" => (1, 2),
            _ => (1, 3),
        };
        let ttl = arguments.get(2).filter(|_| of_arguments > 2);
        entries.push(entry(what, &keys[0], token, ttl));
        (keys, arguments) = (&keys[of_keys..], &arguments[of_arguments..]);
    }
    assert!(keys.is_empty(), "{words:?}");
    Some(entries)
}

/// The reply of the common path: what `number` says for each entry, where None is what grants everything. An exclusive
/// acquire or release that is alone has a script, and so a reply, of its own.
pub fn batch_reply(entries: &[Entry], now: u64, number: impl Fn(&Entry) -> Option<i64>) -> Reply {
    let server = SERVER_US + now as i64;
    let numbers = entries
        .iter()
        .map(|entry| number(entry).unwrap_or(if entry.what.starts_with("renew") { entry.ttl } else { 1 }));
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
