//! A model of one Redis server: the real scripts, in real Lua 5.1, over a model keyspace on a clock that is an argument.
//!
//! It knows the commands that leasehold's scripts and simple foreign clients use, and nothing else. It is stricter than a
//! server where hosts differ: a script that touches a key it did not declare, or an option that Redis 6.2 does not
//! know, is an error. A differential test holds it against a real server.
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

/// One server: its keys, its script cache, its Lua.
pub struct ModelServer {
    server: Rc<RefCell<Server>>,
    interpreter: Interpreter,
    scripts: Scripts,
}

/// What one command did.
#[derive(Clone, Debug, PartialEq)]
pub struct Executed {
    /// The answer, or the error's text as a server gives it, code word first.
    pub reply: Result<Reply, String>,
    /// The channel and payload of every message it published, in order.
    pub published: Vec<(String, Vec<u8>)>,
}

impl Default for ModelServer {
    fn default() -> Self {
        Self::new()
    }
}

impl ModelServer {
    /// An empty server that knows no script. It costs about a hundred microseconds; [`reset`](Self::reset) costs less.
    ///
    /// # Panics
    /// If Lua can't be started.
    pub fn new() -> Self {
        let server = Rc::new(RefCell::new(Server::default()));
        let interpreter = Interpreter::new(Rc::clone(&server)).expect("Lua starts");
        Self { server, interpreter, scripts: Scripts::default() }
    }

    /// Makes it as new: no keys, no loaded scripts, no faults. Only compiled texts are kept.
    pub fn reset(&mut self) {
        *self.server.borrow_mut() = Server::default();
        self.scripts.reset();
    }

    /// Runs one command while the server's wall clock shows `now_us`.
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

    /// Loses every key, as FLUSHALL does; loaded scripts stay.
    pub fn flush_all(&mut self) {
        self.server.borrow_mut().keyspace.clear();
    }

    /// Forgets the loaded scripts, as SCRIPT FLUSH does.
    pub fn script_flush(&mut self) {
        self.scripts.flush();
    }

    /// From now on the server is at maxmemory and may evict nothing: it refuses commands that may need memory.
    pub fn set_out_of_memory(&mut self, on: bool) {
        self.server.borrow_mut().out_of_memory = on;
    }

    /// From now on every PUBLISH is refused, as for a user without the channel.
    pub fn refuse_publish(&mut self, on: bool) {
        self.server.borrow_mut().refuse_publish = on;
    }

    /// From now on it is a replica: it reads, and refuses to write.
    pub fn set_read_only(&mut self, on: bool) {
        self.server.borrow_mut().read_only = on;
    }

    /// From now on all keys are in a slot that moves away: a script is refused unless all of its keys are still here, and fails at
    /// the first command for a key that it has deleted itself.
    pub fn set_migrating(&mut self, on: bool) {
        self.server.borrow_mut().migrating = on;
    }

    /// So many listen on a channel from now on, for PUBSUB NUMSUB.
    pub fn set_listeners(&mut self, channel: &str, count: u64) {
        self.server.borrow_mut().listeners.insert(channel.to_owned(), count);
    }

    /// Every key that lives, sorted, and the server's time in µs at which its last millisecond begins.
    pub fn keys(&self, now_us: u64) -> Vec<(String, Option<u64>)> {
        let server = self.server.borrow();
        let live = server.keyspace.live(now_us);
        live.into_iter()
            .map(|(key, entry)| (utf8(key).to_owned(), entry.expires_ms.map(|expires| expires * 1000)))
            .collect()
    }

    /// The server's time in µs at which a key's last millisecond begins; None if there is none or it never ends.
    pub fn expires(&self, now_us: u64, key: &str) -> Option<u64> {
        self.server.borrow().keyspace.expires_ms(now_us, key).map(|expires| expires * 1000)
    }

    /// The greatest score in a sorted set; None if there is none or it is of another type.
    pub fn greatest_score(&self, now_us: u64, key: &str) -> Option<f64> {
        match self.server.borrow().keyspace.look(now_us, key) {
            Some(Data::Sorted(set)) => set.members().last().map(|(score, _)| *score),
            _ => None,
        }
    }

    /// A string's value; None if there is none or it is of another type.
    pub fn get(&self, now_us: u64, key: &str) -> Option<String> {
        match self.server.borrow().keyspace.look(now_us, key) {
            Some(Data::Text(value)) => Some(utf8(value).to_owned()),
            _ => None,
        }
    }

    /// A sorted set's members in order; empty if there is none or it is of another type.
    pub fn zset(&self, now_us: u64, key: &str) -> Vec<(String, f64)> {
        match self.server.borrow().keyspace.look(now_us, key) {
            Some(Data::Sorted(set)) => {
                set.members().iter().map(|(score, member)| (utf8(member).to_owned(), *score)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// A hash's fields in the order they were set; empty if there is none or it is of another type.
    pub fn hash(&self, now_us: u64, key: &str) -> Vec<(String, String)> {
        match self.server.borrow().keyspace.look(now_us, key) {
            Some(Data::Hash(fields)) => {
                fields.iter().map(|(field, value)| (utf8(field).to_owned(), utf8(value).to_owned())).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Puts a fault into a script: from now on the server runs the text with every `find` replaced by `put` for
    /// that script's digest. Faults add up, until [`reset`](Self::reset).
    ///
    /// # Errors
    /// If there is no such script, its text does not contain `find`, or the new text does not compile.
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

/// Everything in the model is UTF-8: `execute` refuses other words.
fn utf8(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}
