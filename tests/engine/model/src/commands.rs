//! The commands that scripts and foreign clients use, and the server's rules for when they may run.

use crate::answer::{Answer, Outcome, Refusal};
use crate::keyspace::Keyspace;
use crate::{generic, hashes, sorted_sets, strings};

/// What the server must know about a command before it runs it.
pub(crate) struct Command {
    name: &'static [u8],
    run: fn(&mut Keyspace, &[&[u8]]) -> Outcome,
    /// The least and the greatest number of words, including the name.
    words: (usize, usize),
    keys: Keys,
    /// The command writes, so a script that ran it may continue at maxmemory.
    pub(crate) writes: bool,
    /// The command may need memory, so it is refused at maxmemory.
    pub(crate) grows: bool,
}

/// Which of the words after the name are keys.
enum Keys {
    None,
    First,
    All,
}

impl Command {
    pub(crate) fn find(name: &[u8]) -> Option<&'static Self> {
        COMMANDS.iter().find(|command| command.name.eq_ignore_ascii_case(name))
    }

    pub(crate) fn run(&self, keyspace: &mut Keyspace, words: &[&[u8]]) -> Outcome {
        if words.len() < self.words.0 || words.len() > self.words.1 {
            let name = String::from_utf8_lossy(self.name).to_lowercase();
            return Err(Refusal(format!("ERR wrong number of arguments for '{name}' command").into()));
        }
        (self.run)(keyspace, words)
    }

    /// The words that are keys.
    pub(crate) fn keys<'a, 'w>(&self, words: &'a [&'w [u8]]) -> &'a [&'w [u8]] {
        match self.keys {
            Keys::None => &[],
            Keys::First => words.get(1..2).unwrap_or_default(),
            Keys::All => words.get(1..).unwrap_or_default(),
        }
    }
}

const READ: Command =
    Command { name: b"", run: no_answer, words: (2, 2), keys: Keys::First, writes: false, grows: false };
const DELETE: Command = Command { writes: true, ..READ };
const WRITE: Command = Command { grows: true, ..DELETE };
const MANY: usize = usize::MAX;

/// The most frequent commands come first, because the list is searched from the start.
const COMMANDS: &[Command] = &[
    Command { name: b"GET", run: strings::get, ..READ },
    Command { name: b"EXISTS", run: generic::exists, words: (2, MANY), keys: Keys::All, ..READ },
    Command { name: b"TIME", run: generic::time, words: (1, 1), keys: Keys::None, ..READ },
    Command { name: b"PTTL", run: generic::pttl, ..READ },
    Command { name: b"SET", run: strings::set, words: (3, MANY), ..WRITE },
    Command { name: b"ZCARD", run: sorted_sets::card, ..READ },
    Command { name: b"HLEN", run: hashes::len, ..READ },
    Command { name: b"ZRANGE", run: sorted_sets::range, words: (4, 5), ..READ },
    Command { name: b"HGET", run: hashes::get, words: (3, 3), ..READ },
    Command { name: b"ZREM", run: sorted_sets::remove, words: (3, MANY), ..DELETE },
    Command { name: b"HDEL", run: hashes::delete, words: (3, MANY), ..DELETE },
    Command { name: b"ZSCORE", run: sorted_sets::score, words: (3, 3), ..READ },
    Command { name: b"DEL", run: generic::delete, words: (2, MANY), keys: Keys::All, ..DELETE },
    Command { name: b"PEXPIRE", run: generic::pexpire, words: (3, 3), ..DELETE },
    Command { name: b"HSET", run: hashes::set, words: (4, MANY), ..WRITE },
    Command { name: b"ZADD", run: sorted_sets::add, words: (4, MANY), ..WRITE },
    Command { name: b"ZRANK", run: sorted_sets::rank, words: (3, 3), ..READ },
    Command { name: b"ZREMRANGEBYSCORE", run: sorted_sets::remove_by_score, words: (4, 4), ..DELETE },
    Command { name: b"ZRANGEBYSCORE", run: sorted_sets::range_by_score, words: (4, 5), ..READ },
    Command { name: b"ZCOUNT", run: sorted_sets::count, words: (4, 4), ..READ },
    Command { name: b"HGETALL", run: hashes::get_all, ..READ },
    Command { name: b"TYPE", run: generic::type_of, ..READ },
    Command { name: b"PING", run: generic::ping, words: (1, 1), keys: Keys::None, ..READ },
    Command { name: b"FLUSHALL", run: generic::flush_all, words: (1, 2), keys: Keys::None, ..DELETE },
];

fn no_answer(_: &mut Keyspace, _: &[&[u8]]) -> Outcome {
    Ok(Answer::Nil)
}
