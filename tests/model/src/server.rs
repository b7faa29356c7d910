//! What a server is besides Lua: keys, messages, and its refusals.

use std::collections::HashMap;

use crate::answer::{Answer, Outcome, Refusal};
use crate::commands::Command;
use crate::keyspace::Keyspace;

#[derive(Default)]
pub(crate) struct Server {
    pub(crate) keyspace: Keyspace,
    /// Messages of the command that runs.
    pub(crate) published: Vec<(String, Vec<u8>)>,
    pub(crate) out_of_memory: bool,
    pub(crate) refuse_publish: bool,
    /// It follows another server, and takes no writes.
    pub(crate) read_only: bool,
    /// The slot of all keys moves away from here.
    pub(crate) migrating: bool,
    /// How many listen on a channel, where anybody does.
    pub(crate) listeners: HashMap<String, u64>,
    script: Option<RunningScript>,
}

struct RunningScript {
    /// The declared keys, one after the other in one buffer, and where each ends.
    keys: Vec<u8>,
    ends: Vec<usize>,
    wrote: bool,
    /// It runs where its keys still are, while their slot moves away.
    migrating: bool,
}

impl RunningScript {
    fn declares(&self, key: &[u8]) -> bool {
        let mut start = 0;
        self.ends.iter().any(|end| self.keys[std::mem::replace(&mut start, *end)..*end] == *key)
    }
}

impl Server {
    /// As a cluster does while a slot moves: all keys of a script must be in one place. One key alone goes where it is.
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

    /// One command of a client, or of the script that runs.
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
            // Each of a script's commands is asked the same as a client's, so a key that the script has deleted counts as moved.
            if script.migrating && !command.keys(words).iter().all(|key| self.keyspace.entry(key).is_some()) {
                return Err(Refusal::NON_LOCAL);
            }
            wrote = script.wrote;
            script.wrote |= command.writes && !(self.out_of_memory && command.grows);
        }
        // A script that has written is not stopped in the middle.
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
