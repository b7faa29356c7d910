//! The model answers like a real server: the same random calls on both give the same answers, messages and keys.

mod common;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::model::{Model, model_lock};
use common::real::{Real, receive_message};
use common::state::alike;
use common::{ALL_KEYS, EXCLUSIVE, Host, Lock, SHARED, scalar_text, token};
use leasehold_core::{Reply, Scalar};
use leasehold_harness::Rng;
use leasehold_lua::{
    ACQUIRE, ACQUIRE_FAST, BATCH, CONVERT, FORCE, INSPECT, MULTI, RAISE, RELEASE, RELEASE_FAST, RENEW, Script,
};
use leasehold_servers::{Connection, Server, Version};

const CALLS: usize = 2_000;
const CALLS_A_ROUND: usize = 60;
/// A real server's clock moves on within a script, so nothing is compared this close to a deadline.
const TOLERANCE_MS: i64 = 5;

#[test]
fn the_model_answers_as_a_real_server() {
    compare_with(&Server::start().unwrap());
}

#[test]
#[ignore = "installs every supported server"]
fn the_model_answers_as_every_supported_server() {
    for version in Version::ALL {
        println!("{}", version.name());
        compare_with(&Server::builder().version(version).start().unwrap());
    }
}

fn compare_with(server: &Server) {
    let (mut seed, mut compared, mut seen) = (0, 0, BTreeMap::new());
    while compared < CALLS {
        compared += Round::new(server, seed).run(&mut seen);
        seed += 1;
    }
    // The common paths are reached: done and left undone, and below a counter that leads the clock.
    for path in [
        "acquire-fast 0",
        "acquire-fast us",
        "acquire-fast us fence",
        "release-fast 0",
        "release-fast 1",
        "batch 0",
        "batch done",
    ] {
        assert!(seen.contains_key(path), "{path} is missing: {seen:?}");
    }
}

/// What the common path did.
fn path(script: &Script, reply: &Result<Reply, String>) -> Option<String> {
    let did = match (script.name, reply) {
        ("release-fast" | "acquire-fast", Ok(Reply::One(Scalar::Int(number)))) => number.to_string(),
        ("acquire-fast", Ok(Reply::One(_))) => "us".to_owned(),
        ("acquire-fast", Ok(Reply::List(_))) => "us fence".to_owned(),
        ("batch", Ok(Reply::List(items))) if items[2..].contains(&Scalar::Int(0)) => "0".to_owned(),
        ("batch", Ok(_)) => "done".to_owned(),
        _ => return None,
    };
    Some(format!("{} {did}", script.name))
}

/// The calls of one seed on one name.
struct Round {
    rng: Rng,
    seed: u64,
    real: Lock<Real>,
    model: Lock<Model>,
    messages: Connection,
    log: Vec<String>,
}

/// A command for both servers, and the places of the time and the TTLs in its answer.
enum Step {
    Script { script: Script, keys: &'static [usize], arguments: Vec<String> },
    Command(Vec<String>),
    Sleep(u64),
}

impl Round {
    fn new(server: &Server, seed: u64) -> Self {
        let mut real = Lock::new(Real::connect(server), "invoice:42");
        real.command(&["FLUSHALL"]);
        let mut messages = server.connect().unwrap();
        messages.call(&["PSUBSCRIBE", "leasehold:*"]).unwrap();
        Self { rng: Rng::new(seed), seed, real, model: model_lock(), messages, log: Vec::new() }
    }

    /// How many calls were compared. A deadline that passes during a call ends the round, and so does a call that took
    /// so long that the server may have set a deadline much later than it read the time.
    fn run(mut self, seen: &mut BTreeMap<String, usize>) -> usize {
        for call in 0..CALLS_A_ROUND {
            self.wait_until_no_deadline_is_near();
            let (from, mut deadlines) = (wall_us(), self.model.deadlines_ms());
            let step = self.next_step();
            let (script, keys, words) = match step {
                Step::Sleep(ms) => {
                    std::thread::sleep(Duration::from_millis(ms));
                    continue;
                }
                Step::Script { script, keys, arguments } => (Some(script), keys, arguments),
                Step::Command(words) => (None, &[][..], words),
            };
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let real = match &script {
                Some(script) => self.real.call(script, keys, &words),
                None => self.real.host.run(&words),
            };
            self.model.host.now_us = server_us(script.as_ref(), &real).unwrap_or(from);
            let model = match &script {
                Some(script) => self.model.call(script, keys, &words),
                None => self.model.host.run(&words),
            };
            let answered = wall_us();
            if let Some(path) = script.as_ref().and_then(|script| path(script, &real)) {
                *seen.entry(path).or_default() += 1;
            }
            let real_state = self.real.state();
            deadlines.extend(self.model.deadlines_ms());
            self.model.host.now_us = wall_us();
            let slow = answered - from >= TOLERANCE_MS as u64 * 1000;
            if slow || any_between(&deadlines, from, self.model.host.now_us) {
                return call;
            }
            let tolerance = TOLERANCE_MS + (self.model.host.now_us - answered) as i64 / 1000;
            let name = script.map_or("", |script| script.name);
            self.log.push(format!("{name} {}\n    -> {}", words.join(" "), shown(&real)));
            let model_state = self.model.state();
            assert!(
                same_reply(script.as_ref(), &real, &model) && alike(&real_state, &model_state, tolerance),
                "seed {}:\n{}\n\nthe model answers {}\nreal keys {real_state:#?}\nmodel keys {model_state:#?}",
                self.seed,
                self.log.join("\n"),
                shown(&model),
            );
            self.compare_messages();
        }
        CALLS_A_ROUND
    }

    fn compare_messages(&mut self) {
        for expected in self.model.messages() {
            assert_eq!(receive_message(&mut self.messages), expected, "seed {}:\n{}", self.seed, self.log.join("\n"));
        }
        // Nothing else was published.
        self.real.command(&["PUBLISH", "leasehold:end", "of call"]);
        let end = ("leasehold:end".to_owned(), "of call".to_owned());
        assert_eq!(receive_message(&mut self.messages), end, "seed {}:\n{}", self.seed, self.log.join("\n"));
    }

    fn wait_until_no_deadline_is_near(&self) {
        let deadlines = self.model.deadlines_ms();
        while any_between(&deadlines, wall_us(), wall_us()) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn next_step(&mut self) -> Step {
        let rng = &mut self.rng;
        let name = self.real.keys[0].clone();
        let value = self.model.value().unwrap_or_default();
        let tokens = [token(1, 1), token(1, 2), token(2, 1), token(3, 1), token(4, 1), token(5, 7), "odd".to_owned()];
        let mut token = || rng.pick(&tokens).clone();
        let (one, other) = (token(), token());
        let mode = (*rng.pick(&[EXCLUSIVE, SHARED])).to_owned();
        let ttl = (*rng.pick(&["30", "60", "30000", "40000"])).to_owned();
        let claim = (*rng.pick(&["25", "50", "3000"])).to_owned();
        let block = (*rng.pick(&["1", "33", "1024", "9000"])).to_owned();
        let bury = (*rng.pick(&["0", "0", "0", "40", "60000"])).to_owned();
        // The last ones are far above the clock.
        let fences = ["1", "1500000000000000", "2000000000000000", "8000000000000000"];
        let used = if rng.once_in(4) { *rng.pick(&fences) } else { "0" }.to_owned();
        // What N holds, with its mark or without it, or another value.
        let value = rng.pick(&[value.clone(), value.replace('*', " "), format!("{one} 5"), one.clone()]).clone();
        let (any_key, side_key) = (rng.below(5) as usize, 2 + rng.below(3) as usize);
        let fleet = if rng.once_in(8) { "mixed" } else { "native" }.to_owned();
        let script = |script, keys, arguments| Step::Script { script, keys, arguments };
        let command = |words: &[&str]| Step::Command(words.iter().map(|word| (*word).to_owned()).collect());
        const ALL: &[usize] = &ALL_KEYS;
        let entries = rng.below(7);
        match rng.below(42) {
            25..=28 => {
                let text = |word: &str| word.to_owned();
                let acquire = [text("acquire"), format!("{one} "), ttl.clone()];
                let again = [text("acquire"), format!("{other} "), ttl.clone()];
                let release = [text("release"), value];
                let renew = [text("renew"), one, ttl];
                let (keys, acquires, entries): (&[usize], _, _) = match entries {
                    0 | 1 => (&[0, 2, 1], "1", acquire.to_vec()),
                    2 => (&[0], "0", release.to_vec()),
                    3 => (&[0], "0", renew.to_vec()),
                    4 => (&[0, 0, 2, 1], "1", [&release[..], &acquire].concat()),
                    5 => (&[0, 2, 0, 0, 2, 1], "2", [&again[..], &release, &acquire].concat()),
                    _ => (&[0, 2, 0, 0, 1], "1", [&acquire[..], &renew, &release].concat()),
                };
                script(BATCH, keys, [vec![text(acquires)], entries].concat())
            }
            29..=31 => script(ACQUIRE_FAST, &[0, 2, 1], vec![format!("{one} "), ttl]),
            32..=33 => script(RELEASE_FAST, &[0], vec![value]),
            34 => script(MULTI, &[0, 2, 3, 1], vec![ttl, one]),
            35 => script(FORCE, ALL, vec!["0".to_owned(), fleet]),
            // A counter far above the clock, one that there is no room above, and some that are no numbers.
            36..=37 => command(&[
                "SET",
                &self.real.keys[1],
                *rng.pick(&[
                    "5",
                    "1500000000000000",
                    "2000000000000000",
                    "9007199254736896",
                    "9007199254736897",
                    "abc",
                    "-500000000000000",
                ]),
            ]),
            // A lock that nobody has or wants, as the common paths need it.
            38..=41 => command(&["DEL", &name, &self.real.keys[2], &self.real.keys[3]]),
            0..=9 => {
                let how = (*rng.pick(&["wait", "wait", "wait", "wait", "try", "refill"])).to_owned();
                script(ACQUIRE, ALL, vec![one, mode, ttl, how, claim, block, "0".to_owned(), fleet])
            }
            10..=13 => script(RELEASE, ALL, vec![one, bury, used, fleet]),
            14..=15 => script(CONVERT, ALL, vec![one, other, mode, ttl, block, bury, used, fleet]),
            16 => script(RENEW, &[0], vec![one, ttl]),
            17 => script(RENEW, &[0, 4], vec![one, (*rng.pick(&["0", "30", "50000"])).to_owned()]),
            18 => script(INSPECT, ALL, vec![]),
            24 => {
                // Below and above the fence that was drawn.
                script(RAISE, &[0, 1], vec![one, (*rng.pick(&fences)).to_owned()])
            }
            19 => Step::Sleep(*rng.pick(&[10, 30, 60])),
            20 => command(rng.pick::<&[&str]>(&[
                &["SET", &name, "somebody", "NX", "PX", "40"][..],
                &["SET", &name, "somebody", "PX", "30000"],
                &["SET", &name, "somebody"],
                &["SET", &name, "abc 123", "PX", "40"],
                &["SET", &name, "somebody else", "KEEPTTL"],
                &["SET", &name, "somebody", "XX", "GET", "KEEPTTL"],
                &["SET", &name, &one, "XX"],
                &["SET", &name, "shared", "PX", "40"],
                &["SET", &name, "shared 5", "KEEPTTL"],
                &["SET", &name, "somebody", "XX", "GET", "EX", "1"],
            ])),
            21 => command(&["DEL", &self.real.keys[any_key]]),
            22 if rng.once_in(4) => command(rng.pick::<&[&str]>(&[
                &["HSET", &name, "field", "1"][..],
                &["ZADD", &self.real.keys[1], "1.5", "member"],
                &["SET", &self.real.keys[side_key], "text"],
            ])),
            _ => command(&["GET", &name]),
        }
    }
}

/// The server's time in a script's answer.
fn server_us(script: Option<&Script>, reply: &Result<Reply, String>) -> Option<u64> {
    let items = match (reply, script?.name) {
        (Ok(Reply::List(items)), _) => items,
        // The fence is the time.
        (Ok(Reply::One(fence)), "acquire-fast") => std::slice::from_ref(fence),
        _ => return None,
    };
    let index = match script?.name {
        "inspect" | "multi" | "batch" | "acquire-fast" => 0,
        _ => 3,
    };
    // A batch without an acquire doesn't return the time.
    scalar_text(&items[index]).parse().ok().filter(|us| *us > 0)
}

/// Whether two answers are equal, except for remaining milliseconds.
fn same_reply(script: Option<&Script>, real: &Result<Reply, String>, model: &Result<Reply, String>) -> bool {
    match (real, model) {
        (Ok(Reply::List(real)), Ok(Reply::List(model))) => {
            let (real, model): (Vec<_>, Vec<_>) =
                (real.iter().map(scalar_text).collect(), model.iter().map(scalar_text).collect());
            let inspect = script.is_some_and(|script| script.name == "inspect");
            let batch = script.is_some_and(|script| script.name == "batch");
            let multi = script.is_some_and(|script| script.name == "multi");
            real.len() == model.len()
                && real.iter().zip(&model).enumerate().all(|(index, (real, model))| {
                    let left = match index {
                        1 => multi,
                        2 => inspect || batch,
                        4 => !inspect,
                        _ => batch && index > 2 || inspect && index > 4,
                    };
                    real == model || (left && near(real, model))
                })
        }
        (Err(real), Err(model)) => error_code(real) == error_code(model),
        (real, model) => real == model,
    }
}

fn near(left: &str, right: &str) -> bool {
    let (Ok(left), Ok(right)) = (left.parse::<i64>(), right.parse::<i64>()) else { return false };
    (left - right).abs() <= TOLERANCE_MS && (left < 0) == (right < 0)
}

/// Redis 6.2 wraps the error in a sentence about the script.
fn error_code(text: &str) -> &str {
    ["WRONGTYPE", "OOM", "BADFENCE"].into_iter().find(|code| text.contains(code)).unwrap_or(text)
}

fn any_between(deadlines_ms: &[u64], from_us: u64, to_us: u64) -> bool {
    let margin = TOLERANCE_MS as u64 + 1;
    let near = from_us / 1000 - margin..=to_us / 1000 + margin;
    deadlines_ms.iter().any(|deadline| near.contains(deadline))
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
