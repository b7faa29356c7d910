//! The server as its user sees it: runs commands, and shows its keys.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use leasehold_core::Reply;

use crate::answer::{Outcome, Refusal};
use crate::commands::Command;
use crate::keys::Data;
use crate::state::{Message, Server};

/// The last time that a server can have, in µs: a year after 2250. Fences are numbers of at most 53 bits.
const LAST_TIME_US: u64 = 1 << 53;

/// What a command did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executed {
    /// The reply, or the server's error text, which begins with its code.
    pub reply: Result<Reply, String>,
    /// The messages that it published, in order.
    pub published: Vec<Message>,
}

/// A time that a server can't have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeError {
    /// A server's time never goes back by itself. [`Server::step_clock`] sets it back.
    MovedBack {
        /// The server's time, in µs.
        from_us: u64,
        /// The earlier one that it was given.
        to_us: u64,
    },
    /// The time is after the year 2255. A fence of that time would need more than 53 bits.
    TooLate {
        /// The time, in µs since 1970.
        now_us: u64,
    },
}

impl Server {
    /// Runs one command. `now_us` is the time of the server's wall clock, in µs since 1970.
    ///
    /// # Errors
    /// If the time is before that of the last command, or too late. The server is as it was then.
    pub fn execute(&mut self, now_us: u64, words: &[&[u8]]) -> Result<Executed, TimeError> {
        self.advance(now_us)?;
        let reply = self.call(words).map(Reply::from).map_err(|refusal| refusal.to_string());
        Ok(Executed { reply, published: self.take_published() })
    }

    /// Sets the clock.
    ///
    /// # Errors
    /// If the time is before the server's, or too late.
    pub const fn advance(&mut self, now_us: u64) -> Result<(), TimeError> {
        let from_us = self.keyspace.now_us();
        if now_us < from_us {
            return Err(TimeError::MovedBack { from_us, to_us: now_us });
        }
        if now_us > LAST_TIME_US {
            return Err(TimeError::TooLate { now_us });
        }
        self.keyspace.set_now_us(now_us);
        Ok(())
    }

    /// Runs one command of a client or of the script that runs, at the server's time. Its messages are added to those
    /// that [`take_published`](Self::take_published) returns.
    ///
    /// # Errors
    /// The error reply.
    pub fn call(&mut self, words: &[&[u8]]) -> Outcome {
        let Some((name, arguments)) = words.split_first() else { return Err(Refusal::new("ERR empty command")) };
        let command = Command::find(name).ok_or_else(|| Command::unknown(name, arguments))?;
        command.check(words)?;
        self.admit(command.access, command.keys(words))?;
        (command.run)(self, words)
    }

    /// The messages that were published since the last call, in order.
    pub fn take_published(&mut self) -> Vec<Message> {
        core::mem::take(&mut self.published)
    }

    /// An interpreter begins to run a script with these keys. Until [`end_script`](Self::end_script), commands follow
    /// the rules for scripts, and other keys than these are refused.
    ///
    /// # Errors
    /// The error reply, if the script may not run.
    pub fn begin_script(&mut self, keys: &[&[u8]]) -> Result<(), Refusal> {
        self.begin(keys)?;
        if let Some(script) = &mut self.script {
            script.declared = Some(keys.iter().map(|key| key.to_vec()).collect());
        }
        Ok(())
    }
}

/// The clients' subscriptions. The host carries the messages: this server only counts who listens.
impl Server {
    /// One more client listens on a channel.
    pub fn subscribe(&mut self, channel: &[u8]) {
        *self.listeners.entry(channel.to_vec()).or_default() += 1;
    }

    /// One client less listens on a channel.
    pub fn unsubscribe(&mut self, channel: &[u8]) {
        let left = self.listening(channel).saturating_sub(1);
        self.set_listeners(channel, left);
    }
}

/// What can happen to a server.
impl Server {
    /// Sets the server's wall clock to any time, also an earlier one, as an administrator or NTP may do.
    pub const fn step_clock(&mut self, now_us: u64) {
        self.keyspace.set_now_us(now_us);
    }

    /// Whether the server is at maxmemory and may evict nothing. Then it refuses commands that may need memory.
    pub const fn set_out_of_memory(&mut self, on: bool) {
        self.out_of_memory = on;
    }

    /// Whether the server refuses every PUBLISH, as for a user without a right to the channel.
    pub const fn refuse_publish(&mut self, on: bool) {
        self.refuses_publish = on;
    }

    /// Whether the server is a replica. Then it refuses writes.
    pub const fn set_read_only(&mut self, on: bool) {
        self.read_only = on;
    }

    /// Whether all keys are in a slot that is being moved away. Then a script is refused unless all its keys are still
    /// here, and it fails at the first command for a key that it has deleted itself.
    pub const fn set_migrating(&mut self, on: bool) {
        self.migrating = on;
    }
}

/// Looking at the keys without changing anything. `now_us` may be any time.
impl Server {
    /// The server time, in µs, at which a key's last millisecond begins. None if there is no such key or it never
    /// expires.
    pub fn expires(&self, now_us: u64, key: &[u8]) -> Option<u64> {
        let expires = self.keyspace.look(now_us, key)?.expires_ms?;
        Some(u64::try_from(expires).unwrap_or_default().saturating_mul(1000))
    }

    /// The value of a string. None if there is no such key or it has another type.
    pub fn text(&self, now_us: u64, key: &[u8]) -> Option<&[u8]> {
        match &self.keyspace.look(now_us, key)?.data {
            Data::Text(value) => Some(value),
            _ => None,
        }
    }

    /// The members of a sorted set with their scores, in order. Empty if there is no such key or it has another type.
    pub fn members(
        &self,
        now_us: u64,
        key: &[u8],
    ) -> impl ExactSizeIterator<Item = (&[u8], f64)> + DoubleEndedIterator {
        let members = match self.keyspace.look(now_us, key).map(|entry| &entry.data) {
            Some(Data::Sorted(set)) => set.members(),
            _ => &[],
        };
        members.iter().map(|(score, member)| (member.as_slice(), *score))
    }

    /// The fields of a hash, in the order in which they were set. Empty if there is no such key or it has another type.
    pub fn fields(&self, now_us: u64, key: &[u8]) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        let fields = match self.keyspace.look(now_us, key).map(|entry| &entry.data) {
            Some(Data::Hash(fields)) => fields.as_slice(),
            _ => &[],
        };
        fields.iter().map(|(field, value)| (field.as_slice(), value.as_slice()))
    }
}

impl core::fmt::Display for TimeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::MovedBack { from_us, to_us } => {
                write!(f, "the server's time is {from_us} us and can't go back to {to_us} us; only move it forward")
            }
            Self::TooLate { now_us } => {
                write!(f, "the time {now_us} us is after the year 2255; give the time in microseconds since 1970")
            }
        }
    }
}

impl core::error::Error for TimeError {}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_US: u64 = 1_800_000_000_000_000;

    #[test]
    fn time_never_goes_back_unless_the_clock_is_set_back() {
        let mut server = Server::default();
        assert!(server.execute(NOW_US, &[b"PING"]).is_ok());
        let refused = server.execute(NOW_US - 1, &[b"PING"]);
        assert_eq!(refused, Err(TimeError::MovedBack { from_us: NOW_US, to_us: NOW_US - 1 }));
        assert_eq!(server.now_us(), NOW_US);
        assert_eq!(server.advance(u64::MAX), Err(TimeError::TooLate { now_us: u64::MAX }));
        server.step_clock(NOW_US - 1);
        assert!(server.execute(NOW_US - 1, &[b"PING"]).is_ok());
    }

    #[test]
    fn a_script_of_another_library_is_refused_with_what_to_do() {
        let executed = Server::default().execute(NOW_US, &[b"EVAL", b"return 1", b"0"]);
        let reply = executed.map(|executed| executed.reply);
        assert!(matches!(&reply, Ok(Err(text)) if text.contains("run others on a real server")), "{reply:?}");
    }

    #[test]
    fn a_message_counts_those_who_listen() {
        let mut server = Server::default();
        server.subscribe(b"news");
        server.subscribe(b"news");
        server.unsubscribe(b"news");
        let executed = server.execute(NOW_US, &[b"PUBLISH", b"news", b"hello"]);
        let one = Ok(Reply::One(leasehold_core::Scalar::Int(1)));
        let message = Message { channel: b"news".to_vec(), payload: b"hello".to_vec() };
        assert_eq!(executed, Ok(Executed { reply: one, published: [message].into() }));
    }
}
