//! The commands that a server received, without random tokens and without times. Times differ between the surfaces:
//! while no `hold` runs, the component renews a lease only for its remaining time. The TTL of an acquire is the same on
//! every surface, so it stays.

use std::collections::BTreeMap;
use std::time::Duration;

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
        let mut masks = Masks::default();
        // Every scenario begins with an acquire.
        let mut acquire = None;
        let mut commands = Vec::new();
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
            let mut words: Vec<&str> = words.trim_end_matches('"').split("\" \"").collect();
            match words[0].to_ascii_uppercase().as_str() {
                "EVALSHA" | "SUBSCRIBE" | "UNSUBSCRIBE" => {}
                "EVAL" => words[1] = "(the script)",
                _ => continue,
            }
            let script = *acquire.get_or_insert_with(|| words[1].to_owned()) == words[1];
            let mut masked = |word| if script { masks.without_token(word) } else { masks.masked(word) };
            commands.push(words.iter().map(|word| masked(word)).collect::<Vec<_>>().join(" "));
        }
        commands
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
