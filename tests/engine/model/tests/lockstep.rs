//! The functions of `leasehold-memory` do what the scripts do: the same random calls on both, on virtual time and with
//! the faults of a server, give the same answers, messages and keys.
//!
//! `LEASEHOLD_CALLS=1000000 cargo test --profile sim -p leasehold-model --test lockstep` makes as many calls.

mod common;

use std::collections::BTreeMap;

use common::model::{Model, model_lock};
use common::random::{Calls, NAMES, PATHS, Step, redisson_channel};
use common::{EXCLUSIVE, Host, Lock, SHARED, token};
use leasehold_lua::ALL;
use leasehold_model::TimeFor;

const CALLS_A_ROUND: u64 = 200;

fn calls() -> u64 {
    std::env::var("LEASEHOLD_CALLS").ok().and_then(|calls| calls.parse().ok()).unwrap_or(40_000)
}

#[test]
fn every_function_does_what_its_script_does() {
    let mut seen = BTreeMap::new();
    for seed in 0..calls() / CALLS_A_ROUND {
        let mut lock = model_lock();
        // A server that refuses TIME in scripts.
        lock.host.server.allow_time(if seed % 4 == 3 { TimeFor::Nobody } else { TimeFor::All });
        round(seed, &mut lock, &mut seen);
    }
    println!("{} calls: {seen:#?}", calls());
    for path in PATHS {
        assert!(seen.contains_key(path), "no call of `{path}` among {:#?}", seen.keys());
    }
}

/// Runs the calls of one seed. The model compares what both engines do.
fn round(seed: u64, lock: &mut Lock<Model>, seen: &mut BTreeMap<String, usize>) {
    let mut calls = Calls::new(seed);
    let troubled = calls.rng.once_in(3);
    for _ in 0..CALLS_A_ROUND {
        let step = calls.next(lock);
        if troubled {
            trouble(&mut calls, lock, seed % 4 == 3);
        }
        let ms = *calls.rng.pick(&[0, 0, 0, 1, 5, 20, 60, 4_000]);
        lock.host.now_us += ms * 1_000 + calls.rng.below(1_000);
        let reply = run(lock, &step);
        *seen.entry(step.path(&reply)).or_default() += 1;
    }
}

fn run(lock: &mut Lock<Model>, step: &Step) -> Result<leasehold_core::Reply, String> {
    let words: Vec<&str> = step.words.iter().map(String::as_str).collect();
    match (lock.host.run(&words), step.by_text()) {
        (Err(text), Some(words)) if text.starts_with("NOSCRIPT") => lock.host.run(&words),
        (reply, _) => reply,
    }
}

/// Something happens to the server.
fn trouble(calls: &mut Calls, lock: &mut Lock<Model>, refuses_time: bool) {
    let server = &mut lock.host.server;
    match calls.rng.below(40) {
        // Then a script also writes to read the clock, and the functions don't.
        0 | 1 if refuses_time => {}
        0 => server.set_out_of_memory(calls.rng.once_in(2)),
        1 => server.set_read_only(calls.rng.once_in(3)),
        2 => server.set_migrating(calls.rng.once_in(2)),
        3 => server.refuse_publish(calls.rng.once_in(2)),
        4 => server.script_flush(),
        5 => server.flush_all(),
        6 => server.set_listeners(&redisson_channel(calls.rng.pick::<&str>(&NAMES)), calls.rng.below(3)),
        // An administrator sets the clock back.
        7 => lock.host.now_us -= calls.rng.below(10_000_000),
        _ => {}
    }
}

#[test]
fn a_change_on_either_side_is_found() {
    let changes = [
        ("release", "leave_tombstone(token, tonumber(ARGV[2]))\n", ""),
        ("semaphore-acquire", "math.max(limit, wanted)", "math.max(limit, wanted + 1)"),
        (
            "batch",
            "fence = string.format('%.0f', math.max(tonumber(last) + 1, tonumber(us)))",
            "fence = string.format('%.0f', math.max(tonumber(last), tonumber(us)))",
        ),
        ("renew", "'renewed', 0, 0, us, ms, -1, 0", "'renewed', 0, 0, us, ms, 0, 0"),
        ("acquire", "publish(holder, word .. KEYS[1])", "publish(holder, word)"),
        ("multi", "if redis.call('PTTL', KEYS[at + 1]) < ttl", "if true"),
        ("multi", "used = used - tonumber(string", "used = used - 0 * tonumber(string"),
        ("multi", "math.min(redis.call('PTTL', KEYS[at + 1])", "math.min(0"),
        ("multi", "math.max(tonumber(part.limit), wanted)", "tonumber(part.limit)"),
        ("once-release", "  result = true\n", ""),
        ("once-acquire", "  reply[8] = result[2]\n", ""),
        ("reentrant-release", "  redis.pcall('PUBLISH', channel, '0')\n", ""),
        ("election-release", "  ended = led and epoch or ended\n", ""),
        ("election-acquire", "epoch and 1 or block(wanted)", "block(wanted)"),
    ];
    for (script, find, put) in changes {
        let found = (0..2_000).any(|seed| {
            let mut lock = model_lock();
            lock.host.server.replace_script(script, find, put).unwrap();
            let differs = std::panic::AssertUnwindSafe(|| {
                round(seed, &mut lock, &mut BTreeMap::new());
            });
            std::panic::catch_unwind(differs).is_err()
        });
        assert!(found, "{script}: {find}");
    }
}

#[test]
fn a_call_that_no_client_makes_is_refused_before_it_changes_anything() {
    let mut lock = model_lock();
    lock.host.server.run_scripts_in(leasehold_model::Engine::Rust);
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), SHARED);
    let before = lock.state();
    for script in ALL {
        for keys in 0..8 {
            for words in [
                &[][..],
                &["x"],
                &["x", "y"],
                &["x", "1", "y", "z"],
                &["x", "exclusive", "1.5", "wait", "1", "1", "0", "native"],
            ] {
                // Clients make this one.
                if script.name == "leader" && keys == 1 && words.is_empty() {
                    continue;
                }
                let count = keys.to_string();
                let mut call = vec!["EVAL", script.source, &count];
                call.extend(lock.keys.iter().chain(&lock.keys).take(keys).map(String::as_str));
                call.extend(words);
                let call: Vec<String> = call.into_iter().map(ToOwned::to_owned).collect();
                let call: Vec<&str> = call.iter().map(String::as_str).collect();
                if let Err(error) = lock.host.run(&call) {
                    assert!(error.starts_with("ERR Error running script: the call of "), "{}: {error}", script.name);
                }
            }
        }
    }
    assert_eq!(format!("{:?}", lock.state()), format!("{before:?}"));
}
