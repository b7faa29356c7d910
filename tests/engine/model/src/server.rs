//! The server without Lua: its keys, messages and refusals.

use std::collections::HashMap;

use crate::answer::{Answer, Outcome, Refusal};
use crate::commands::Command;
use crate::keyspace::Keyspace;

#[derive(Default)]
pub(crate) struct Server {
    pub(crate) keyspace: Keyspace,
    /// The messages that the current command has published.
    pub(crate) published: Vec<(String, Vec<u8>)>,
    pub(crate) out_of_memory: bool,
    pub(crate) refuse_publish: bool,
    /// The server is a replica and refuses writes.
    pub(crate) read_only: bool,
    /// The slot of all keys is being moved to another server.
    pub(crate) migrating: bool,
    /// How many clients listen on each channel.
    pub(crate) listeners: HashMap<String, u64>,
    script: Option<RunningScript>,
}

struct RunningScript {
    /// The declared keys in one buffer, and where each of them ends.
    keys: Vec<u8>,
    ends: Vec<usize>,
    wrote: bool,
    /// The script runs while its slot is being moved, because all its keys are still here.
    migrating: bool,
}

impl RunningScript {
    fn declares(&self, key: &[u8]) -> bool {
        let mut start = 0;
        self.ends.iter().any(|end| self.keys[std::mem::replace(&mut start, *end)..*end] == *key)
    }
}

impl Server {
    /// Behaves like a cluster whose slot is being moved: all keys of a script must be in one place. A single key may be anywhere.
    pub(crate) fn begin_script(&mut self, keys: &[&[u8]]) -> Result<(), Refusal> {
        let migrating = self.migrating && keys.iter().all(|key| self.keyspace.entry(key).is_some());
        if self.migrating && !migrating && keys.len() > 1 {
            return Err(Refusal::TRY_AGAIN);
        }
        let mut end = 0;
        let ends = keys.iter().map(|key| {
            end += key.len();
            end
        });
        let ends = ends.collect();
        self.script = Some(RunningScript { keys: keys.concat(), ends, wrote: false, migrating });
        Ok(())
    }

    pub(crate) fn end_script(&mut self) {
        self.script = None;
    }

    /// Runs one command of a client or of the current script.
    pub(crate) fn run(&mut self, words: &[&[u8]]) -> Outcome {
        let Some(name) = words.first() else { return Err(Refusal::new("ERR empty command")) };
        if name.eq_ignore_ascii_case(b"PUBLISH") {
            return self.publish(words);
        }
        if name.eq_ignore_ascii_case(b"PUBSUB") {
            return self.count_listeners(words);
        }
        let Some(command) = Command::find(name) else {
            return Err(Refusal(format!("ERR unknown command '{}'", String::from_utf8_lossy(name)).into()));
        };
        if self.read_only && command.writes {
            return Err(Refusal::READ_ONLY);
        }
        let mut wrote = false;
        if let Some(script) = &mut self.script {
            if command.keys(words).iter().any(|key| !script.declares(key)) {
                return Err(Refusal::new("ERR Script attempted to access a key that is not declared in KEYS"));
            }
            // Each command of a script is checked like a client's, so a key that the script has deleted counts as moved.
            if script.migrating && !command.keys(words).iter().all(|key| self.keyspace.entry(key).is_some()) {
                return Err(Refusal::NON_LOCAL);
            }
            wrote = script.wrote;
            script.wrote |= command.writes && !(self.out_of_memory && command.grows);
        }
        // A script that has already written is not stopped.
        if self.out_of_memory && command.grows && !wrote {
            return Err(Refusal::OUT_OF_MEMORY);
        }
        command.run(&mut self.keyspace, words)
    }

    fn count_listeners(&self, words: &[&[u8]]) -> Outcome {
        let [_, sub, channel] = words else { return Err(Refusal::new("ERR wrong number of arguments")) };
        if !sub.eq_ignore_ascii_case(b"NUMSUB") {
            return Err(Refusal::new("ERR the model knows PUBSUB NUMSUB only"));
        }
        let count = self.listeners.get(&*String::from_utf8_lossy(channel)).copied().unwrap_or_default();
        Ok(Answer::List(vec![channel.to_vec(), count.to_string().into_bytes()]))
    }

    fn publish(&mut self, words: &[&[u8]]) -> Outcome {
        let [_, channel, payload] = words else {
            return Err(Refusal::new("ERR wrong number of arguments for 'publish' command"));
        };
        if self.refuse_publish {
            return Err(Refusal::new("NOPERM this user has no permissions to access one of the channels used"));
        }
        self.published.push((String::from_utf8_lossy(channel).into_owned(), payload.to_vec()));
        Ok(Answer::Int(0))
    }
}
