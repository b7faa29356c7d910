//! The commands that a server received, without random tokens and without times. Times differ between the surfaces:
//! while no `hold` runs, the component renews a lease only for its remaining time. The TTL of an acquire is the same on
//! every surface, so it stays.
//!
//! A fast path that was left undone is left out, because its own script follows. Whether a client tries the fast path at
//! all depends on a race: it doesn't, if it has already heard that others wait.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_lua::{ALL, Script};
use leasehold_servers::{Connection, Server};

pub(crate) struct Monitor(Connection);

/// Numbers from here on are milliseconds. Fences and flags are smaller.
const TIMES: u64 = 1_000;

/// Marks the end of the recorded commands.
const END: &str = "that is all";

impl Monitor {
    pub(crate) fn start(server: &Server) -> Self {
        let mut connection = Connection::open(server.address(), Duration::from_secs(15)).unwrap();
        connection.call(&["MONITOR"]).unwrap();
        Self(connection)
    }

    /// The commands about locks since the start, in order. The commands with which a client library connects are left out.
    pub(crate) fn finish(mut self, server: &Server) -> Vec<String> {
        server.cli(&["ECHO", END]).unwrap();
        let mut record = Record::default();
        loop {
            let seen = self.0.receive().unwrap();
            let line = seen.text().unwrap_or_default();
            if line.contains(END) {
                break;
            }
            // `time [database address] "word" "word" ..`
            let Some((from, words)) = line.split_once("] \"") else { continue };
            if from.ends_with("lua") {
                continue;
            }
            record.add(words.trim_end_matches('"').split("\" \"").collect());
        }
        record.commands.into_iter().map(|command| command.text).collect()
    }
}

/// A command, and what it does for which token if it is one that has a fast path.
struct Command {
    text: String,
    task: Option<Task>,
}

/// What a command does for a token.
#[derive(Clone, PartialEq, Eq)]
struct Task {
    token: String,
    what: &'static str,
    common: bool,
}

#[derive(Default)]
struct Record {
    commands: Vec<Command>,
    masks: Masks,
    /// The script of the first command. Every scenario begins with an acquire.
    acquire: Option<String>,
    /// The script of the latest `EVALSHA`. If the server doesn't have it, the same as `EVAL` follows.
    script: Option<Script>,
}

impl Record {
    fn add(&mut self, mut words: Vec<&str>) {
        match words[0].to_ascii_uppercase().as_str() {
            "EVALSHA" => self.script = ALL.into_iter().find(|script| script.sha1 == words[1]),
            "EVAL" => words[1] = "(the script)",
            "SUBSCRIBE" | "UNSUBSCRIBE" => self.script = None,
            _ => return,
        }
        let task = self.script.and_then(|script| Task::of(&script, &words));
        if let Some(own) = task.as_ref().filter(|task| !task.common) {
            self.forget_undone(own);
        }
        let acquires = *self.acquire.get_or_insert_with(|| words[1].to_owned()) == words[1];
        let masks = &mut self.masks;
        let mut masked = |word| if acquires { masks.without_token(word) } else { masks.masked(word) };
        let text = words.iter().map(|word| masked(word)).collect::<Vec<_>>().join(" ");
        self.commands.push(Command { text, task });
    }

    /// Leaves out the fast path of this command, if that is the latest for the same token.
    fn forget_undone(&mut self, own: &Task) {
        let undone = Task { common: true, ..own.clone() };
        loop {
            let of_token = |command: &Command| command.task.as_ref().is_some_and(|task| task.token == own.token);
            let Some(latest) = self.commands.iter().rposition(of_token) else { return };
            if self.commands[latest].task.as_ref() != Some(&undone) {
                return;
            }
            self.commands.remove(latest);
        }
    }
}

impl Task {
    /// `words` are a command that runs the script.
    fn of(script: &Script, words: &[&str]) -> Option<Self> {
        let keys: usize = words[2].parse().ok()?;
        let arguments = &words[3 + keys..];
        let (common, what, token) = match (script.name, arguments) {
            ("acquire-fast", [value, ..]) => (true, "acquire", value),
            ("release-fast", [value]) => (true, "release", value),
            // With one entry. More are sent only for what begins at the same moment.
            ("batch", [_, "acquire" | "acquire-reentrant" | "share", token, _] | [_, "permit", token, _, _]) => {
                (true, "acquire", token)
            }
            ("batch", [_, "release" | "release-reentrant" | "unshare" | "unpermit", token]) => (true, "release", token),
            ("batch", [_, "renew" | "renew-share" | "renew-permit" | "renew-reentrant", token, _]) => {
                (true, "renew", token)
            }
            ("acquire" | "semaphore-acquire", [token, ..]) => (false, "acquire", token),
            ("release" | "semaphore-release", [token, ..]) => (false, "release", token),
            ("renew" | "semaphore-renew", [token, ..]) => (false, "renew", token),
            _ => return None,
        };
        let token = token.split(' ').next().unwrap_or_default().to_owned();
        Some(Self { token, what, common })
    }
}

/// Numbers tokens in the order in which they appear.
#[derive(Default)]
struct Masks(BTreeMap<String, usize>);

impl Masks {
    fn masked(&mut self, word: &str) -> String {
        if word.parse().is_ok_and(|number: u64| number >= TIMES) {
            return "time".to_owned();
        }
        self.without_token(word)
    }

    fn without_token(&mut self, word: &str) -> String {
        // The value of a lock is a token, a space and a fence.
        let (token, value) = word.split_once(' ').map_or((word, ""), |(token, _)| (token, " value"));
        if !is_token(token) {
            return word.to_owned();
        }
        let next = self.0.len();
        format!("token-{}{value}", self.0.entry(token.to_owned()).or_insert(next))
    }
}

/// `<uuid>:<number>`
fn is_token(word: &str) -> bool {
    let Some((uuid, number)) = word.split_once(':') else { return false };
    let dashes = uuid.bytes().filter(|byte| *byte == b'-').count();
    uuid.len() == 36 && dashes == 4 && number.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use leasehold_lua::{ACQUIRE_FAST, BATCH, RELEASE, RELEASE_FAST, RENEW};

    use super::{Record, Script};

    const ONE: &str = "8743c9c0-0795-4907-87fd-6c719a6b4586:1";
    const TWO: &str = "8743c9c0-0795-4907-87fd-6c719a6b4586:2";

    fn recorded(commands: &[(&str, Script, &[&str])]) -> Vec<String> {
        let mut record = Record::default();
        for (way, script, arguments) in commands {
            record.add([&[*way, script.sha1, "0"], *arguments].concat());
        }
        record.commands.into_iter().map(|command| command.text).collect()
    }

    fn acquire() -> (&'static str, Script, &'static [&'static str]) {
        ("EVALSHA", ACQUIRE_FAST, &["8743c9c0-0795-4907-87fd-6c719a6b4586:1 ", "30000"])
    }

    #[test]
    fn a_release_counts_once_whether_or_not_its_fast_path_was_tried() {
        let slow = ("EVALSHA", RELEASE, &[ONE, "0", "0", "native"][..]);
        let value = format!("{ONE} 5");
        let alone = recorded(&[acquire(), slow]);
        assert_eq!(alone.len(), 2);
        for fast in [(RELEASE_FAST, &[&*value][..]), (BATCH, &["0", "unshare", ONE]), (BATCH, &["0", "unpermit", ONE])]
        {
            let (script, arguments) = fast;
            assert_eq!(recorded(&[acquire(), ("EVALSHA", script, arguments), slow]), alone);
            let loaded = [acquire(), ("EVALSHA", script, arguments), ("EVAL", script, arguments), slow];
            assert_eq!(recorded(&loaded), alone);
        }
    }

    #[test]
    fn a_fast_path_stays_if_another_command_or_another_token_follows() {
        let renewal = ("EVALSHA", RENEW, &[ONE, "0"][..]);
        assert_eq!(recorded(&[acquire(), renewal]).len(), 2);
        let slow = ("EVALSHA", RELEASE, &[TWO, "0", "0", "native"][..]);
        assert_eq!(recorded(&[acquire(), ("EVALSHA", BATCH, &["0", "unshare", ONE]), slow]).len(), 3);
        assert_eq!(recorded(&[acquire(), ("EVALSHA", BATCH, &["0", "unshare", ONE])]).len(), 2);
        let slow = ("EVALSHA", RELEASE, &[ONE, "0", "0", "native"][..]);
        let between = ("EVALSHA", RENEW, &[ONE, "0"][..]);
        assert_eq!(recorded(&[acquire(), ("EVALSHA", BATCH, &["0", "unshare", ONE]), between, slow]).len(), 4);
    }
}
