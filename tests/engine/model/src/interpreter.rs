//! Lua with the part of Redis's `redis` library that the scripts use.
//!
//! Lua 5.1 has one type of number. Lua 5.4 has integers and floats, and Dragonfly gives scripts the scores of sorted
//! sets as floats, and sends a float in a reply as a string. So in the build with Lua 5.4, scores are floats, and a
//! reply with a float is an error.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use leasehold_core::{Reply, Scalar};
use mlua::state::{GcIncParams, GcMode};
use mlua::{BString, Either, Function, Lua, StdLib, Table, Value, Variadic};
use rustc_hash::FxHashMap;

use crate::text::utf8;
use leasehold_memory::{Answer, Refusal, Server};

/// Compiles each script once and runs it against one server.
pub(crate) struct Interpreter {
    lua: Lua,
    globals: Table,
    server: Rc<RefCell<Server>>,
    compiled: HashMap<String, Function>,
    /// The `KEYS` tables, by their keys with lengths. They can be reused, because scripts don't write to them and locks are few.
    key_tables: FxHashMap<Vec<u8>, Table>,
    /// Whether scripts may not run `TIME`.
    refuses_time: Rc<Cell<bool>>,
}

/// How many `KEYS` tables are kept.
const MOST_KEY_TABLES: usize = 64;

/// The words of one `redis.call`. As a tuple, they come directly from Lua's stack.
type Words = (BString, Word, Word, Word, Word, Word, Word, Variadic<BString>);
type Word = Option<BString>;

/// Redis refuses scripts that touch globals. The model does too, so that a forgotten `local` is noticed.
const FREEZE_GLOBALS: &str = r#"
    dofile, loadfile, print, newproxy, getfenv, setfenv = nil
    setmetatable(_G, {
        __newindex = function(_, name) error('Attempt to modify a readonly table (global ' .. tostring(name) .. ')') end,
        __index = function(_, name) error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'") end,
    })
"#;

impl Interpreter {
    pub(crate) fn new(server: Rc<RefCell<Server>>) -> mlua::Result<Self> {
        let lua = Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, mlua::LuaOptions::default())?;
        // Few objects live long, so the collector starts a cycle at ten times the live memory instead of twice.
        lua.gc_set_mode(GcMode::Incremental(GcIncParams::default().pause(1_000)));
        let ok = lua.create_table()?;
        ok.raw_set("ok", "OK")?;

        let redis = lua.create_table()?;
        let refuses_time = Rc::new(Cell::new(false));
        let (shared, status, refuses) = (Rc::clone(&server), ok.clone(), Rc::clone(&refuses_time));
        let call = lua.create_function(move |lua, words: Words| match run(&shared, refuses.get(), &words) {
            Ok(answer) => into_lua(lua, answer, &status, scores(&words)),
            Err(refusal) => Err(mlua::Error::external(refusal)),
        })?;
        redis.raw_set("call", call)?;
        let (shared, refuses) = (Rc::clone(&server), Rc::clone(&refuses_time));
        let pcall = lua.create_function(move |lua, words: Words| match run(&shared, refuses.get(), &words) {
            Ok(answer) => into_lua(lua, answer, &ok, scores(&words)),
            Err(refusal) => {
                let error = lua.create_table()?;
                error.raw_set("err", refusal.text())?;
                Ok(Either::Right(Value::Table(error)))
            }
        })?;
        redis.raw_set("pcall", pcall)?;

        let globals = lua.globals();
        globals.raw_set("redis", redis)?;
        lua.load(FREEZE_GLOBALS).exec()?;
        Ok(Self { lua, globals, server, compiled: HashMap::new(), key_tables: FxHashMap::default(), refuses_time })
    }

    /// Whether scripts may not run `TIME`, as on some services.
    pub(crate) fn refuse_time(&self, on: bool) {
        self.refuses_time.set(on);
    }

    pub(crate) fn refuses_time(&self) -> bool {
        self.refuses_time.get()
    }

    /// Compiles a script's text, or returns the function from an earlier call.
    pub(crate) fn compile(&mut self, text: &str) -> Result<Function, String> {
        if let Some(function) = self.compiled.get(text) {
            return Ok(function.clone());
        }
        let function = self.lua.load(text).set_name("@user_script").into_function();
        let function = function.map_err(|error| format!("ERR Error compiling script (new function): {error}"))?;
        self.compiled.insert(text.to_owned(), function.clone());
        Ok(function)
    }

    /// Runs a script to its end.
    pub(crate) fn run(&mut self, function: &Function, keys: &[&[u8]], arguments: &[&[u8]]) -> Result<Reply, String> {
        self.server.borrow_mut().begin_script(keys).map_err(|refusal| refusal.to_string())?;
        let result = self.set_arguments(keys, arguments).and_then(|()| function.call::<Value>(()));
        self.server.borrow_mut().end_script();
        result.map_err(|error| error_text(&error)).and_then(into_reply)
    }

    fn set_arguments(&mut self, keys: &[&[u8]], arguments: &[&[u8]]) -> mlua::Result<()> {
        let mut list = Vec::with_capacity(keys.iter().map(|key| key.len() + 8).sum());
        keys.iter().for_each(|key| {
            list.extend(key.len().to_ne_bytes());
            list.extend(*key);
        });
        match self.key_tables.get(&list) {
            Some(table) => self.globals.raw_set("KEYS", table)?,
            None => {
                if self.key_tables.len() == MOST_KEY_TABLES {
                    self.key_tables.clear();
                }
                let table = self.strings(keys)?;
                self.globals.raw_set("KEYS", &table)?;
                self.key_tables.insert(list, table);
            }
        }
        self.globals.raw_set("ARGV", self.strings(arguments)?)
    }

    fn strings(&self, words: &[&[u8]]) -> mlua::Result<Table> {
        self.lua.create_sequence_from(words.iter().map(|word| utf8(word)))
    }
}

fn run(
    server: &RefCell<Server>,
    refuses_time: bool,
    (name, a, b, c, d, e, f, rest): &Words,
) -> Result<Answer, Refusal> {
    let mut words: [&[u8]; 7] = [name.as_slice(), b"", b"", b"", b"", b"", b""];
    let mut length = 1;
    for (index, word) in [a, b, c, d, e, f].into_iter().enumerate() {
        let Some(word) = word else { continue };
        if index + 1 != length {
            return Err("ERR Lua redis lib command arguments must be strings or integers".to_owned().into());
        }
        words[length] = word;
        length += 1;
    }
    let mut server = server.borrow_mut();
    match words[0] {
        b"TIME" if refuses_time => return Err("ERR this user can't run this command in a script".to_owned().into()),
        // Redis 7.0 has it. No script runs it where it may run `TIME`.
        b"PEXPIRETIME" if refuses_time => {
            let now_ms = server.now_us() as i64 / 1_000;
            let left = server.call(&[b"PTTL", words[1]])?;
            return Ok(if let Answer::Int(left @ 0..) = left { Answer::Int(now_ms + left) } else { left });
        }
        _ => {}
    }
    if rest.is_empty() {
        return server.call(&words[..length]);
    }
    let words: Vec<&[u8]> = words.into_iter().chain(rest.iter().map(|word| word.as_slice())).collect();
    server.call(&words)
}

/// A string that Lua takes from Rust directly, or any other value.
type FastValue = Either<String, Value>;

/// Which texts of an answer are floats in Lua.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scores {
    None,
    /// Every second text, from this index on.
    From(usize),
}

fn scores((name, _, _, _, last, ..): &Words) -> Scores {
    match name.as_slice() {
        _ if cfg!(not(feature = "lua54")) => Scores::None,
        b"ZSCORE" => Scores::From(0),
        _ if last.as_ref().is_some_and(|word| word.as_slice() == b"WITHSCORES") => Scores::From(1),
        _ => Scores::None,
    }
}

impl Scores {
    /// The float that the text at this index is.
    fn read(self, index: usize, text: &[u8]) -> Option<f64> {
        match self {
            Self::From(first) if index % 2 == first => utf8(text).parse().ok(),
            _ => None,
        }
    }
}

fn into_lua(lua: &Lua, answer: Answer, ok: &Table, scores: Scores) -> mlua::Result<FastValue> {
    Ok(Either::Right(match answer {
        Answer::Text(text) => match scores.read(0, &text) {
            Some(score) => Value::Number(score),
            None => return Ok(Either::Left(String::from_utf8(text).unwrap_or_default())),
        },
        Answer::Nil => Value::Boolean(false),
        Answer::Int(number) => Value::Integer(number),
        Answer::Status("OK") => Value::Table(ok.clone()),
        Answer::Status(text) => {
            let status = lua.create_table()?;
            status.raw_set("ok", text)?;
            Value::Table(status)
        }
        Answer::List(items) => {
            let elements = items.iter().enumerate().map(|(index, item)| element(item, |text| scores.read(index, text)));
            Value::Table(lua.create_sequence_from(elements)?)
        }
    }))
}

fn element(item: &Scalar, score: impl Fn(&[u8]) -> Option<f64>) -> Either<String, Either<f64, Option<i64>>> {
    match item {
        Scalar::Text(text) => match score(text) {
            Some(score) => Either::Right(Either::Left(score)),
            None => Either::Left(utf8(text).to_owned()),
        },
        Scalar::Int(number) => Either::Right(Either::Right(Some(*number))),
        Scalar::Nil => Either::Right(Either::Right(None)),
    }
}

/// Converts a script's return value as Redis does. A list ends at its first nil.
fn into_reply(value: Value) -> Result<Reply, String> {
    let Value::Table(table) = value else { return scalar(value).map(Reply::One) };
    let field = |name: &str| table.raw_get::<Option<BString>>(name).ok().flatten();
    let first = table.raw_get::<Value>(1).unwrap_or(Value::Nil);
    if first.is_nil() {
        if let Some(text) = field("err") {
            return Err(text.to_string());
        }
        if let Some(text) = field("ok") {
            return Ok(Reply::One(Scalar::Text(text.into())));
        }
    }
    let mut list = Vec::with_capacity(table.raw_len());
    let mut next = first;
    while !next.is_nil() {
        list.push(scalar(next)?);
        next = table.raw_get(list.len() + 1).unwrap_or(Value::Nil);
    }
    Ok(Reply::List(list))
}

fn scalar(value: Value) -> Result<Scalar, String> {
    Ok(match value {
        Value::Nil | Value::Boolean(false) => Scalar::Nil,
        Value::Boolean(true) => Scalar::Int(1),
        Value::Integer(number) => Scalar::Int(number),
        Value::Number(number) if cfg!(feature = "lua54") => {
            return Err(format!("ERR the reply has the float {number:?}; some servers send it as a text"));
        }
        Value::Number(number) => Scalar::Int(number as i64),
        Value::String(text) => Scalar::Text(text.as_bytes().to_vec()),
        other => return Err(format!("ERR the model knows no nested reply: {}", other.type_name())),
    })
}

/// The server's error text if a command was refused, otherwise Lua's.
fn error_text(error: &mlua::Error) -> String {
    match error.downcast_ref::<Refusal>() {
        Some(refusal) => refusal.to_string(),
        None => format!("ERR {error}"),
    }
}
