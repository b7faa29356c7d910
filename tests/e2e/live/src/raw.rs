//! Reads the server's state directly, without leasehold.

use leasehold_servers::{Error, Reply, Server};

/// An integer answer.
///
/// # Errors
/// As [`Server::cli`], and if the answer is not an integer.
pub fn number(server: &Server, command: &[&str]) -> Result<i64, Error> {
    let reply = server.cli(command)?;
    reply.integer().ok_or_else(|| Error::Refused(format!("{command:?} answered {reply:?}")))
}

/// A text answer, `None` for no value.
///
/// # Errors
/// As [`Server::cli`].
pub fn text(server: &Server, command: &[&str]) -> Result<Option<String>, Error> {
    Ok(server.cli(command)?.text().map(str::to_owned))
}

/// Whether the lock's own key exists.
///
/// # Errors
/// As [`Server::cli`].
pub fn is_there(server: &Server, name: &str) -> Result<bool, Error> {
    Ok(number(server, &["EXISTS", name])? == 1)
}

/// The counter of the fences that a server gives out.
pub const FENCE: &str = "leasehold:fence";

/// A side key of a lock: `queue`, `waiters` or `readers`. A brace in the name counts as a hash tag.
pub fn side(name: &str, side: &str) -> String {
    if name.contains('{') { format!("leasehold::{name}:{side}") } else { format!("leasehold:{{{name}}}:{side}") }
}

/// How many waiters are in the server's queue. The tokens that were given up are there too, with a negative score.
///
/// # Errors
/// As [`Server::cli`].
pub fn waiters(server: &Server, name: &str) -> Result<i64, Error> {
    number(server, &["ZCOUNT", &side(name, "queue"), "0", "+inf"])
}

/// How many clients are subscribed to their channel.
///
/// # Errors
/// As [`Server::cli`].
pub fn subscribed(server: &Server) -> Result<usize, Error> {
    Ok(server.cli(&["PUBSUB", "CHANNELS", "leasehold:*"])?.list().len())
}

/// How many connections the server has, except the one that asks.
///
/// # Errors
/// As [`Server::cli`].
pub fn connections(server: &Server) -> Result<usize, Error> {
    let list = server.cli(&["CLIENT", "LIST"])?;
    Ok(list.text().unwrap_or_default().lines().count().saturating_sub(1))
}

/// All keys, sorted.
///
/// # Errors
/// As [`Server::cli`].
pub fn keys(server: &Server) -> Result<Vec<String>, Error> {
    let reply = server.cli(&["KEYS", "*"])?;
    let mut keys: Vec<String> = reply.list().iter().filter_map(Reply::text).map(str::to_owned).collect();
    keys.sort();
    Ok(keys)
}

/// All keys without a TTL.
///
/// # Errors
/// As [`Server::cli`].
pub fn endless_keys(server: &Server) -> Result<Vec<String>, Error> {
    let mut endless = keys(server)?;
    let mut failure = None;
    endless.retain(|key| number(server, &["PTTL", key]).map_err(|error| failure = Some(error)) == Ok(-1));
    failure.map_or(Ok(endless), Err)
}
