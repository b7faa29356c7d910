//! What commands and scripts work on: the server's keys, its messages, and its rules for them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::answer::Refusal;
use crate::keys::Keyspace;

/// A server with its keys, its loaded scripts and its clock.
#[derive(Clone, Debug, Default)]
pub struct Server {
    pub(crate) keyspace: Keyspace,
    pub(crate) loaded: Loaded,
    pub(crate) published: Vec<Message>,
    /// How many clients listen on each channel.
    pub(crate) listeners: BTreeMap<Vec<u8>, u64>,
    pub(crate) out_of_memory: bool,
    pub(crate) refuses_publish: bool,
    pub(crate) read_only: bool,
    pub(crate) migrating: bool,
    pub(crate) script: Option<RunningScript>,
}

/// A message that a command published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The channel.
    pub channel: Vec<u8>,
    /// The text.
    pub payload: Vec<u8>,
}

/// Which scripts EVALSHA can run, by their places in the list of functions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Loaded([bool; leasehold_lua::ALL.len()]);

impl Loaded {
    pub(crate) fn has(self, place: usize) -> bool {
        self.0.get(place).copied().unwrap_or_default()
    }

    pub(crate) fn add(&mut self, place: usize) {
        if let Some(loaded) = self.0.get_mut(place) {
            *loaded = true;
        }
    }
}

/// What a command does to keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    /// It writes, and needs no memory.
    Delete,
    /// It may need memory, so it is refused at maxmemory.
    Write,
}

/// A script that runs.
#[derive(Clone, Debug)]
pub(crate) struct RunningScript {
    /// The keys that an interpreted script declared. The scripts of this crate have no others.
    pub(crate) declared: Option<Vec<Vec<u8>>>,
    /// It has written, so it is no longer stopped at maxmemory.
    wrote: bool,
    /// It runs while its slot is being moved, because all its keys are still here.
    migrating: bool,
}

impl Server {
    /// The server's time, in µs since 1970.
    pub const fn now_us(&self) -> u64 {
        self.keyspace.now_us()
    }

    /// All keys that have not expired, sorted.
    pub fn keys(&self, now_us: u64) -> impl Iterator<Item = &[u8]> {
        self.keyspace.live(now_us).into_iter().map(|(key, _)| key)
    }

    /// Deletes all keys, like FLUSHALL. Loaded scripts stay.
    pub fn flush_all(&mut self) {
        self.keyspace.clear();
    }

    /// Forgets the loaded scripts, like SCRIPT FLUSH.
    pub fn script_flush(&mut self) {
        self.loaded = Loaded::default();
    }

    /// Sets how many clients listen on a channel.
    pub fn set_listeners(&mut self, channel: &[u8], count: u64) {
        match count {
            0 => self.listeners.remove(channel),
            count => self.listeners.insert(channel.to_vec(), count),
        };
    }

    /// The script has ended.
    pub fn end_script(&mut self) {
        self.script = None;
    }

    /// Behaves like a cluster whose slot is being moved: all keys of a script must be in one place. A single key may be
    /// anywhere.
    pub(crate) fn begin(&mut self, keys: &[&[u8]]) -> Result<(), Refusal> {
        let migrating = self.migrating && self.has_all(keys);
        if self.migrating && !migrating && keys.len() > 1 {
            return Err(Refusal::TRY_AGAIN);
        }
        self.script = Some(RunningScript { declared: None, wrote: false, migrating });
        Ok(())
    }

    /// Whether a command may run: the server's rules, and those for a script's commands.
    pub(crate) fn admit(&mut self, access: Access, keys: &[&[u8]]) -> Result<(), Refusal> {
        if self.read_only && access != Access::Read {
            return Err(Refusal::READ_ONLY);
        }
        let refused = self.out_of_memory && access == Access::Write;
        let Some(script) = &mut self.script else {
            return if refused { Err(Refusal::OUT_OF_MEMORY) } else { Ok(()) };
        };
        if let Some(declared) = &script.declared
            && keys.iter().any(|key| !declared.iter().any(|known| known == key))
        {
            return Err(Refusal::new("ERR Script attempted to access a key that is not declared in KEYS"));
        }
        let refused = refused && !script.wrote;
        // Each command of a script is checked like a client's, so a key that the script has deleted counts as moved.
        if script.migrating && !self.has_all(keys) {
            return Err(Refusal::NON_LOCAL);
        }
        if refused {
            return Err(Refusal::OUT_OF_MEMORY);
        }
        if let Some(script) = &mut self.script {
            script.wrote |= access != Access::Read;
        }
        Ok(())
    }

    fn has_all(&mut self, keys: &[&[u8]]) -> bool {
        keys.iter().all(|key| self.keyspace.entry(key).is_some())
    }

    /// How many clients get the message.
    pub(crate) fn publish(&mut self, channel: &[u8], payload: &[u8]) -> Result<u64, Refusal> {
        if self.refuses_publish {
            return Err(Refusal::new("NOPERM this user has no permissions to access one of the channels used"));
        }
        self.published.push(Message { channel: channel.to_vec(), payload: payload.to_vec() });
        Ok(self.listening(channel))
    }

    pub(crate) fn listening(&self, channel: &[u8]) -> u64 {
        self.listeners.get(channel).copied().unwrap_or_default()
    }
}
