//! Reads from a server's message what it refused.

use leasehold::redis_1::redis::RedisError;

/// What a server says about a command that an administrator has renamed or disabled. A proxy says it about the commands that it
/// doesn't know.
pub(crate) const UNKNOWN_COMMAND: &str = "unknown command";
pub(crate) const DISABLED: &str =
    "an administrator has disabled this command, or a proxy doesn't know it: give the URL of a server that has it";
/// What to do about a connection that breaks at a command.
pub(crate) const CLOSED: &str = "check that the server runs; a proxy may also close the connection at a command that it \
                                 doesn't know: then give the URL of the server itself";

/// What to do about a login that a server refuses.
pub(crate) const LOGIN: &str = "check the user and the password, in --url or in REDIS_USERNAME and REDIS_PASSWORD";

/// What the server doesn't allow this user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The server, or a proxy, doesn't know the command.
    Unknown,
    Command,
    Key,
    Channel,
}

/// What the server refused, if it is a matter of rights.
pub(crate) fn refused(error: &RedisError) -> Option<Refused> {
    refused_by(&answer(error))
}

/// The error as the server wrote it, with its code first. If the server didn't answer, the reason.
pub(crate) fn answer(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        (Some(code), None) => code.to_owned(),
        (None, _) => error.to_string(),
    }
}

/// The same for a message. Each version of the server has its own sentences.
pub(crate) fn refused_by(text: &str) -> Option<Refused> {
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if has(&[UNKNOWN_COMMAND]) {
        return Some(Refused::Unknown);
    }
    if !has(&["NOPERM", "ACL failure", "can't run this command", "can't access"]) {
        return None;
    }
    Some(if has(&[" channel"]) {
        Refused::Channel
    } else if has(&["a key", "the keys"]) {
        Refused::Key
    } else {
        Refused::Command
    })
}

/// The command that a server's refusal names: `... no permissions to run the 'cluster|slots' command`.
pub(crate) fn named_command(text: &str) -> Option<&str> {
    let (before, _) = text.split_once("' command")?;
    let (_, command) = before.rsplit_once('\'')?;
    Some(command).filter(|command| !command.is_empty() && !command.contains(char::is_whitespace))
}
