//! What the commands print, and the exit codes.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use leasehold::Error;
use leasehold_core::{BROKE, LOCK_SETTINGS, NO_MORE_CLIENTS, UNREACHED};
use serde_json::{Value, json};

use crate::refusals::{DISABLED, LOGIN, UNKNOWN_COMMAND, named_command, refused_by};

/// The exit codes. `docs/cli.md` and `--help` list them.
pub(crate) mod exit {
    /// `doctor` found a problem.
    pub(crate) const PROBLEM: u8 = 1;
    /// The command line can't be used: an unknown option, a name or a value that is out of bounds.
    pub(crate) const USAGE: u8 = 64;
    /// The key holds another kind of lock, or other data.
    pub(crate) const WRONG_KIND: u8 = 65;
    /// No server answered.
    pub(crate) const UNREACHABLE: u8 = 69;
    /// The server answered with an error or not as expected.
    pub(crate) const SERVER: u8 = 70;
    /// The operating system refused something: a process, a signal.
    pub(crate) const SYSTEM: u8 = 71;
    /// The output or the terminal is gone.
    pub(crate) const OUTPUT: u8 = 74;
    /// The lock stayed busy.
    pub(crate) const BUSY: u8 = 75;
    /// The lease was lost while the command ran.
    pub(crate) const LOST: u8 = 76;
    /// The server refused the login or a command.
    pub(crate) const REFUSED: u8 = 77;
    /// This server or topology can't do it.
    pub(crate) const UNSUPPORTED: u8 = 78;
    /// The question was not answered with yes.
    pub(crate) const NOT_CONFIRMED: u8 = 79;
    /// The lease of a token is not held any more.
    pub(crate) const NOT_HELD: u8 = 80;
    /// The command exists, but can't be run.
    pub(crate) const NOT_EXECUTABLE: u8 = 126;
    /// There is no such command.
    pub(crate) const NOT_FOUND: u8 = 127;
    /// A signal ended the command: this and the signal's number.
    pub(crate) const SIGNALLED: u8 = 128;
}

/// A command that failed: what happened, to what, and what to do.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: u8,
    /// A stable word for programs. For the errors of the crate, it is their code.
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) remedy: String,
}

/// The result of a command.
pub(crate) type Outcome<T = u8> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(exit: u8, code: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { exit, code, message: message.into(), remedy: remedy.into() }
    }

    pub(crate) fn usage(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(exit::USAGE, "invalid-option", message, remedy)
    }

    pub(crate) fn system(what: &str, error: impl fmt::Display) -> Self {
        Self::new(exit::SYSTEM, "system", format!("{what}: {error}"), "")
    }

    pub(crate) fn output(error: &io::Error) -> Self {
        Self::new(exit::OUTPUT, "output", format!("can't write to standard output: {error}"), "")
    }

    /// The failure as an object for programs.
    pub(crate) fn json(&self) -> Value {
        json!({ "error": {
            "code": self.code, "exit": self.exit, "message": self.message,
            "remedy": Some(&self.remedy).filter(|text| !text.is_empty()),
        } })
    }

    fn text(&self) -> String {
        let remedy = if self.remedy.is_empty() { String::new() } else { format!("\n  {}", self.remedy) };
        format!("leasehold: {} [{}]{remedy}", self.message, self.code)
    }
}

/// What to do about a lock that another client holds.
pub(crate) fn busy(name: &str) -> String {
    format!("`leasehold inspect {}` shows who holds it; --wait sets how long to wait", quoted(name))
}

/// What to do about a key without a TTL that blocks a lock.
pub(crate) fn endless(name: &str) -> String {
    let name = quoted(name);
    format!(
        "the key never ends by itself: find its owner, or delete it with `leasehold force-release --foreign {name}`"
    )
}

/// A name to copy into a shell.
fn quoted(name: &str) -> String {
    const PLAIN: &str = "_@%+=:,./-";
    const LONGEST: usize = 200;
    if name.len() > LONGEST || name.chars().any(char::is_control) {
        return "NAME".to_owned();
    }
    let is_plain = name.chars().all(|letter| letter.is_ascii_alphanumeric() || PLAIN.contains(letter));
    if is_plain { name.to_owned() } else { format!("'{}'", name.replace('\'', r"'\''")) }
}

/// What a server says in its errors, and what to do about it.
const ANSWERS: [(&str, &str); 10] = [
    ("CLUSTERDOWN", CLUSTER_DOWN),
    ("the cluster has no slots yet", CLUSTER_DOWN),
    ("OOM ", "the server's memory is full: raise its `maxmemory`, or remove other data"),
    ("MISCONF ", "the server can't save its data, so it refuses writes: see its log, and whether its disk is full"),
    ("NOREPLICAS ", "fewer replicas than `min-replicas-to-write` are connected: see why, or lower that setting"),
    ("LOADING ", "the server is loading its data: try again when it is ready, or give a longer --wait"),
    (
        "BUSY ",
        "a script keeps the server busy: give a longer --wait, or end the script with `redis-cli SCRIPT KILL`, which works \
         until it writes",
    ),
    ("MASTERDOWN ", REPLICA),
    ("READONLY ", REPLICA),
    (NO_MORE_CLIENTS, "the server accepts no more connections: raise its `maxclients`, or close other connections"),
];
const REPLICA: &str = "the server is a replica: give the URL of its primary, or --sentinel, which follows the primary";
/// What to do about a proxy that says that it does not reach its server.
const PROXY: &str =
    "a proxy answers, but not the server behind it: check that this server runs and that the proxy reaches it";
const CLUSTER_DOWN: &str =
    "no server of the cluster has this lock's slot now: `redis-cli --cluster check HOST:PORT` says why";

/// What to do about a server that can't be reached with TLS.
const NO_TLS: &str = "check --url or REDIS_URL, and that the server runs and has TLS (redis:// has no TLS); --tls-ca says \
     which certificates to trust; `leasehold doctor` says more";

/// What to do about a token whose lease has ended.
const NOT_HELD: &str = "its --ttl was over, it was released, adopted or taken by force, or the token belongs to another name or \
     --prefix; if the work still has to be done, acquire the lock again";

/// The crate's messages name its API. The command line has these words for the same.
const WORDS: [(&str, &str); 10] = [
    ("`LockManager::cluster`", "--cluster"),
    ("`LockManager::sentinel`", "--sentinel"),
    ("connect with `LockManager::connect` to a single server", "leave --cluster out"),
    ("or connect with `LockManager::connect`", "or leave --sentinel out"),
    ("give the cluster, as `QuorumMember::cluster`", "give single servers"),
    ("the semaphore's limit", "the number of --of"),
    ("the lease is no longer held; acquire it again", "the lease of this token is no longer held"),
    ("`foreign` deletes it", "--foreign deletes it"),
    ("is longer than `max_hold`", "is longer than --max-hold"),
    ("set `password` too", "set REDIS_PASSWORD, or put the password into the URL"),
];

/// The crate's names of options. The command line has these for the same, and the options of a lock under their own names.
const OPTIONS: [(&str, &str); 11] = [
    ("cluster", "--url"),
    ("cluster_slots", "--cluster-slots"),
    ("limit", "--of"),
    ("name", "the name"),
    ("response_timeout", "--timeout"),
    ("sentinels", "--url"),
    ("servers", "--url"),
    ("service", "--sentinel"),
    ("url", "--url"),
    ("username", "--user"),
    ("value", "--value"),
];

/// Whether a proxy has said that it does not reach its server. A time that is over can also be the client's.
fn is_of_proxy(message: &str) -> bool {
    let words = UNREACHED.iter().chain(&BROKE).filter(|words| !words.ends_with('\n'));
    words.into_iter().any(|words| message.contains(words))
}

/// The error's message, in the words of the command line.
fn message(error: &Error) -> String {
    let text = match error {
        Error::InvalidOption { field, problem, .. } => {
            let option = OPTIONS.iter().find(|(name, _)| name == field).map(|(_, option)| (*option).to_owned());
            let is_of_lock = LOCK_SETTINGS.iter().any(|setting| setting.name == *field);
            let own = if is_of_lock { format!("--{}", field.replace('_', "-")) } else { (*field).to_owned() };
            format!("{} {problem}", option.unwrap_or(own))
        }
        _ => error.to_string(),
    };
    WORDS.iter().fold(text, |text, (api, words)| text.replace(api, words)).trim_end().to_owned()
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = message(&error);
        if let Error::Auth { problem, .. } = &error
            && let Some(command) = named_command(problem)
        {
            let remedy = format!("grant this user +{command}; `leasehold doctor` lists the missing rights");
            return Self::new(exit::REFUSED, error.code(), message, remedy);
        }
        let answered = ANSWERS.iter().find(|(answer, _)| message.contains(answer)).map(|(_, remedy)| *remedy);
        let is_unreachable = error.code() == "unreachable";
        if let Some(remedy) = answered.or_else(|| (is_unreachable && is_of_proxy(&message)).then_some(PROXY)) {
            let exit = if is_unreachable { exit::UNREACHABLE } else { exit::SERVER };
            return Self::new(exit, error.code(), message, remedy);
        }
        // The last arm is only for errors of a newer crate.
        #[deny(clippy::wildcard_enum_match_arm)]
        let (exit, remedy) = match &error {
            Error::InvalidOption { .. } | Error::CrossSlot { .. } => (exit::USAGE, ""),
            Error::Busy { name, .. } => {
                let is_endless = error.holder().is_some_and(|holder| holder.foreign);
                let remedy = if is_endless { endless(name) } else { busy(name) };
                return Self::new(exit::BUSY, error.code(), message, remedy);
            }
            Error::NotHeld { .. } => (exit::NOT_HELD, NOT_HELD),
            Error::Lost { .. } => {
                (exit::LOST, "check what the command wrote; the manual's page on incidents lists the causes")
            }
            Error::Unreachable { server: Some(url), .. } if url.starts_with("rediss://") => (exit::UNREACHABLE, NO_TLS),
            Error::Unreachable { .. } | Error::NotReplicated { .. } => {
                (exit::UNREACHABLE, "check --url or REDIS_URL, and that the server runs; `leasehold doctor` says more")
            }
            Error::Auth { problem, .. } if refused_by(problem).is_none() => (exit::REFUSED, LOGIN),
            Error::Auth { .. } => {
                (exit::REFUSED, "`leasehold doctor` lists the missing rights; SECURITY.md has the ACL rules")
            }
            Error::WrongKind { .. } => (
                exit::WRONG_KIND,
                "`leasehold inspect` shows the kind of a lock, and `redis-cli TYPE`, with the prefix before the name, \
                 the type of other data",
            ),
            Error::Unsupported { .. } => (exit::UNSUPPORTED, "--cluster, --sentinel and --quorum choose the topology"),
            Error::Server { problem, .. } if problem.contains(UNKNOWN_COMMAND) => (exit::SERVER, DISABLED),
            Error::Server { problem, .. } if problem.contains("DB index is out of range") => {
                (exit::SERVER, "choose another --db, or another number in the URL; most servers have 0 to 15")
            }
            Error::Server { .. } => (exit::SERVER, "`leasehold doctor` checks the server's settings"),
            Error::Conflict { .. } | Error::Closed | Error::Cancelled { .. } | Error::Protocol { .. } => {
                (exit::SERVER, "")
            }
            _ => (exit::SERVER, ""),
        };
        Self::new(exit, error.code(), message, remedy)
    }
}

/// How a command prints: for people, or as JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
}

impl Output {
    /// Prints one line on standard output: `value` with `--json`, else the text.
    pub(crate) fn print(self, value: impl FnOnce() -> Value, text: impl FnOnce() -> String) -> Outcome<()> {
        let line = if self.json { value().to_string() } else { text() };
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{line}").and_then(|()| stdout.flush()).map_err(|error| Failure::output(&error))
    }

    /// Fails if nobody can read standard output any more: the reader of the pipe has ended, or the terminal is gone. A
    /// command that prints nothing for a long time would not notice it.
    #[cfg(unix)]
    pub(crate) fn check_reader(self) -> Outcome<()> {
        use std::os::fd::AsFd as _;

        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

        let stdout = io::stdout();
        let mut polled = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
        let _ = poll(&mut polled, PollTimeout::ZERO);
        let gone = polled[0].revents().is_some_and(|events| events.intersects(PollFlags::POLLERR | PollFlags::POLLHUP));
        if gone { Err(Failure::output(&io::ErrorKind::BrokenPipe.into())) } else { Ok(()) }
    }

    /// Windows can't tell.
    #[cfg(not(unix))]
    pub(crate) fn check_reader(self) -> Outcome<()> {
        Ok(())
    }

    /// Prints one line on standard error. A terminal that is gone must not end a command under a lock, so this never fails.
    pub(crate) fn note(self, value: impl FnOnce() -> Value, text: impl FnOnce() -> String) {
        let line = if self.json { value().to_string() } else { format!("leasehold: {}", text()) };
        let _ = writeln!(io::stderr().lock(), "{line}");
    }

    /// Prints what failed, and returns the exit code.
    pub(crate) fn fail(self, failure: &Failure) -> ExitCode {
        let line = if self.json { failure.json().to_string() } else { failure.text() };
        let _ = writeln!(io::stderr().lock(), "{line}");
        ExitCode::from(failure.exit)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The code of a folder, without comments and tests.
    fn code_of(folder: &Path) -> String {
        let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        let mut code = String::new();
        for path in entries {
            if path.is_dir() {
                code += &code_of(&path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(path).expect("a file");
                let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
                let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
                code.extend(lines.flat_map(|line| [line.trim(), "\n"]));
            }
        }
        code
    }

    #[test]
    fn no_message_of_the_crate_names_its_api() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let code = code_of(&root.join("../native/src")) + &code_of(&root.join("../core/src"));
        let code = WORDS.iter().fold(code, |code, (api, words)| {
            assert!(code.contains(api), "no message has these words any more: {api}");
            code.replace(api, words)
        });
        for api in ["`LockManager::", "`Builder::", "`QuorumMember::"] {
            let line = code.lines().find(|line| line.contains(api) && line.contains('"'));
            assert_eq!(line, None, "the command line has no words for this");
        }
    }
}
