//! As the lockstep test, with queues and semaphores in which more clients have died than one call removes.

mod common;

use std::collections::BTreeSet;

use common::model::{Model, model_lock};
use common::{ALL_KEYS, Host, Lock, list, scalar_text, token};
use leasehold_core::Reply;
use leasehold_harness::Rng;
use leasehold_lua::{ACQUIRE, FORCE, INSPECT, MULTI, RELEASE, semaphore};

const ROUNDS: u64 = 80;
const CALLS_A_ROUND: usize = 12;
/// Around the limits of the blocks and of the calls.
const SIZES: [u64; 12] = [2, 12, 101, 112, 500, 501, 612, 1_111, 1_112, 1_612, 1_700, 2_600];

#[test]
fn every_function_does_what_its_script_does_with_many_dead_clients() {
    let mut seen = BTreeSet::new();
    (0..ROUNDS).for_each(|seed| round(seed, &mut seen, |_| {}));
    // A caller that shall ask again at once has the block 1.
    for path in ["acquire waiting 1", "acquire busy 1", "semaphore-acquire waiting 1", "acquire entered", "multi busy"]
    {
        assert!(seen.iter().any(|seen| seen.starts_with(path)), "no call of `{path}` among {seen:#?}");
    }
}

#[test]
fn a_change_of_a_limit_is_found() {
    let changes = [
        ("acquire", "swept >= 1000", "swept >= 1200"),
        ("semaphore-acquire", "math.min(10 * size, 500)", "math.min(10 * size, 400)"),
        ("semaphore-acquire", "'LIMIT', '0', '100'", "'LIMIT', '0', '101'"),
        ("multi", "'LIMIT', '0', '500'", "'LIMIT', '0', '400'"),
    ];
    for (script, find, put) in changes {
        let change = |lock: &mut Lock<Model>| lock.host.server.replace_script(script, find, put).unwrap();
        let differs = |seed| std::panic::catch_unwind(|| round(seed, &mut BTreeSet::new(), change)).is_err();
        assert!((0..ROUNDS).any(differs), "{script}: {find}");
    }
}

#[test]
fn force_takes_only_the_permits_that_are_not_over_however_many_are() {
    let mut lock = model_lock();
    lock.keys[4] = lock.keys[4].replace("readers", "permits");
    let now = lock.now_ms();
    let expiry = |place: u32| if place == 250 { now + 20_000 } else { now - 1 };
    let joins: Vec<_> = (0..=250).flat_map(|place| [expiry(place).to_string(), token(place, 1)]).collect();
    let modes: Vec<_> = (0..=250).flat_map(|place| [token(place, 1), "1/300".to_owned()]).collect();
    write(&mut lock, "ZADD", 0, &joins);
    write(&mut lock, "HSET", 4, &modes);
    write(&mut lock, "HSET", 4, &["used", "251", "limit", "300", "fence", "5"].map(ToOwned::to_owned));
    write(&mut lock, "PEXPIRE", 0, &["60000".to_owned()]);
    let answer = list(lock.call(&semaphore::FORCE, &ALL_KEYS, &["leases", "0", "native"]).unwrap());
    assert_eq!(answer[..2].iter().map(scalar_text).collect::<Vec<_>>(), ["released", "1"]);
    assert_eq!(lock.tombstones(), [token(250, 1)]);
}

/// Runs the calls of one seed on one lock. The model compares what both engines do.
fn round(seed: u64, seen: &mut BTreeSet<String>, prepare: impl FnOnce(&mut Lock<Model>)) {
    let (mut lock, mut rng) = (model_lock(), Rng::new(seed));
    prepare(&mut lock);
    let is_semaphore = rng.once_in(3);
    if is_semaphore {
        lock.keys[4] = lock.keys[4].replace("readers", "permits");
    }
    for _ in 0..CALLS_A_ROUND {
        if rng.once_in(6) {
            let size = *rng.pick(&SIZES);
            if is_semaphore && rng.once_in(2) {
                permits(&mut lock, &mut rng, size);
            } else {
                queue(&mut lock, &mut rng, size);
            }
        }
        lock.host.now_us += *rng.pick(&[0, 0, 1, 60]) * 1_000 + rng.below(1_000);
        call(&mut lock, &mut rng, is_semaphore, seen);
    }
}

fn call(lock: &mut Lock<Model>, rng: &mut Rng, is_semaphore: bool, seen: &mut BTreeSet<String>) {
    let [acquire, release, force] = match is_semaphore {
        true => [semaphore::ACQUIRE, semaphore::RELEASE, semaphore::FORCE],
        false => [ACQUIRE, RELEASE, FORCE],
    };
    let (token, tombstone) = (token(1 + rng.below(3) as u32, 1), *rng.pick(&["0", "0", "900"]));
    let mode =
        *rng.pick(if is_semaphore { &["1/3", "2/3", "1/3/40", "1/200/40"][..] } else { &["exclusive", "shared"] });
    let how = *rng.pick(&["wait", "wait", "wait 3/40", "try", "refill"]);
    let (script, keys, arguments): (_, &[usize], _) = match rng.below(16) {
        0..=1 if !is_semaphore => (MULTI, &[0, 2, 3, 1], vec!["30000", &token, "exclusive"]),
        // The last key is that of a semaphore's permits.
        2 if is_semaphore => (INSPECT, &[0, 1, 2, 3, 5, 4], vec![]),
        2 => (INSPECT, &ALL_KEYS, vec![]),
        3 => (force, &ALL_KEYS, vec!["leases", "0", "native"]),
        4..=6 => (release, &ALL_KEYS, vec![&token, tombstone, "0", "native"]),
        _ => (acquire, &ALL_KEYS, vec![&token, mode, "30000", how, "3000", "1", "0", "native"]),
    };
    let answer = match lock.call(&script, keys, &arguments) {
        Ok(reply @ Reply::List(_)) if script.name == "multi" => scalar_text(&list(reply)[2]),
        Ok(reply @ Reply::List(_)) => {
            list(reply).iter().step_by(2).take(2).map(scalar_text).collect::<Vec<_>>().join(" ")
        }
        other => format!("{other:?}"),
    };
    seen.insert(format!("{} {answer}", script.name));
}

/// Permits of clients that have died, and of a few that live. A few have lost their mode.
fn permits(lock: &mut Lock<Model>, rng: &mut Rng, size: u64) {
    let now = lock.now_ms();
    let (mut joins, mut modes) = (Vec::new(), Vec::new());
    for place in 0..size.min(400) {
        let token = token(1_000_000 + place as u32, 1);
        let expiry = if rng.once_in(40) { now + 20_000 } else { now - 1 + rng.below(3) };
        joins.extend([expiry.to_string(), token.clone()]);
        if !rng.once_in(300) {
            modes.extend([token, "2/3".to_owned()]);
        }
    }
    modes.extend(["used", &modes.len().to_string(), "limit", "3", "fence", "5"].map(ToOwned::to_owned));
    if rng.once_in(3) {
        write(lock, "DEL", 0, &[]);
        write(lock, "DEL", 4, &[]);
    }
    write(lock, "ZADD", 0, &joins);
    write(lock, "HSET", 4, &modes);
    for key in [0, 4] {
        write(lock, "PEXPIRE", key, &["60000".to_owned()]);
    }
}

/// Waiters that have died, and a few that live, behind tokens that were given up. A few have a record of another version.
fn queue(lock: &mut Lock<Model>, rng: &mut Rng, size: u64) {
    let now = lock.now_ms();
    let (mut joins, mut records) = (Vec::new(), Vec::new());
    let live = *rng.pick(&[0, 0, 0, 300, 2_000]);
    let first = rng.below(5_000);
    for place in first..first + size {
        let token = token(2_000_000 + place as u32, 1);
        joins.extend([(1_000 + place).to_string(), token.clone()]);
        let mode = *rng.pick(&["exclusive", "shared", "shared", "shared", "1/2", "2/3", "1/200/40", "odd"]);
        let expiry = if live > 0 && rng.once_in(live) { now + 20_000 } else { now };
        match rng.below(60) {
            0 => {}
            1 => records.extend([token, format!("{mode} {expiry}")]),
            2 => records.extend([token, "garbage".to_owned()]),
            _ => records.extend([token, format!("{mode} 30000 3000 1 1 {expiry}")]),
        }
    }
    for tombstone in 0..*rng.pick(&[0, 0, 1, 5]) {
        let ends = if rng.once_in(2) { now - 5 } else { now + 900 };
        joins.extend([format!("-{ends}"), token(3_000_000 + tombstone, 1)]);
    }
    write(lock, "ZADD", 2, &joins);
    write(lock, "HSET", 3, &records);
    for key in [2, 3] {
        write(lock, "PEXPIRE", key, &["60000".to_owned()]);
    }
}

/// The server refuses it if there is nothing to write.
fn write(lock: &mut Lock<Model>, command: &str, key: usize, rest: &[String]) {
    let key = lock.keys[key].clone();
    let words: Vec<&str> = [command, &key].into_iter().chain(rest.iter().map(String::as_str)).collect();
    drop(lock.host.run(&words));
}
