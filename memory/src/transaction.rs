//! A script's call without the script, for servers that refuse scripts.
//!
//! The client runs the script's function itself, on copies of its keys:
//!
//! 1. It watches the keys and reads them ([`Transaction::reads`]).
//! 2. It runs the function on the copies ([`Transaction::run`]).
//! 3. It writes what has changed between `MULTI` and `EXEC` ([`Writes::commands`]).
//! 4. If another client changed a key meanwhile, the server writes nothing ([`Ended::Changed`]). The client begins again.
//!
//! So the call does on the server what the script does, and clients with and without scripts share all locks. The
//! commands of one transaction need a connection that carries no other transaction at the same time.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::str;

use leasehold_core::{Reply, Scalar};

use crate::keys::number::{float, score_text};
use crate::keys::{Data, Entry, SortedSet};
use crate::scripts::{self, channel_of};
use crate::server::Executed;
use crate::state::Server;

/// The words of one command.
type Command = Vec<Vec<u8>>;

/// A server's reply, or its error text.
type Replied = Result<Reply, String>;

/// How many commands read one key: its type, its TTL, and its value as each of the three types.
const READS: usize = 5;

/// The call of a script, as a transaction.
#[derive(Clone, Debug)]
pub struct Transaction {
    script: usize,
    words: Command,
    keys: Command,
}

/// What a script's call writes.
#[derive(Clone, Debug)]
pub struct Writes {
    commands: Vec<Command>,
    executed: Executed,
}

/// How a transaction ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The server has done it. Publish the messages now, and return the reply.
    Done(Executed),
    /// Another client changed one of the keys. Nothing was written: begin again.
    Changed,
    /// The server refused it, with this text. Nothing was written.
    Refused(String),
    /// The answer to `EXEC` is none of these. It may have written.
    Unclear,
}

impl Transaction {
    /// The transaction of a command that calls a script. None for any other command: send it as it is.
    pub fn of(words: &[&[u8]]) -> Option<Self> {
        let (script, given) = (scripts::called(words)?, scripts::keys_of(words)?);
        let mut keys: Command = given.iter().map(|key| key.to_vec()).collect();
        keys.sort_unstable();
        keys.dedup();
        Some(Self { script, words: words.iter().map(|word| word.to_vec()).collect(), keys })
    }

    /// The commands that watch and read the keys. Send them in this order, without another transaction in between.
    pub fn reads(&self) -> Vec<Command> {
        let mut commands = Vec::with_capacity(2 + READS * self.keys.len());
        if !self.keys.is_empty() {
            commands.push([b"WATCH".to_vec()].into_iter().chain(self.keys.iter().cloned()).collect());
        }
        commands.push(vec![b"TIME".to_vec()]);
        for key in &self.keys {
            commands.extend([
                command(&[b"TYPE", key]),
                command(&[b"PTTL", key]),
                command(&[b"GET", key]),
                command(&[b"HGETALL", key]),
                command(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]),
            ]);
        }
        commands
    }

    /// Runs the script's function on what was read. `replies` are those to [`reads`](Self::reads), in their order. Lists
    /// are flat.
    ///
    /// # Errors
    /// The server's error text, if it refused to read.
    pub fn run(&self, replies: &[Replied]) -> Result<Writes, String> {
        let watched = usize::from(!self.keys.is_empty());
        for reply in replies.iter().take(watched) {
            reply.as_ref().map_err(Clone::clone)?;
        }
        let mut rest = replies.get(watched..).unwrap_or_default();
        let mut server = Server::default();
        server.step_clock(time(next(&mut rest))?);
        let mut before = Vec::with_capacity(self.keys.len());
        for key in &self.keys {
            let read = rest.get(..READS).unwrap_or_default();
            rest = rest.get(READS..).unwrap_or_default();
            let entry = entry(read, server.now_us())?;
            if let Some(entry) = &entry {
                server.keyspace.put(key, entry.clone());
            }
            before.push(entry);
            // Nobody can watch who listens. So the script believes that the caller and another client do, and tells them.
            server.set_listeners(&channel_of(key), 2);
        }
        let words: Vec<&[u8]> = self.words.iter().map(Vec::as_slice).collect();
        let reply = scripts::run_at(&mut server, self.script, &words).map(Reply::from);
        let executed =
            Executed { reply: reply.map_err(|refusal| refusal.to_string()), published: server.take_published() };
        let now_us = server.now_us();
        let mut commands = vec![command(&[b"MULTI"])];
        for (key, before) in self.keys.iter().zip(&before) {
            write_changes(&mut commands, key, before.as_ref(), server.keyspace.look(now_us, key));
        }
        commands.push(command(&[b"EXEC"]));
        Ok(Writes { commands, executed })
    }
}

impl Writes {
    /// The commands that write, from `MULTI` to `EXEC`. Send them even if there is nothing between: the server then tells
    /// whether the keys are as they were read.
    pub fn commands(&self) -> &[Command] {
        &self.commands
    }

    /// Reads the replies to [`commands`](Self::commands), in their order.
    pub fn end(self, replies: &[Replied]) -> Ended {
        // A command that is refused before EXEC makes EXEC fail too, but tells the reason.
        if let Some(text) = replies.iter().find_map(|reply| reply.as_ref().err()) {
            return Ended::Refused(text.clone());
        }
        match replies.last() {
            Some(Ok(Reply::List(done))) if done.iter().all(is_done) => Ended::Done(self.executed),
            Some(Ok(Reply::One(Scalar::Nil))) => Ended::Changed,
            _ => Ended::Unclear,
        }
    }
}

/// What the commands that write answer. Anything else is an error that a library has turned into text.
fn is_done(reply: &Scalar) -> bool {
    matches!(reply, Scalar::Int(_)) || *reply == Scalar::Text(b"OK".to_vec())
}

fn command(words: &[&[u8]]) -> Command {
    words.iter().map(|word| word.to_vec()).collect()
}

fn next<'a>(replies: &mut &'a [Replied]) -> Option<&'a Replied> {
    let (first, rest) = replies.split_first()?;
    *replies = rest;
    Some(first)
}

/// The server's time in µs.
fn time(reply: Option<&Replied>) -> Result<u64, String> {
    let parts = match reply {
        Some(Err(text)) => return Err(text.clone()),
        Some(Ok(Reply::List(parts))) => parts.as_slice(),
        _ => &[],
    };
    let number = |part: &Scalar| match part {
        Scalar::Text(text) => str::from_utf8(text).ok()?.parse::<u64>().ok(),
        Scalar::Int(number) => u64::try_from(*number).ok(),
        Scalar::Nil => None,
    };
    let us = match parts {
        [seconds, micros] => number(seconds)
            .zip(number(micros))
            .map(|(seconds, micros)| seconds.saturating_mul(1_000_000).saturating_add(micros)),
        _ => None,
    };
    us.ok_or_else(|| "ERR TIME answered no time".to_owned())
}

/// A key as the server has it. If it changes while it is read, the parts may not fit together. Then EXEC fails, so
/// any result is right.
fn entry(read: &[Replied], now_us: u64) -> Result<Option<Entry>, String> {
    let [kind, pttl, text, fields, members] = read else { return Err("ERR a reply is missing".to_owned()) };
    let kind = match kind {
        Ok(Reply::One(Scalar::Text(kind))) => kind.as_slice(),
        Ok(_) => b"none",
        Err(text) => return Err(text.clone()),
    };
    let data = match kind {
        b"none" => None,
        b"string" => match value(text)? {
            Some(Reply::One(Scalar::Text(text))) => Some(Data::Text(text.clone())),
            _ => None,
        },
        b"hash" => {
            let fields = pairs(value(fields)?)?;
            Some(Data::Hash(fields.into_iter().map(|(field, value)| (field.to_vec(), value.to_vec())).collect()))
        }
        b"zset" => {
            let mut set = SortedSet::default();
            for (member, score) in pairs(value(members)?)? {
                set.insert(float(score).map_err(|refusal| refusal.to_string())?, member);
            }
            Some(Data::Sorted(set))
        }
        _ => Some(Data::Other),
    };
    let left = match pttl {
        Ok(Reply::One(Scalar::Int(left))) => *left,
        Ok(_) => -2,
        Err(text) => return Err(text.clone()),
    };
    let is_empty = match &data {
        None => true,
        Some(Data::Hash(fields)) => fields.is_empty(),
        Some(Data::Sorted(set)) => set.members().is_empty(),
        Some(_) => false,
    };
    let expires_ms = (left >= 0).then(|| (now_us / 1000) as i64 + left);
    Ok(data.filter(|_| left != -2 && !is_empty).map(|data| Entry { data, expires_ms }))
}

/// What was read of a key. None if the key has another type.
fn value(replied: &Replied) -> Result<Option<&Reply>, String> {
    match replied {
        Ok(reply) => Ok(Some(reply)),
        Err(text) if text.starts_with("WRONGTYPE") => Ok(None),
        Err(text) => Err(text.clone()),
    }
}

type Pairs<'a> = Vec<(&'a [u8], &'a [u8])>;

/// The pairs of a flat list.
fn pairs(reply: Option<&Reply>) -> Result<Pairs<'_>, String> {
    let items = match reply {
        Some(Reply::List(items)) => items.as_slice(),
        Some(Reply::One(_)) => return Err(NO_PAIRS.to_owned()),
        None => &[],
    };
    // A library may give the pairs another form. Without them, a lock would seem to be free.
    items.chunks(2).map(pair).collect::<Option<Vec<_>>>().ok_or_else(|| NO_PAIRS.to_owned())
}

fn pair(items: &[Scalar]) -> Option<(&[u8], &[u8])> {
    match items {
        [Scalar::Text(left), Scalar::Text(right)] => Some((left, right)),
        _ => None,
    }
}

const NO_PAIRS: &str = "ERR the answer to HGETALL or ZRANGE is no flat list of texts";

/// Adds the commands that turn one entry of a key into the other.
fn write_changes(commands: &mut Vec<Command>, key: &[u8], before: Option<&Entry>, after: Option<&Entry>) {
    let Some(after) = after else {
        if before.is_some() {
            commands.push(command(&[b"DEL", key]));
        }
        return;
    };
    let mut expires = before.and_then(|before| before.expires_ms);
    match (before.map(|before| &before.data), &after.data) {
        (Some(Data::Text(old)), Data::Text(new)) if old == new => {}
        (Some(Data::Other), Data::Other) => {}
        (_, Data::Text(new)) => {
            commands.push(command(&[b"SET", key, new]));
            expires = None;
        }
        (Some(Data::Hash(old)), Data::Hash(new)) => write_hash(commands, key, old, new),
        (Some(Data::Sorted(old)), Data::Sorted(new)) => write_sorted(commands, key, old, new),
        (old, new) => {
            if old.is_some() {
                commands.push(command(&[b"DEL", key]));
            }
            expires = None;
            match new {
                Data::Hash(new) => write_hash(commands, key, &[], new),
                Data::Sorted(new) => write_sorted(commands, key, &SortedSet::default(), new),
                Data::Text(_) | Data::Other => {}
            }
        }
    }
    match after.expires_ms {
        same if same == expires => {}
        Some(ms) => commands.push(command(&[b"PEXPIREAT", key, format!("{ms}").as_bytes()])),
        None => commands.push(command(&[b"PERSIST", key])),
    }
}

/// New fields come before old ones go, because a hash that has become empty loses its TTL.
fn write_hash(commands: &mut Vec<Command>, key: &[u8], old: &[(Vec<u8>, Vec<u8>)], new: &[(Vec<u8>, Vec<u8>)]) {
    let added = new.iter().filter(|pair| !old.contains(pair)).flat_map(|(field, value)| [field.clone(), value.clone()]);
    push_with(commands, b"HSET", key, added);
    let is_gone = |field: &Vec<u8>| !new.iter().any(|(other, _)| other == field);
    push_with(commands, b"HDEL", key, old.iter().map(|(field, _)| field).filter(|field| is_gone(field)).cloned());
}

fn write_sorted(commands: &mut Vec<Command>, key: &[u8], old: &SortedSet, new: &SortedSet) {
    let added = new.members().iter().filter(|(score, member)| old.score(member) != Some(*score));
    push_with(commands, b"ZADD", key, added.flat_map(|(score, member)| [score_text(*score), member.clone()]));
    let gone = old.members().iter().map(|(_, member)| member).filter(|member| new.score(member).is_none());
    push_with(commands, b"ZREM", key, gone.cloned());
}

/// Adds a command with these words, if there are any.
fn push_with(commands: &mut Vec<Command>, name: &[u8], key: &[u8], words: impl Iterator<Item = Vec<u8>>) {
    let mut command = command(&[name, key]);
    command.extend(words);
    if command.len() > 2 {
        commands.push(command);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_lua::{ACQUIRE, RELEASE_FAST};

    fn text(text: &str) -> Replied {
        Ok(Reply::One(Scalar::Text(text.into())))
    }

    fn list(words: &[&str]) -> Replied {
        Ok(Reply::List(words.iter().map(|word| Scalar::Text((*word).into())).collect()))
    }

    /// What a server answers about a key with this type and value. The TTL is 1 s.
    fn key(kind: &str, value: Replied) -> [Replied; READS] {
        let wrong = || Err("WRONGTYPE another type".to_owned());
        let (mut values, at) = ([wrong(), wrong(), wrong()], ["string", "hash", "zset"].map(|other| other == kind));
        if let Some(place) = at.iter().position(|is| *is) {
            values[place] = value;
        }
        let [get, hgetall, zrange] = values;
        [text(kind), Ok(Reply::One(Scalar::Int(1_000))), get, hgetall, zrange]
    }

    fn release(read: [Replied; READS]) -> Result<Writes, String> {
        let call = Transaction::of(&[b"EVALSHA", RELEASE_FAST.sha1.as_bytes(), b"1", b"door", b"a:1 7"]).unwrap();
        let replies: Vec<Replied> = [text("OK"), list(&["1800000000", "0"])].into_iter().chain(read).collect();
        call.run(&replies)
    }

    fn shown(commands: &[Command]) -> Vec<String> {
        let shown = |command: &Command| String::from_utf8_lossy(&command.join(&b' ')).into_owned();
        commands.iter().map(shown).collect()
    }

    #[test]
    fn only_changes_are_written_and_only_between_multi_and_exec() {
        let writes = release(key("string", text("a:1 7"))).unwrap();
        assert_eq!(shown(writes.commands()), ["MULTI", "DEL door", "EXEC"]);
        let writes = release(key("string", text("b:1 8"))).unwrap();
        assert_eq!(shown(writes.commands()), ["MULTI", "EXEC"], "EXEC tells whether that is still true");
    }

    #[test]
    fn a_hash_and_a_sorted_set_keep_their_ttl_when_all_members_change() {
        let mut commands = Vec::new();
        let entry = |data| Entry { data, expires_ms: Some(5) };
        let hash = |field: &str| entry(Data::Hash(vec![(field.into(), b"1".to_vec())]));
        write_changes(&mut commands, b"h", Some(&hash("old")), Some(&hash("new")));
        let sorted = |member: &str| {
            let mut set = SortedSet::default();
            set.insert(7.0, member.as_bytes());
            entry(Data::Sorted(set))
        };
        write_changes(&mut commands, b"z", Some(&sorted("old")), Some(&sorted("new")));
        assert_eq!(shown(&commands), ["HSET h new 1", "HDEL h old", "ZADD z 7 new", "ZREM z old"]);
    }

    #[test]
    fn another_type_is_replaced_and_a_ttl_is_set_as_a_time() {
        let mut commands = Vec::new();
        let text = |text: &str, expires_ms| Entry { data: Data::Text(text.into()), expires_ms };
        let hash = Entry { data: Data::Hash(vec![(b"a".to_vec(), b"1".to_vec())]), expires_ms: None };
        write_changes(&mut commands, b"k", Some(&hash), Some(&text("v", Some(9))));
        write_changes(&mut commands, b"k", Some(&text("v", Some(9))), Some(&hash));
        write_changes(&mut commands, b"k", Some(&text("v", Some(9))), Some(&text("v", None)));
        write_changes(&mut commands, b"k", Some(&text("v", Some(9))), None);
        assert_eq!(shown(&commands), ["SET k v", "PEXPIREAT k 9", "DEL k", "HSET k a 1", "PERSIST k", "DEL k"]);
    }

    #[test]
    fn an_answer_that_is_not_understood_never_makes_a_lock_seem_free() {
        for (kind, value) in [
            ("zset", list(&["a list in a list"])),
            ("zset", list(&["member", "no number"])),
            ("zset", text("a:1 7")),
            ("hash", list(&["a", "1", "b"])),
            ("hash", Ok(Reply::List(vec![Scalar::Int(1), Scalar::Int(2)]))),
        ] {
            assert!(release(key(kind, value)).unwrap_err().starts_with("ERR "), "{kind}");
        }
        assert_eq!(release(key("string", Err("NOPERM no".to_owned()))).unwrap_err(), "NOPERM no");
    }

    #[test]
    fn a_key_of_a_foreign_type_is_not_touched() {
        let writes = release(key("list", text(""))).unwrap();
        assert_eq!(shown(writes.commands()), ["MULTI", "EXEC"]);
        let ended = writes.end(&[text("OK"), Ok(Reply::List(Vec::new()))]);
        assert!(matches!(ended, Ended::Done(executed) if executed.reply.is_err()), "WRONGTYPE");
    }

    #[test]
    fn each_key_is_watched_once() {
        let mut words: Vec<&[u8]> = vec![b"EVALSHA", ACQUIRE.sha1.as_bytes(), b"3", b"b", b"a", b"b", b"rest"];
        let reads = Transaction::of(&words).unwrap().reads();
        assert_eq!(shown(&reads)[..2], ["WATCH a b", "TIME"]);
        assert_eq!(reads.len(), 2 + 2 * READS);
        words[2] = b"9";
        assert!(Transaction::of(&words).is_none(), "fewer words than keys");
    }
}
