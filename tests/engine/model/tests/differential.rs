//! The model answers like a real server: the same random calls on a real server, on the scripts in Lua and on the functions
//! of `leasehold-memory` give the same answers, messages and keys.
//!
//! `LEASEHOLD_CALLS=1000000 cargo test --profile sim -p leasehold-model --test differential` makes as many calls.
//! `LEASEHOLD_SERVER` chooses the server.

mod common;

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use common::model::{Model, model_lock};
use common::random::{Calls, NAMES, PATHS, Step, all_keys, redisson_channel};
use common::real::{Real, receive_message};
use common::state::{KeyState, alike, dump};
use common::{Host, Lock, scalar_text};
use leasehold_core::{Reply, Scalar};
use leasehold_servers::{Connection, Server};

const CALLS: usize = 6_000;
/// So many calls reach everything.
const MANY_CALLS: usize = 100_000;
const CALLS_A_ROUND: usize = 100;
/// A real server's clock moves on within a script, so nothing is compared this close to a deadline.
const TOLERANCE_MS: i64 = 5;

#[test]
fn the_model_answers_as_a_real_server() {
    compare_with(&Server::start().unwrap(), Scripts::OnServer, calls(), 0);
}

#[test]
fn a_client_without_scripts_does_what_the_scripts_do() {
    compare_with(&Server::start().unwrap(), Scripts::InTransactions, calls(), 500_000_000);
}

/// How many calls each test makes.
fn calls() -> usize {
    std::env::var("LEASEHOLD_CALLS").ok().and_then(|calls| calls.parse().ok()).unwrap_or(CALLS)
}

/// Where the scripts of the real server's client run.
#[derive(Clone, Copy, PartialEq)]
enum Scripts {
    OnServer,
    /// In the client, for a server that refuses scripts.
    InTransactions,
}

fn compare_with(server: &Server, scripts: Scripts, calls: usize, first_seed: u64) {
    let (mut seed, mut compared, mut seen) = (first_seed, 0, BTreeMap::new());
    while compared < calls {
        compared += Round::new(server, scripts, seed).run(&mut seen);
        seed += 1;
    }
    println!("{compared} calls: {seen:#?}");
    // What few calls reach depends on how fast the server answers. The lockstep test checks it for few calls.
    for path in PATHS.into_iter().filter(|_| calls >= MANY_CALLS) {
        assert!(seen.contains_key(path), "no call of `{path}` among {:#?}", seen.keys());
    }
}

/// The calls of one seed on a few names.
struct Round {
    calls: Calls,
    scripts: Scripts,
    seed: u64,
    keys: Vec<String>,
    real: Real,
    model: Lock<Model>,
    messages: Connection,
    /// Listens on the channel of a reentrant lock.
    _listener: Connection,
    log: Vec<String>,
}

/// The rest of a call's outcome.
enum Outcome {
    Compared,
    /// The time of the call is unknown, or a deadline passed meanwhile.
    Unclear,
}

impl Round {
    fn new(server: &Server, scripts: Scripts, seed: u64) -> Self {
        let mut calls = Calls::new(seed);
        let mut real = Real::connect(server);
        real.run(&["FLUSHALL"]).unwrap();
        real.run(&["SCRIPT", "FLUSH"]).unwrap();
        let mut messages = server.connect().unwrap();
        messages.call(&["PSUBSCRIBE", "*"]).unwrap();
        let mut model = model_lock();
        let mut listener = server.connect().unwrap();
        if scripts == Scripts::InTransactions {
            // A transaction believes that the caller and another client listen.
            NAMES.iter().for_each(|name| model.host.server.set_listeners(&redisson_channel(name), 2));
        } else if calls.rng.once_in(2) {
            let channel = redisson_channel(calls.rng.pick::<&str>(&NAMES));
            listener.call(&["SUBSCRIBE", &channel]).unwrap();
            model.host.server.set_listeners(&channel, 1);
        }
        Self { calls, scripts, seed, keys: all_keys(), real, model, messages, _listener: listener, log: Vec::new() }
    }

    /// How many calls were compared. A deadline that passes during a call ends the round.
    fn run(mut self, seen: &mut BTreeMap<String, usize>) -> usize {
        for call in 0..CALLS_A_ROUND {
            self.wait_until_no_deadline_is_near();
            self.model.host.now_us = wall_us();
            let step = self.calls.next(&self.model);
            if let Outcome::Unclear = self.compare(&step, seen) {
                return call;
            }
        }
        CALLS_A_ROUND
    }

    fn compare(&mut self, step: &Step, seen: &mut BTreeMap<String, usize>) -> Outcome {
        let (from, mut deadlines) = (wall_us(), self.deadlines_ms());
        let real = self.run_on_server(step);
        let server_us = server_us(step, &real);
        self.model.host.now_us = server_us.unwrap_or(from);
        let model = run(&mut self.model.host, step);
        let answered = wall_us();
        *seen.entry(step.path(&real)).or_default() += 1;
        let real_state = dump(&mut self.real, &self.keys);
        deadlines.extend(self.deadlines_ms());
        let now = wall_us();
        // A slow call reads the time, and later sets a deadline or reads one. A deadline can be off by both of two calls.
        let slow = answered - from >= TOLERANCE_MS as u64 * 1000 / 2;
        if slow || any_between(&deadlines, from, now) {
            return Outcome::Unclear;
        }
        self.model.host.now_us = now;
        let tolerance = TOLERANCE_MS + (now - answered) as i64 / 1000;
        self.log.push(format!("{}\n    -> {}", step.shown(), shown(&real)));
        let model_state: Vec<KeyState> = self.keys.iter().map(|key| self.model.key_state(key)).collect();
        // A script that stops in the middle may have written its time, and doesn't tell it.
        let in_transaction = self.scripts == Scripts::InTransactions;
        let stopped =
            matches!(&real, Err(text) if step.script.is_some() && (in_transaction || text.contains("user_script")));
        let same_state = stopped || alike(&real_state, &model_state, tolerance);
        assert!(
            same_reply(step, &real, &model) && same_state,
            "seed {}:\n{}\n\nthe model answers {}\n{}",
            self.seed,
            self.log.join("\n"),
            shown(&model),
            differences(&self.keys, &real_state, &model_state, tolerance),
        );
        self.compare_messages();
        if stopped { Outcome::Unclear } else { Outcome::Compared }
    }

    fn run_on_server(&mut self, step: &Step) -> Result<Reply, String> {
        match self.scripts {
            Scripts::OnServer => run(&mut self.real, step),
            Scripts::InTransactions => {
                let words: Vec<&str> = step.words.iter().map(String::as_str).collect();
                self.real.run_without_scripts(&words)
            }
        }
    }

    fn compare_messages(&mut self) {
        for expected in self.model.messages() {
            assert_eq!(receive_message(&mut self.messages), expected, "seed {}:\n{}", self.seed, self.log.join("\n"));
        }
        // Nothing else was published.
        self.real.run(&["PUBLISH", "leasehold:end", "of call"]).unwrap();
        let end = ("leasehold:end".to_owned(), "of call".to_owned());
        assert_eq!(receive_message(&mut self.messages), end, "seed {}:\n{}", self.seed, self.log.join("\n"));
    }

    fn wait_until_no_deadline_is_near(&self) {
        let deadlines = self.deadlines_ms();
        while any_between(&deadlines, wall_us(), wall_us()) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    /// Every time on the server that may be a deadline, in server milliseconds.
    fn deadlines_ms(&self) -> Vec<u64> {
        let (server, now) = (&self.model.host.server, self.model.host.now_us);
        let mut deadlines = Vec::new();
        for (key, expires) in server.keys(now) {
            deadlines.extend(expires.map(|us| us / 1000));
            deadlines.extend(server.zset(now, &key).into_iter().map(|(_, score)| score.abs() as u64));
            let records = server.hash(now, &key).into_iter();
            deadlines.extend(records.filter_map(|(_, record)| record.rsplit(' ').next()?.parse::<u64>().ok()));
        }
        deadlines
    }
}

/// Runs EVALSHA, and then EVAL if the server doesn't know the script.
fn run(host: &mut impl Host, step: &Step) -> Result<Reply, String> {
    let words: Vec<&str> = step.words.iter().map(String::as_str).collect();
    match (host.run(&words), step.by_text()) {
        (Err(text), Some(words)) if text.starts_with("NOSCRIPT") => host.run(&words),
        (reply, _) => reply,
    }
}

/// The server's time in a script's answer.
fn server_us(step: &Step, reply: &Result<Reply, String>) -> Option<u64> {
    let script = step.script?;
    let items = match (reply, script.name) {
        (Ok(Reply::List(items)), _) => items,
        // The fence is the time.
        (Ok(Reply::One(fence)), "acquire-fast") => std::slice::from_ref(fence),
        _ => return None,
    };
    let index = match script.name {
        "inspect" | "leader" | "multi" | "batch" | "acquire-fast" => 0,
        _ => 3,
    };
    // A batch without an acquire doesn't return the time.
    scalar_text(&items[index]).parse().ok().filter(|us| *us > 0)
}

/// Whether two answers are equal, except for remaining milliseconds.
fn same_reply(step: &Step, real: &Result<Reply, String>, model: &Result<Reply, String>) -> bool {
    match (real, model) {
        (Ok(Reply::List(real)), Ok(Reply::List(model))) => {
            let (real, model): (Vec<_>, Vec<_>) =
                (real.iter().map(scalar_text).collect(), model.iter().map(scalar_text).collect());
            let name = step.script.map_or("", |script| script.name);
            let (inspect, leader) = (name == "inspect", name == "leader");
            let (batch, multi) = (name == "batch", name == "multi");
            real.len() == model.len()
                && real.iter().zip(&model).enumerate().all(|(index, (real, model))| {
                    let left = match index {
                        1 => multi || leader,
                        2 => inspect || batch,
                        4 => !inspect,
                        _ => batch && index > 2 || inspect && index > 4,
                    };
                    real == model || (left && near(real, model))
                })
        }
        (Err(real), Err(model)) => error_code(real) == error_code(model),
        // How many clients got a message: the test itself listens on all channels.
        (Ok(Reply::One(Scalar::Int(_))), Ok(Reply::One(Scalar::Int(_)))) if step.words[0] == "PUBLISH" => true,
        (Ok(Reply::One(Scalar::Int(real))), Ok(Reply::One(Scalar::Int(model)))) if step.words[0] == "PTTL" => {
            near(&real.to_string(), &model.to_string())
        }
        (real, model) => real == model,
    }
}

fn near(left: &str, right: &str) -> bool {
    let (Ok(left), Ok(right)) = (left.parse::<i64>(), right.parse::<i64>()) else { return false };
    (left - right).abs() <= TOLERANCE_MS && (left < 0) == (right < 0)
}

/// Redis 6.2 wraps the error in a sentence about the script.
fn error_code(text: &str) -> &str {
    let codes = ["WRONGTYPE", "OOM", "BADFENCE", "NOSCRIPT"];
    codes.into_iter().find(|code| text.contains(code)).unwrap_or_else(|| text.split(' ').next().unwrap_or_default())
}

fn any_between(deadlines_ms: &[u64], from_us: u64, to_us: u64) -> bool {
    let margin = TOLERANCE_MS as u64 + 1;
    let near = from_us / 1000 - margin..=to_us / 1000 + margin;
    deadlines_ms.iter().any(|deadline| near.contains(deadline))
}

fn differences(keys: &[String], real: &[KeyState], model: &[KeyState], tolerance: i64) -> String {
    let pairs = keys.iter().zip(real.iter().zip(model));
    let different =
        pairs.filter(|(_, (real, model))| !alike(std::slice::from_ref(*real), std::slice::from_ref(*model), tolerance));
    different.map(|(key, (real, model))| format!("{key}\n  real  {real:?}\n  model {model:?}\n")).collect()
}

fn shown(reply: &Result<Reply, String>) -> String {
    match reply {
        Ok(Reply::List(items)) => items.iter().map(scalar_text).collect::<Vec<_>>().join(" "),
        Ok(Reply::One(scalar)) => scalar_text(scalar),
        Err(text) => text.clone(),
    }
}

fn wall_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64
}
