//! The rights of this user, one by one: runs each command that clients run, on the keys and channels of a lock that nobody uses.
//!
//! Only one key is written, a string with a TTL. On it, the commands for other types do nothing but fail with WRONGTYPE,
//! after the server has checked the rights. In a cluster, a server checks them before it answers MOVED.

use leasehold::redis_1::redis::{self, Client, Cmd, RedisResult, Value};
use tokio::time::timeout;

use super::check::{Check, Verdict};
use super::names::Names;
use super::remedies;
use crate::args::Servers;
use crate::keyspace::{all_keys, channel};
use crate::refusals::{DISABLED, Refused, refused};
use crate::servers::Node;

/// How the names of the checks of single rights begin.
pub(super) const ONE: &str = "right ";

/// Each command with its arguments, and `KEY` in place of the key.
const COMMANDS: [&[&str]; 28] = [
    &["SET", "KEY", "doctor", "PX", "10000"],
    &["GET", "KEY"],
    &["EXISTS", "KEY"],
    &["TYPE", "KEY"],
    &["PTTL", "KEY"],
    &["PEXPIRE", "KEY", "10000"],
    &["TIME"],
    &["EVAL", "return 1", "1", "KEY"],
    &["EVALSHA", "0000000000000000000000000000000000000000", "1", "KEY"],
    // `XX` creates no key if the user may not run SET.
    &["ZADD", "KEY", "XX", "1", "member"],
    &["ZREM", "KEY", "member"],
    &["ZCARD", "KEY"],
    &["ZCOUNT", "KEY", "0", "1"],
    &["ZSCORE", "KEY", "member"],
    &["ZRANK", "KEY", "member"],
    &["ZREVRANK", "KEY", "member"],
    &["ZRANGE", "KEY", "0", "0"],
    &["ZRANGEBYSCORE", "KEY", "0", "1"],
    &["ZREMRANGEBYSCORE", "KEY", "0", "1"],
    &["HGET", "KEY", "field"],
    &["HMGET", "KEY", "field"],
    &["HDEL", "KEY", "field"],
    &["HLEN", "KEY"],
    &["HGETALL", "KEY"],
    &["HSET", "KEY", "field", "doctor"],
    &["DEL", "KEY"],
    &["PUBLISH", "CHANNEL", "doctor"],
    &["SUBSCRIBE", "CHANNEL"],
];

/// What to do about a missing right to TIME, besides granting it.
const IN_PLACE_OF_TIME: &str = "; in place of +time, Redis 7.0 and Valkey 7.2 or newer also take +pexpiretime +persist";

/// What scripts run in place of TIME, on a key that doesn't exist.
const OTHER_CLOCK: [&[&str]; 2] = [&["PEXPIRETIME", "KEY"], &["PERSIST", "KEY"]];

pub(super) async fn check(node: &mut Node, servers: &Servers, names: &Names, user: &str) -> Vec<Check> {
    let key = names.key(&names.name(0));
    let (keys, channel) = (all_keys(&key), channel(&format!("doctor-{}", names.id)));
    let (mut checks, mut missing, mut unknown, mut channel_refused) = (Vec::new(), Vec::new(), Vec::new(), false);
    let mut key_refused = None;
    // No client may ever create these keys of this name.
    let side_keys = keys.get(1..).unwrap_or_default();
    let mut milliseconds = "";
    for words in COMMANDS {
        let Some((command, _)) = words.split_first() else { continue };
        let right = format!("+{}", command.to_lowercase());
        let refused = match attempt(node, servers, words, &keys, &channel).await {
            Ok(refused) => refused,
            Err(error) => {
                let remedy = "see the check of the connection";
                checks.push(Check::new("rights", Verdict::Unknown, format!("{command}: {error}"), remedy));
                return checks;
            }
        };
        match refused {
            Some(Refused::Command) if *command == "TIME" && has_other_clock(node, servers, side_keys).await => {
                milliseconds = "; without TIME, scripts read the time from a key, in whole milliseconds";
                let finding = "not needed: the user may run PEXPIRETIME and PERSIST";
                checks.push(Check::ok(&format!("{ONE}{right}"), finding));
                continue;
            }
            Some(Refused::Command) => {
                let finding = format!("user `{user}` may not run {command}");
                let other = if *command == "TIME" { IN_PLACE_OF_TIME } else { "" };
                let remedy = format!("ACL SETUSER {user} {right}{other}");
                checks.push(Check::new(&format!("{ONE}{right}"), Verdict::Problem, finding, remedy));
                missing.push(right);
                continue;
            }
            Some(Refused::Unknown) => {
                let finding = format!("this address doesn't know {command}");
                checks.push(Check::new(&format!("{ONE}{right}"), Verdict::Unknown, finding, DISABLED));
                unknown.push(*command);
                continue;
            }
            Some(Refused::Key) => key_refused = key_refused.or(keys.first().cloned()),
            Some(Refused::Channel) => channel_refused = true,
            None => {}
        }
        checks.push(Check::ok(&format!("{ONE}{right}"), "granted"));
    }
    for key in side_keys {
        // Nothing is deleted.
        if let Ok(Some(Refused::Key)) = attempt(node, servers, &["DEL", "KEY"], std::slice::from_ref(key), "").await {
            key_refused = key_refused.or(Some(key.clone()));
        }
    }
    // It may exist, as a string. So this command checks the rights, and changes nothing.
    let fence = servers.spread_on(node).fence(&key);
    for words in [&["GET", "KEY"][..], &["ZREM", "KEY", "doctor"]] {
        if let Ok(Some(Refused::Key)) = attempt(node, servers, words, std::slice::from_ref(&fence), "").await {
            key_refused = key_refused.or(Some(fence.clone()));
        }
    }
    checks.push(keys_check(user, key_refused));
    checks.push(channels_check(user, channel_refused, unknown.contains(&"SUBSCRIBE")));
    checks.push(match missing.len() {
        0 if !unknown.is_empty() => {
            let finding =
                format!("this address doesn't know {}; the check `locks` shows whether locks work", unknown.join(", "));
            Check::new("rights", Verdict::Unknown, finding, DISABLED)
        }
        0 if milliseconds.is_empty() => {
            Check::ok("rights", format!("user `{user}` may run all {} commands that locks need", COMMANDS.len()))
        }
        0 => Check::ok("rights", format!("user `{user}` may run all commands that locks need{milliseconds}")),
        count => {
            let finding = format!("user `{user}` lacks {count} of {} commands: {}", COMMANDS.len(), missing.join(" "));
            let other = if missing.iter().any(|right| right == "+time") { IN_PLACE_OF_TIME } else { "" };
            let remedy = format!("ACL SETUSER {user} {}{other}", missing.join(" "));
            Check::new("rights", Verdict::Problem, finding, remedy)
        }
    });
    checks
}

/// Whether this user's scripts can read the time without TIME.
async fn has_other_clock(node: &mut Node, servers: &Servers, keys: &[String]) -> bool {
    for words in OTHER_CLOCK {
        if !matches!(attempt(node, servers, words, keys, "").await, Ok(None)) {
            return false;
        }
    }
    true
}

fn keys_check(user: &str, refused: Option<String>) -> Check {
    match refused {
        None => Check::ok("keys", "a lock's key, its side keys and the counter of the fences can be written"),
        Some(key) => {
            let finding = format!("user `{user}` may not write the key {key}");
            Check::new("keys", Verdict::Problem, finding, remedies::keys(user))
        }
    }
}

fn channels_check(user: &str, refused: bool, unknown: bool) -> Check {
    if unknown {
        let finding = "this address doesn't know SUBSCRIBE, so waiters poll, which is slower";
        return Check::new("channels", Verdict::Warning, finding, DISABLED);
    }
    if refused {
        let finding = format!("user `{user}` may not use the channels leasehold:*, so waiters poll, which is slower");
        return Check::new("channels", Verdict::Warning, finding, format!("ACL SETUSER {user} '&leasehold:*'"));
    }
    Check::ok("channels", "messages wake waiters")
}

/// The user that the node's connection has.
pub(super) async fn user(node: &mut Node) -> String {
    let mut query = redis::cmd("ACL");
    query.arg("WHOAMI");
    let asked: RedisResult<String> = node.query(&query).await;
    asked.unwrap_or_else(|_| node.info.redis_settings().username().unwrap_or("default").to_owned())
}

/// Runs a command. Returns what the server refused, or an error if it didn't answer.
async fn attempt(
    node: &mut Node,
    servers: &Servers,
    words: &[&str],
    keys: &[String],
    channel: &str,
) -> RedisResult<Option<Refused>> {
    let key = keys.first().map_or("", String::as_str);
    let mut words = words.iter().map(|word| match *word {
        "KEY" => key,
        "CHANNEL" => channel,
        word => word,
    });
    let Some(name) = words.next() else { return Ok(None) };
    let outcome = if name == "SUBSCRIBE" {
        subscribe(node, servers, channel).await
    } else {
        let mut command: Cmd = redis::cmd(name);
        for word in words {
            command.arg(word);
        }
        node.query::<Value>(&command).await.map(|_| ())
    };
    match outcome {
        Err(error) if refused(&error).is_some() => Ok(refused(&error)),
        // The server answered, after it checked the rights.
        Err(error) if error.code().is_some() => Ok(None),
        Err(error) => Err(error),
        Ok(()) => Ok(None),
    }
}

/// Subscriptions need a connection of their own.
async fn subscribe(node: &Node, servers: &Servers, channel: &str) -> RedisResult<()> {
    let client = Client::open(node.info.clone())?;
    let asked = async { client.get_async_pubsub().await?.subscribe(channel).await };
    match timeout(servers.timeout, asked).await {
        Ok(outcome) => outcome,
        Err(_) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
    }
}
