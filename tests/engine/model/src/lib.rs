//! A model of a Redis server: it runs the real scripts in real Lua over a model keyspace. The time is an argument. The
//! feature `lua54` uses Lua 5.4 instead of 5.1.
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

mod interpreter;
mod lockstep;
mod scripts;
mod text;

use std::cell::RefCell;
use std::rc::Rc;

use leasehold_core::Reply;
use leasehold_memory::{Message, Server, TimeError};

use crate::interpreter::Interpreter;
use crate::scripts::Scripts;
use crate::text::utf8;

/// What runs the scripts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// The real scripts, in real Lua.
    #[default]
    Lua,
    /// The functions of `leasehold-memory`, which are much faster.
    Rust,
    /// Both, each over its own keys.
    Both,
}

/// Whose scripts may run `TIME`. Without it, a script knows the time in whole milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeFor {
    /// Those of all users.
    #[default]
    All,
    /// Those of users with an even number.
    Some,
    /// Nobody's, as on some services.
    Nobody,
}

/// A server with its keys, its script cache and its Lua interpreter.
pub struct ModelServer {
    server: Rc<RefCell<Server>>,
    /// The server beside it, if both engines run.
    twin: Server,
    engine: Engine,
    interpreter: Interpreter,
    scripts: Scripts,
    time: TimeFor,
    /// Whose command is next.
    user: usize,
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
        let (twin, engine, scripts, time) = (Server::default(), Engine::Lua, Scripts::default(), TimeFor::All);
        Self { server, twin, engine, interpreter, scripts, time, user: 0 }
    }

    /// Resets the server: no keys, no loaded scripts, no refusals. Compiled scripts and the faults in them are kept.
    pub fn reset(&mut self) {
        *self.server.borrow_mut() = Server::default();
        self.twin = Server::default();
        self.scripts.flush();
        self.user = 0;
    }

    /// Chooses what runs the scripts from now on. Both can only be chosen for an empty server.
    pub fn run_scripts_in(&mut self, engine: Engine) {
        self.engine = engine;
    }

    /// Runs one command. `now_us` is the time of the server's wall clock, which may have been set back.
    ///
    /// # Panics
    /// If both engines run and don't do the same.
    pub fn execute(&mut self, now_us: u64, words: &[&[u8]]) -> Executed {
        self.interpreter.refuse_time(match self.time {
            TimeFor::All => false,
            TimeFor::Some => self.user % 2 == 1,
            TimeFor::Nobody => true,
        });
        let executed = self.execute_in(self.engine, now_us, words);
        if self.engine == Engine::Both {
            self.swap();
            let twin = self.execute_in(Engine::Rust, now_us, words);
            self.swap();
            lockstep::compare(words, (&executed, &self.server.borrow()), (&twin, &self.twin));
        }
        executed
    }

    fn swap(&mut self) {
        std::mem::swap(&mut *self.server.borrow_mut(), &mut self.twin);
    }

    /// Another library's script runs in Lua in any case.
    fn execute_in(&mut self, engine: Engine, now_us: u64, words: &[&[u8]]) -> Executed {
        // The functions get the time that the scripts would know.
        let now_us = if engine == Engine::Rust { self.time_in_scripts(now_us) } else { now_us };
        self.server.borrow_mut().step_clock(now_us);
        let in_lua = engine != Engine::Rust || is_foreign_script(words);
        let reply = match words.first().filter(|_| in_lua) {
            Some(_) if words.iter().any(|word| std::str::from_utf8(word).is_err()) => {
                Err("ERR the model takes words in UTF-8 only".to_owned())
            }
            Some(name) if name.eq_ignore_ascii_case(b"EVALSHA") => self.evaluate(words, true),
            Some(name) if name.eq_ignore_ascii_case(b"EVAL") => self.evaluate(words, false),
            _ => return self.server.borrow_mut().execute(now_us, words).map_or_else(refused, Executed::from),
        };
        let published = self.server.borrow_mut().take_published();
        Executed::from(leasehold_memory::Executed { reply, published })
    }

    /// What the next user's scripts take for the time. Without `TIME`, they know the millisecond, and take its last microsecond.
    pub fn time_in_scripts(&self, now_us: u64) -> u64 {
        if self.interpreter.refuses_time() { now_us / 1_000 * 1_000 + 999 } else { now_us }
    }

    /// The server, and the one beside it.
    fn each(&mut self, mut change: impl FnMut(&mut Server)) {
        change(&mut self.server.borrow_mut());
        change(&mut self.twin);
    }

    fn evaluate(&mut self, words: &[&[u8]], by_digest: bool) -> Result<Reply, String> {
        let [_, script, count, rest @ ..] = words else {
            return Err("ERR wrong number of arguments for 'eval' command".to_owned());
        };
        let count: usize = utf8(count).parse().map_err(|_| "ERR value is not an integer or out of range")?;
        let Some((keys, arguments)) = rest.split_at_checked(count) else {
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
        self.each(|server| server.flush_all());
    }

    /// Forgets the loaded scripts, like SCRIPT FLUSH.
    pub fn script_flush(&mut self) {
        self.scripts.flush();
        self.each(Server::script_flush);
    }

    /// Whether the server is at maxmemory and may evict nothing. Then it refuses commands that may need memory.
    pub fn set_out_of_memory(&mut self, on: bool) {
        self.each(|server| server.set_out_of_memory(on));
    }

    /// Whether the server refuses every PUBLISH, as for a user without a right to the channel.
    pub fn refuse_publish(&mut self, on: bool) {
        self.each(|server| server.refuse_publish(on));
    }

    /// Chooses whose scripts may run `TIME` from now on.
    pub fn allow_time(&mut self, time: TimeFor) {
        self.time = time;
    }

    /// Whose commands come next. At first, and after [`reset`](Self::reset), user 0's.
    pub fn set_user(&mut self, user: usize) {
        self.user = user;
    }

    /// Whether the server is a replica. Then it refuses writes.
    pub fn set_read_only(&mut self, on: bool) {
        self.each(|server| server.set_read_only(on));
    }

    /// Whether all keys are in a slot that is being moved away. Then a script is refused unless all its keys are still
    /// here, and it fails at the first command for a key that it has deleted itself.
    pub fn set_migrating(&mut self, on: bool) {
        self.each(|server| server.set_migrating(on));
    }

    /// Sets how many clients listen on a channel, for PUBSUB NUMSUB.
    pub fn set_listeners(&mut self, channel: &str, count: u64) {
        self.each(|server| server.set_listeners(channel.as_bytes(), count));
    }

    /// All keys that have not expired, sorted. With each comes the server time, in µs, at which its last millisecond begins.
    pub fn keys(&self, now_us: u64) -> Vec<(String, Option<u64>)> {
        let server = self.server.borrow();
        server.keys(now_us).map(|key| (utf8(key).to_owned(), server.expires(now_us, key))).collect()
    }

    /// The server time, in µs, at which a key's last millisecond begins. None if there is no such key or it never expires.
    pub fn expires(&self, now_us: u64, key: &str) -> Option<u64> {
        self.server.borrow().expires(now_us, key.as_bytes())
    }

    /// The greatest score in a sorted set. None if there is no such key or it has another type.
    pub fn greatest_score(&self, now_us: u64, key: &str) -> Option<f64> {
        self.server.borrow().members(now_us, key.as_bytes()).next_back().map(|(_, score)| score)
    }

    /// The value of a string. None if there is no such key or it has another type.
    pub fn get(&self, now_us: u64, key: &str) -> Option<String> {
        self.server.borrow().text(now_us, key.as_bytes()).map(|value| utf8(value).to_owned())
    }

    /// The members of a sorted set, in order. Empty if there is no such key or it has another type.
    pub fn zset(&self, now_us: u64, key: &str) -> Vec<(String, f64)> {
        let server = self.server.borrow();
        server.members(now_us, key.as_bytes()).map(|(member, score)| (utf8(member).to_owned(), score)).collect()
    }

    /// The fields of a hash, in the order in which they were set. Empty if there is no such key or it has another type.
    pub fn hash(&self, now_us: u64, key: &str) -> Vec<(String, String)> {
        let server = self.server.borrow();
        let fields = server.fields(now_us, key.as_bytes());
        fields.map(|(field, value)| (utf8(field).to_owned(), utf8(value).to_owned())).collect()
    }

    /// Puts a fault into a script. When a client runs the script, by its text or its digest, the server runs a copy in
    /// which every `find` is replaced by `put`. Faults add up.
    ///
    /// # Errors
    /// If there is no such script, if its text doesn't contain `find`, or if the new text doesn't compile.
    pub fn replace_script(&mut self, name: &str, find: &str, put: &str) -> Result<(), String> {
        let script = leasehold_lua::ALL.iter().find(|script| script.name == name);
        let script = script.ok_or_else(|| format!("there is no script {name}"))?;
        self.scripts.replace(&mut self.interpreter, script, find, put)
    }
}

impl From<leasehold_memory::Executed> for Executed {
    fn from(executed: leasehold_memory::Executed) -> Self {
        let text = |message: Message| (String::from_utf8_lossy(&message.channel).into_owned(), message.payload);
        Self { reply: executed.reply, published: executed.published.into_iter().map(text).collect() }
    }
}

fn is_foreign_script(words: &[&[u8]]) -> bool {
    let [name, text, ..] = words else { return false };
    let ours = |script: &leasehold_lua::Script| script.source.as_bytes() == *text;
    name.eq_ignore_ascii_case(b"EVAL") && !leasehold_lua::ALL.iter().any(ours)
}

fn refused(error: TimeError) -> Executed {
    Executed { reply: Err(format!("ERR {error}")), published: Vec::new() }
}
