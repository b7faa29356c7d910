//! The commands that scripts and clients use, read from words.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use leasehold_core::Scalar;

use crate::answer::{Answer, Outcome, Refusal};
use crate::keys::number::{bound, float, integer, score_text};
use crate::keys::{Lifetime, Range, SetOptions};
use crate::scripts;
use crate::state::{Access, Server};

pub(crate) struct Command {
    name: &'static [u8],
    pub(crate) run: fn(&mut Server, &[&[u8]]) -> Outcome,
    /// The least and the greatest number of words, including the name.
    words: (usize, usize),
    keys: Keys,
    pub(crate) access: Access,
}

/// Which of the words after the name are keys.
enum Keys {
    None,
    First,
    All,
}

const MANY: usize = usize::MAX;
/// As many words of an unknown command are shown.
const SHOWN: usize = 20;

impl Command {
    pub(crate) fn find(name: &[u8]) -> Option<&'static Self> {
        COMMANDS.iter().find(|command| command.name.eq_ignore_ascii_case(name))
    }

    pub(crate) fn unknown(name: &[u8], arguments: &[&[u8]]) -> Refusal {
        let shown = |word: &[u8]| String::from_utf8_lossy(word.get(..128).unwrap_or(word)).replace(['\r', '\n'], " ");
        let arguments: String = arguments.iter().take(SHOWN).map(|word| format!("'{}' ", shown(word))).collect();
        format!("ERR unknown command '{}', with args beginning with: {arguments}", shown(name)).into()
    }

    pub(crate) fn check(&self, words: &[&[u8]]) -> Result<(), Refusal> {
        if words.len() < self.words.0 || words.len() > self.words.1 {
            return Err(wrong_number(self.name));
        }
        Ok(())
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

fn wrong_number(name: &[u8]) -> Refusal {
    let name = String::from_utf8_lossy(name).to_lowercase();
    format!("ERR wrong number of arguments for '{name}' command").into()
}

const READ: Command = Command { name: b"", run: ok, words: (2, 2), keys: Keys::First, access: Access::Read };
const DELETE: Command = Command { access: Access::Delete, ..READ };
const WRITE: Command = Command { access: Access::Write, ..READ };
/// A command without keys.
const SERVER: Command = Command { words: (1, MANY), keys: Keys::None, ..READ };

/// The most frequent commands come first, because the list is searched from the start.
const COMMANDS: &[Command] = &[
    Command { name: b"EVALSHA", run: scripts::evalsha, words: (3, MANY), ..SERVER },
    Command { name: b"EVAL", run: scripts::eval, words: (3, MANY), ..SERVER },
    Command { name: b"GET", run: get, ..READ },
    Command { name: b"EXISTS", run: exists, words: (2, MANY), keys: Keys::All, ..READ },
    Command { name: b"TIME", run: time, words: (1, 1), ..SERVER },
    Command { name: b"PTTL", run: pttl, ..READ },
    Command { name: b"SET", run: set, words: (3, MANY), ..WRITE },
    Command { name: b"ZCARD", run: zcard, ..READ },
    Command { name: b"HLEN", run: hlen, ..READ },
    Command { name: b"ZRANGE", run: zrange, words: (4, 5), ..READ },
    Command { name: b"HGET", run: hget, words: (3, 3), ..READ },
    Command { name: b"HMGET", run: hmget, words: (3, MANY), ..READ },
    Command { name: b"ZREM", run: zrem, words: (3, MANY), ..DELETE },
    Command { name: b"HDEL", run: hdel, words: (3, MANY), ..DELETE },
    Command { name: b"ZSCORE", run: zscore, words: (3, 3), ..READ },
    Command { name: b"DEL", run: del, words: (2, MANY), keys: Keys::All, ..DELETE },
    Command { name: b"DELIFEQ", run: delete_if_equal, words: (3, 3), ..DELETE },
    Command { name: b"PEXPIRE", run: pexpire, words: (3, 3), ..DELETE },
    Command { name: b"HSET", run: hset, words: (4, MANY), ..WRITE },
    Command { name: b"ZADD", run: zadd, words: (4, MANY), ..WRITE },
    Command { name: b"ZRANK", run: zrank, words: (3, 3), ..READ },
    Command { name: b"ZREVRANK", run: zrevrank, words: (3, 3), ..READ },
    Command { name: b"ZREMRANGEBYSCORE", run: zremrangebyscore, words: (4, 4), ..DELETE },
    Command { name: b"ZRANGEBYSCORE", run: zrangebyscore, words: (4, 8), ..READ },
    Command { name: b"ZCOUNT", run: zcount, words: (4, 4), ..READ },
    Command { name: b"HGETALL", run: hgetall, ..READ },
    Command { name: b"TYPE", run: type_of, ..READ },
    Command { name: b"PUBLISH", run: publish, words: (3, 3), ..SERVER },
    Command { name: b"SPUBLISH", run: spublish, words: (3, 3), ..SERVER },
    Command { name: b"PUBSUB", run: pubsub, words: (2, MANY), ..SERVER },
    Command { name: b"PERSIST", run: persist, ..DELETE },
    Command { name: b"GETRANGE", run: getrange, words: (4, 4), ..READ },
    Command { name: b"SCRIPT", run: scripts::script, words: (2, MANY), ..SERVER },
    Command { name: b"DBSIZE", run: dbsize, words: (1, 1), ..SERVER },
    Command { name: b"SCAN", run: scan, words: (2, MANY), ..SERVER },
    Command { name: b"FLUSHALL", run: flushall, words: (1, 2), keys: Keys::None, ..DELETE },
    Command { name: b"FLUSHDB", run: flushall, words: (1, 2), keys: Keys::None, ..DELETE },
    Command { name: b"PING", run: ping, words: (1, 2), ..SERVER },
    Command { name: b"ECHO", run: echo, words: (2, 2), ..SERVER },
    Command { name: b"WAIT", run: wait, words: (3, 3), ..SERVER },
    Command { name: b"CLIENT", run: ok, words: (2, MANY), ..SERVER },
    Command { name: b"SELECT", run: select, words: (2, 2), ..SERVER },
    Command { name: b"INFO", run: info, ..SERVER },
    Command { name: b"CONFIG", run: config, words: (2, MANY), ..SERVER },
    Command { name: b"CLUSTER", run: cluster, words: (2, MANY), ..SERVER },
];

/// A word. The number of words was checked, so it is there.
fn word<'w>(words: &[&'w [u8]], at: usize) -> &'w [u8] {
    words.get(at).copied().unwrap_or_default()
}

fn rest<'a, 'w>(words: &'a [&'w [u8]], from: usize) -> &'a [&'w [u8]] {
    words.get(from..).unwrap_or_default()
}

fn get(server: &mut Server, words: &[&[u8]]) -> Outcome {
    server.keyspace.get(word(words, 1)).map(Answer::optional)
}

fn getrange(server: &mut Server, words: &[&[u8]]) -> Outcome {
    let (start, stop) = (integer(word(words, 2))?, integer(word(words, 3))?);
    let text = server.keyspace.get(word(words, 1))?.unwrap_or_default();
    let length = text.len() as i64;
    let resolve = |index: i64| if index < 0 { index.saturating_add(length).max(0) } else { index };
    let (start, end) = (resolve(start), resolve(stop).saturating_add(1).min(length));
    let part = if start < end { text.get(start as usize..end as usize) } else { None };
    Ok(Answer::Text(part.unwrap_or_default().to_vec()))
}

/// `SET key value [NX | XX] [GET] [EX s | PX ms | KEEPTTL]`. NX together with GET is refused, as in Redis 6.2.
fn set(server: &mut Server, words: &[&[u8]]) -> Outcome {
    let mut options = SetOptions::default();
    let mut following = rest(words, 3).iter();
    while let Some(option) = following.next() {
        match option.to_ascii_uppercase().as_slice() {
            b"NX" => options.only_new = true,
            b"XX" => options.only_old = true,
            b"GET" => options.answer_old = true,
            b"KEEPTTL" if options.lifetime == Lifetime::Forever => options.lifetime = Lifetime::Kept,
            unit @ (b"PX" | b"EX") if options.lifetime == Lifetime::Forever => {
                let amount = integer(following.next().ok_or(Refusal::SYNTAX)?)?;
                let factor = if unit == b"EX" { 1000 } else { 1 };
                // A time that overflows is invalid, as one below 1 is.
                options.lifetime = Lifetime::Ms(amount.checked_mul(factor).unwrap_or_default());
            }
            _ => return Err(Refusal::SYNTAX),
        }
    }
    if options.only_new && (options.only_old || options.answer_old) {
        return Err(Refusal::SYNTAX);
    }
    let set = server.keyspace.set(word(words, 1), word(words, 2), options)?;
    Ok(match (options.answer_old, set.done) {
        (true, _) => Answer::optional(set.old),
        (false, true) => Answer::Status("OK"),
        (false, false) => Answer::Nil,
    })
}

fn exists(server: &mut Server, words: &[&[u8]]) -> Outcome {
    Ok(Answer::count(server.keyspace.exists(rest(words, 1))))
}

fn del(server: &mut Server, words: &[&[u8]]) -> Outcome {
    Ok(Answer::count(server.keyspace.del(rest(words, 1))))
}

/// Valkey's `DELIFEQ key value`.
fn delete_if_equal(server: &mut Server, words: &[&[u8]]) -> Outcome {
    let key = word(words, 1);
    let equal = server.keyspace.get(key)?.as_deref() == Some(word(words, 2));
    Ok(Answer::count(if equal { server.keyspace.del(&[key]) } else { 0 }))
}

fn pttl(server: &mut Server, words: &[&[u8]]) -> Outcome {
    Ok(Answer::Int(server.keyspace.pttl(word(words, 1))))
}

fn pexpire(server: &mut Server, words: &[&[u8]]) -> Outcome {
    let ms = integer(word(words, 2))?;
    server.keyspace.pexpire(word(words, 1), ms).map(|done| Answer::Int(done.into()))
}

fn persist(server: &mut Server, words: &[&[u8]]) -> Outcome {
    Ok(Answer::Int(server.keyspace.persist(word(words, 1)).into()))
}

fn type_of(server: &mut Server, words: &[&[u8]]) -> Outcome {
    Ok(Answer::Status(server.keyspace.type_of(word(words, 1))))
}

fn hget(server: &mut Server, words: &[&[u8]]) -> Outcome {
    server.keyspace.hget(word(words, 1), word(words, 2)).map(Answer::optional)
}

fn hmget(server: &mut Server, words: &[&[u8]]) -> Outcome {
    let values = server.keyspace.hmget(word(words, 1), rest(words, 2))?;
    Ok(Answer::List(values.into_iter().map(|value| value.map_or(Scalar::Nil, Scalar::Text)).collect()))
}

fn hlen(server: &mut Server, words: &[&[u8]]) -> Outcome {
    server.keyspace.hlen(word(words, 1)).map(Answer::Int)
}

fn hgetall(server: &mut Server, words: &[&[u8]]) -> Outcome {
    let fields = server.keyspace.hgetall(word(words, 1))?;
    Ok(Answer::texts(fields.into_iter().flat_map(|(field, value)| [field, value])))
}

fn hset(server: &mut Server, words: &[&[u8]]) -> Outcome {
    if !words.len().is_multiple_of(2) {
        return Err(wrong_number(b"hset"));
    }
    let pairs: Vec<_> = rest(words, 2).chunks_exact(2).map(|pair| (word(pair, 0), word(pair, 1))).collect();
    server.keyspace.hset(word(words, 1), &pairs).map(Answer::count)
}

fn hdel(server: &mut Server, words: &[&[u8]]) -> Outcome {
    server.keyspace.hdel(word(words, 1), rest(words, 2)).map(Answer::count)
}

fn zcard(server: &mut Server, words: &[&[u8]]) -> Outcome {
    server.keyspace.zcard(word(words, 1)).map(Answer::Int)
}

fn zscore(server: &mut Server, words: &[&[u8]]) -> Outcome {
    let score = server.keyspace.zscore(word(words, 1), word(words, 2))?;
    Ok(Answer::optional(score.map(score_text)))
}

fn zrank(server: &mut Server, words: &[&[u8]]) -> Outcome {
    let rank = server.keyspace.zrank(word(words, 1), word(words, 2))?;
    Ok(rank.map_or(Answer::Nil, Answer::Int))
}

fn zrevrank(server: &mut Server, words: &[&[u8]]) -> Outcome {
    let rank = server.keyspace.zrevrank(word(words, 1), word(words, 2))?;
    Ok(rank.map_or(Answer::Nil, Answer::Int))
}

fn zadd(server: &mut Server, words: &[&[u8]]) -> Outcome {
    if !words.len().is_multiple_of(2) {
        return Err(Refusal::SYNTAX);
    }
    let pair = |pair: &[&[u8]]| Ok((float(word(pair, 0))?, word(pair, 1).to_vec()));
    let pairs = rest(words, 2).chunks_exact(2).map(pair).collect::<Result<Vec<_>, Refusal>>()?;
    let pairs: Vec<(f64, &[u8])> = pairs.iter().map(|(score, member)| (*score, member.as_slice())).collect();
    server.keyspace.zadd(word(words, 1), &pairs).map(Answer::count)
}

fn zrem(server: &mut Server, words: &[&[u8]]) -> Outcome {
    server.keyspace.zrem(word(words, 1), rest(words, 2)).map(Answer::count)
}

fn scores(words: &[&[u8]]) -> Result<Range, Refusal> {
    Ok(Range::Scores(bound(word(words, 2))?, bound(word(words, 3))?))
}

fn zcount(server: &mut Server, words: &[&[u8]]) -> Outcome {
    server.keyspace.zcount(word(words, 1), scores(words)?).map(Answer::Int)
}

fn zremrangebyscore(server: &mut Server, words: &[&[u8]]) -> Outcome {
    server.keyspace.zremrange(word(words, 1), scores(words)?).map(Answer::count)
}

fn zrange(server: &mut Server, words: &[&[u8]]) -> Outcome {
    let with_scores = with_scores(rest(words, 4))?;
    list(server, words, Range::Ranks(integer(word(words, 2))?, integer(word(words, 3))?), with_scores, usize::MAX)
}

fn zrangebyscore(server: &mut Server, words: &[&[u8]]) -> Outcome {
    let range = scores(words)?;
    let (options, most) = limit(rest(words, 4))?;
    list(server, words, range, with_scores(options)?, most)
}

fn with_scores(options: &[&[u8]]) -> Result<bool, Refusal> {
    match options {
        [] => Ok(false),
        [option] if option.eq_ignore_ascii_case(b"WITHSCORES") => Ok(true),
        _ => Err(Refusal::SYNTAX),
    }
}

/// The options before `LIMIT 0 count`, and the count. Another offset than 0 is refused, because no script needs it.
fn limit<'a, 'w>(options: &'a [&'w [u8]]) -> Result<(&'a [&'w [u8]], usize), Refusal> {
    match options {
        [before @ .., limit, offset, count] if limit.eq_ignore_ascii_case(b"LIMIT") => match integer(offset)? {
            0 => Ok((before, usize::try_from(integer(count)?).unwrap_or(usize::MAX))),
            _ => Err(Refusal::SYNTAX),
        },
        _ => Ok((options, usize::MAX)),
    }
}

fn list(server: &mut Server, words: &[&[u8]], range: Range, with_scores: bool, most: usize) -> Outcome {
    let mut items = Vec::new();
    for (score, member) in server.keyspace.zrange(word(words, 1), range, most)? {
        items.push(member);
        if with_scores {
            items.push(score_text(score));
        }
    }
    Ok(Answer::texts(items))
}

fn time(server: &mut Server, _: &[&[u8]]) -> Outcome {
    let (seconds, micros) = (server.now_us() / 1_000_000, server.now_us() % 1_000_000);
    Ok(Answer::texts([seconds, micros].map(|part| part.to_string().into_bytes())))
}

fn publish(server: &mut Server, words: &[&[u8]]) -> Outcome {
    server.publish(word(words, 1), word(words, 2)).map(|count| Answer::Int(count as i64))
}

/// Nobody listens on a shard channel.
fn spublish(_: &mut Server, _: &[&[u8]]) -> Outcome {
    Ok(Answer::Int(0))
}

fn pubsub(server: &mut Server, words: &[&[u8]]) -> Outcome {
    let counts = match word(words, 1).to_ascii_uppercase().as_slice() {
        b"NUMSUB" => |server: &Server, channel: &[u8]| server.listening(channel),
        b"SHARDNUMSUB" => |_: &Server, _: &[u8]| 0,
        b"CHANNELS" if words.len() == 2 => return Ok(Answer::texts(server.listeners.keys().cloned())),
        _ => return Err(unknown_subcommand(words)),
    };
    let pair = |channel: &&[u8]| [Scalar::Text(channel.to_vec()), Scalar::Int(counts(server, channel) as i64)];
    Ok(Answer::List(rest(words, 2).iter().flat_map(pair).collect()))
}

fn unknown_subcommand(words: &[&[u8]]) -> Refusal {
    let name = String::from_utf8_lossy(word(words, 0)).to_uppercase();
    let sub = String::from_utf8_lossy(word(words, 1));
    format!("ERR unknown subcommand '{sub}'. Try {name} HELP.").into()
}

fn ping(_: &mut Server, words: &[&[u8]]) -> Outcome {
    Ok(words.get(1).map_or(Answer::Status("PONG"), |text| Answer::Text(text.to_vec())))
}

fn echo(_: &mut Server, words: &[&[u8]]) -> Outcome {
    Ok(Answer::Text(word(words, 1).to_vec()))
}

fn ok(_: &mut Server, _: &[&[u8]]) -> Outcome {
    Ok(Answer::Status("OK"))
}

/// It has no replicas.
fn wait(_: &mut Server, words: &[&[u8]]) -> Outcome {
    integer(word(words, 1))?;
    let timeout = integer(word(words, 2)).map_err(|_| Refusal::new("ERR timeout is not an integer or out of range"))?;
    if timeout < 0 { Err(Refusal::new("ERR timeout is negative")) } else { Ok(Answer::Int(0)) }
}

fn select(_: &mut Server, words: &[&[u8]]) -> Outcome {
    match integer(word(words, 1)).map_err(|_| Refusal::new("ERR invalid DB index"))? {
        0 => Ok(Answer::Status("OK")),
        _ => Err(Refusal::new("ERR DB index is out of range")),
    }
}

fn flushall(server: &mut Server, _: &[&[u8]]) -> Outcome {
    server.flush_all();
    Ok(Answer::Status("OK"))
}

fn dbsize(server: &mut Server, _: &[&[u8]]) -> Outcome {
    Ok(Answer::count(server.keys(server.now_us()).count()))
}

/// All keys at once. The reply is flat: the cursor, which is always 0, and then the keys. MATCH is refused.
fn scan(server: &mut Server, words: &[&[u8]]) -> Outcome {
    integer(word(words, 1)).map_err(|_| Refusal::new("ERR invalid cursor"))?;
    let mut options = rest(words, 2).chunks(2);
    if options.any(|option| !word(option, 0).eq_ignore_ascii_case(b"COUNT") || option.len() < 2) {
        return Err(Refusal::new("ERR the server in memory knows no option of SCAN but COUNT"));
    }
    let keys = server.keys(server.now_us()).map(<[u8]>::to_vec);
    Ok(Answer::texts(core::iter::once(b"0".to_vec()).chain(keys)))
}

/// What clients check: the version, and what happens at maxmemory.
fn info(_: &mut Server, _: &[&[u8]]) -> Outcome {
    Ok(Answer::Text(b"# Server\r\nredis_version:6.2.0\r\nredis_mode:standalone\r\n# Memory\r\nmaxmemory_policy:noeviction\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n".to_vec()))
}

fn config(_: &mut Server, words: &[&[u8]]) -> Outcome {
    match (word(words, 1).to_ascii_uppercase().as_slice(), word(words, 2)) {
        (b"GET", b"maxmemory-policy") => Ok(Answer::texts([b"maxmemory-policy".to_vec(), b"noeviction".to_vec()])),
        (b"GET", _) => Ok(Answer::List(Vec::new())),
        _ => Err(unknown_subcommand(words)),
    }
}

fn cluster(_: &mut Server, _: &[&[u8]]) -> Outcome {
    Err(Refusal::new("ERR This instance has cluster support disabled"))
}
