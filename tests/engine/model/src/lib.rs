//! A model of a Redis server: it runs the real scripts in real Lua 5.1 over a model keyspace. The time is an argument.
//!
//! It knows only the commands that leasehold's scripts and simple foreign clients use. It is stricter than a real
//! server: a script must not touch a key that it did not declare, nor use an option that Redis 6.2 doesn't have. A
//! differential test compares it with a real server.
//!
//! ```
//! use leasehold_core::{Reply, Scalar};
//!
//! let mut server = leasehold_model::ModelServer::new();
//! let executed = server.execute(1_000_000, &[b"SET", b"greeting", b"hello", b"PX", b"50"]);
//! assert_eq!(executed.reply, Ok(Reply::One(Scalar::Text(b"OK".to_vec()))));
//! assert_eq!(server.get(1_049_999, "greeting").as_deref(), Some("hello"));
//! assert_eq!(server.get(1_051_000, "greeting"), None);
//! ```

mod answer;
mod commands;
mod generic;
mod hashes;
mod interpreter;
mod keyspace;
mod number;
mod scripts;
mod server;
mod sorted_set;
mod sorted_sets;
mod strings;

use std::cell::RefCell;
use std::rc::Rc;

use leasehold_core::{Reply, Scalar};

use crate::answer::Answer;
use crate::interpreter::Interpreter;
use crate::keyspace::Data;
use crate::scripts::Scripts;
use crate::server::Server;

/// A server with its keys, its script cache and its Lua interpreter.
pub struct ModelServer {
    server: Rc<RefCell<Server>>,
    interpreter: Interpreter,
    scripts: Scripts,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct Executed {
    /// The reply, or the server's error text, beginning with its code.
    pub reply: Result<Reply, String>,
    /// The channel and payload of every published message, in order.
    pub published: Vec<(String, Vec<u8>)>,
}

impl Default for ModelServer {
    fn default() -> Self {
        Self::new()
    }
}

impl ModelServer {
    /// An empty server without scripts. Creating it takes about 100 microseconds; [`reset`](Self::reset) takes less.
    ///
    /// # Panics
    /// If Lua can't be started.
    pub fn new() -> Self {
        let server = Rc::new(RefCell::new(Server::default()));
        let interpreter = Interpreter::new(Rc::clone(&server)).expect("Lua starts");
        Self { server, interpreter, scripts: Scripts::default() }
    }

    /// Resets the server: no keys, no loaded scripts, no faults. Compiled scripts are kept for reuse.
    pub fn reset(&mut self) {
        *self.server.borrow_mut() = Server::default();
        self.scripts.reset();
    }

    /// Runs one command. `now_us` is the time of the server's wall clock.
    pub fn execute(&mut self, now_us: u64, words: &[&[u8]]) -> Executed {
        self.server.borrow_mut().keyspace.now_us = now_us;
        let reply = match words.first() {
            _ if words.iter().any(|word| std::str::from_utf8(word).is_err()) => {
                Err("ERR the model takes words in UTF-8 only".to_owned())
            }
            Some(name) if name.eq_ignore_ascii_case(b"EVALSHA") => self.evaluate(words, true),
            Some(name) if name.eq_ignore_ascii_case(b"EVAL") => self.evaluate(words, false),
            _ => self.server.borrow_mut().run(words).map(flat).map_err(|refusal| refusal.to_string()),
        };
        Executed { reply, published: std::mem::take(&mut self.server.borrow_mut().published) }
    }

    fn evaluate(&mut self, words: &[&[u8]], by_digest: bool) -> Result<Reply, String> {
        let [_, script, count, rest @ ..] = words else {
            return Err("ERR wrong number of arguments for 'eval' command".to_owned());
        };
        let count = number::integer(count).map_err(|refusal| refusal.to_string())?;
        let Some((keys, arguments)) = usize::try_from(count).ok().and_then(|count| rest.split_at_checked(count)) else {
            return Err("ERR Number of keys can't be greater than number of args".to_owned());
        };
        let function = match by_digest {
            true => self.scripts.loaded(script)?,
            false => self.scripts.load(&mut self.interpreter, utf8(script))?,
        };
        self.interpreter.run(function, keys, arguments)
    }

    /// Deletes all keys, like FLUSHALL. Loaded scripts stay.
    pub fn flush_all(&mut self) {
        self.server.borrow_mut().keyspace.clear();
    }

    /// Forgets the loaded scripts, like SCRIPT FLUSH.
    pub fn script_flush(&mut self) {
        self.scripts.flush();
    }

    /// Whether the server is at maxmemory and may evict nothing. Then it refuses commands that may need memory.
    pub fn set_out_of_memory(&mut self, on: bool) {
        self.server.borrow_mut().out_of_memory = on;
    }

    /// Whether the server refuses every PUBLISH, as for a user without a right to the channel.
    pub fn refuse_publish(&mut self, on: bool) {
        self.server.borrow_mut().refuse_publish = on;
    }

    /// Whether the server is a replica. Then it refuses writes.
    pub fn set_read_only(&mut self, on: bool) {
        self.server.borrow_mut().read_only = on;
    }

    /// Whether all keys are in a slot that is being moved away. Then a script is refused unless all its keys are still
    /// here, and it fails at the first command for a key that it has deleted itself.
    pub fn set_migrating(&mut self, on: bool) {
        self.server.borrow_mut().migrating = on;
    }

    /// Sets how many clients listen on a channel, for PUBSUB NUMSUB.
    pub fn set_listeners(&mut self, channel: &str, count: u64) {
        self.server.borrow_mut().listeners.insert(channel.to_owned(), count);
    }

    /// All keys that have not expired, sorted. With each comes the server time, in µs, at which its last millisecond begins.
    pub fn keys(&self, now_us: u64) -> Vec<(String, Option<u64>)> {
        let server = self.server.borrow();
        let live = server.keyspace.live(now_us);
        live.into_iter()
            .map(|(key, entry)| (utf8(key).to_owned(), entry.expires_ms.map(|expires| expires * 1000)))
            .collect()
    }

    /// The server time, in µs, at which a key's last millisecond begins. None if there is no such key or it never expires.
    pub fn expires(&self, now_us: u64, key: &str) -> Option<u64> {
        self.server.borrow().keyspace.expires_ms(now_us, key).map(|expires| expires * 1000)
    }

    /// The greatest score in a sorted set. None if there is no such key or it has another type.
    pub fn greatest_score(&self, now_us: u64, key: &str) -> Option<f64> {
        match self.server.borrow().keyspace.look(now_us, key) {
            Some(Data::Sorted(set)) => set.members().last().map(|(score, _)| *score),
            _ => None,
        }
    }

    /// The value of a string. None if there is no such key or it has another type.
    pub fn get(&self, now_us: u64, key: &str) -> Option<String> {
        match self.server.borrow().keyspace.look(now_us, key) {
            Some(Data::Text(value)) => Some(utf8(value).to_owned()),
            _ => None,
        }
    }

    /// The members of a sorted set, in order. Empty if there is no such key or it has another type.
    pub fn zset(&self, now_us: u64, key: &str) -> Vec<(String, f64)> {
        match self.server.borrow().keyspace.look(now_us, key) {
            Some(Data::Sorted(set)) => {
                set.members().iter().map(|(score, member)| (utf8(member).to_owned(), *score)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The fields of a hash, in the order in which they were set. Empty if there is no such key or it has another type.
    pub fn hash(&self, now_us: u64, key: &str) -> Vec<(String, String)> {
        match self.server.borrow().keyspace.look(now_us, key) {
            Some(Data::Hash(fields)) => {
                fields.iter().map(|(field, value)| (utf8(field).to_owned(), utf8(value).to_owned())).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Puts a fault into a script. When a client runs the script, by its text or its digest, the server runs a copy in
    /// which every `find` is replaced by `put`. Faults add up until [`reset`](Self::reset).
    ///
    /// # Errors
    /// If there is no such script, if its text doesn't contain `find`, or if the new text doesn't compile.
    pub fn replace_script(&mut self, name: &str, find: &str, put: &str) -> Result<(), String> {
        let script = leasehold_lua::ALL.iter().find(|script| script.name == name);
        let script = script.ok_or_else(|| format!("there is no script {name}"))?;
        self.scripts.replace(&mut self.interpreter, script, find, put)
    }
}

fn flat(answer: Answer) -> Reply {
    Reply::One(match answer {
        Answer::Nil => Scalar::Nil,
        Answer::Int(number) => Scalar::Int(number),
        Answer::Text(text) => Scalar::Text(text),
        Answer::Status(text) => Scalar::Text(text.into()),
        Answer::List(items) => return Reply::List(items.into_iter().map(Scalar::Text).collect()),
    })
}

/// A text. Everything in the model is UTF-8, because `execute` refuses other words.
fn utf8(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}
