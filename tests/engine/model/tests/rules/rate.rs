//! The rates of semaphores: never more than the limit in any window, in order, without polling.

use std::collections::BTreeMap;

use leasehold_harness::Rng;
use leasehold_lua::semaphore;
use leasehold_model::Engine;

use crate::common::model::{Model, model_lock};
use crate::common::{ALL_KEYS, Lock, list, scalar_text, token};

const PER: u64 = 1_000;

fn semaphore_lock() -> Lock<Model> {
    let mut lock = model_lock();
    lock.keys[4] = lock.keys[4].replace("readers", "permits");
    lock
}

fn words(reply: Result<leasehold_core::Reply, String>) -> Vec<String> {
    list(reply.unwrap()).iter().map(scalar_text).collect()
}

fn acquire(lock: &mut Lock<Model>, token: &str, mode: &str, how: &str) -> Result<leasehold_core::Reply, String> {
    let claim = lock.claim.to_string();
    lock.call(&semaphore::ACQUIRE, &ALL_KEYS, &[token, mode, "1000", how, &claim, "1", "0", "native"])
}

fn wait(lock: &mut Lock<Model>, token: &str, mode: &str) -> Vec<String> {
    words(acquire(lock, token, mode, "wait"))
}

fn release(lock: &mut Lock<Model>, token: &str, tombstone: &str) -> String {
    words(lock.call(&semaphore::RELEASE, &ALL_KEYS, &[token, tombstone, "0", "native"])).remove(0)
}

#[test]
fn a_release_gives_nothing_back_before_the_window_of_its_permits_is_over() {
    let mut lock = semaphore_lock();
    assert_eq!(wait(&mut lock, &token(1, 1), "2/2/1000")[0], "entered");
    assert_eq!(release(&mut lock, &token(1, 1), "0"), "released");
    let busy = wait(&mut lock, &token(2, 1), "1/2/1000");
    assert_eq!([&busy[0], &busy[1], &busy[4]], ["waiting", "1", "1001"], "the head learns when to ask");
    lock.pass_ms(PER);
    assert_eq!(wait(&mut lock, &token(2, 1), "1/2/1000")[0], "waiting");
    lock.pass_ms(1);
    assert_eq!(wait(&mut lock, &token(2, 1), "1/2/1000")[0], "entered");
}

#[test]
fn an_acquire_that_arrives_again_counts_once_and_makes_its_window_no_longer() {
    let mut lock = semaphore_lock();
    assert_eq!(wait(&mut lock, &token(1, 1), "1/2/1000")[0], "entered");
    lock.pass_ms(PER - 1);
    let again = wait(&mut lock, &token(1, 1), "1/2/1000");
    assert_eq!([&again[0], &again[4]], ["again", "2"]);
    assert_eq!(wait(&mut lock, &token(2, 1), "1/2/1000")[0], "entered", "one of two counts");
    lock.pass_ms(2);
    assert_eq!(wait(&mut lock, &token(3, 1), "1/2/1000")[0], "entered");
}

#[test]
fn a_grant_that_no_client_claims_counts_for_the_whole_window() {
    let mut lock = semaphore_lock();
    lock.claim = 300;
    assert_eq!(wait(&mut lock, &token(1, 1), "1/1/1000")[0], "entered");
    lock.pass_ms(PER);
    assert_eq!(wait(&mut lock, &token(2, 1), "1/1/1000")[0], "waiting");
    lock.pass_ms(1);
    // Any call grants it. The waiter's client is dead.
    assert_eq!(wait(&mut lock, &token(3, 1), "1/1/1000")[0], "waiting");
    assert!(lock.messages().iter().any(|(_, payload)| payload.starts_with(&format!("grant {} ", token(2, 1)))));
    assert_eq!(release(&mut lock, &token(2, 1), "60000"), "released", "its client gives up later");
    // Longer than the claim window, for which a waiter's grant otherwise lasts.
    for _ in 0..5 {
        lock.pass_ms(PER / 5);
        assert_eq!(wait(&mut lock, &token(3, 1), "1/1/1000")[0], "waiting");
    }
    lock.pass_ms(1);
    assert_eq!(wait(&mut lock, &token(3, 1), "1/1/1000")[0], "entered");
}

#[test]
fn another_window_or_none_is_another_kind_until_all_permits_have_ended() {
    let mut lock = semaphore_lock();
    assert_eq!(wait(&mut lock, &token(1, 1), "1/2/1000")[0], "entered");
    for mode in ["1/2", "1/2/999"] {
        assert!(acquire(&mut lock, &token(2, 1), mode, "try").unwrap_err().starts_with("WRONGTYPE"), "{mode}");
    }
    let adopt = [&token(1, 1), &token(2, 2), "1/2", "1000", "1", "0", "0", "native"];
    assert!(lock.call(&semaphore::CONVERT, &ALL_KEYS, &adopt).unwrap_err().starts_with("WRONGTYPE"));
    let batch = ["1", "permit", &token(2, 1), "1000", "1/2"];
    assert_eq!(words(lock.call(&leasehold_lua::BATCH, &[0, 2, 4, 1], &batch))[2], "0");
    let batch = ["0", "unpermit", &token(1, 1)];
    assert_eq!(words(lock.call(&leasehold_lua::BATCH, &[0, 2, 4], &batch))[2], "0");
    assert_eq!(wait(&mut lock, &token(3, 1), "1/5/1000")[0], "entered", "limits may differ, as without a rate");
    lock.pass_ms(PER + 1);
    assert_eq!(wait(&mut lock, &token(2, 3), "1/2")[0], "entered");
    assert!(acquire(&mut lock, &token(1, 2), "1/2/1000", "try").unwrap_err().starts_with("WRONGTYPE"));
    // The key outlives the permits of the semaphore if the longest lease was given back.
    let long = [&token(4, 1), "1/2", "90000", "wait", "300", "1", "0", "native"];
    lock.call(&semaphore::ACQUIRE, &ALL_KEYS, &long).unwrap();
    release(&mut lock, &token(4, 1), "0");
    lock.pass_ms(1_000);
    assert_eq!(wait(&mut lock, &token(1, 2), "1/2/1000")[0], "entered");
    assert_eq!(release(&mut lock, &token(1, 2), "0"), "released");
    assert_eq!(wait(&mut lock, &token(1, 3), "2/2/1000")[0], "waiting");
}

#[test]
fn each_new_first_waiter_is_told_when_to_ask() {
    let mut lock = semaphore_lock();
    assert_eq!(wait(&mut lock, &token(1, 1), "1/2/1000")[0], "entered");
    lock.pass_ms(400);
    assert_eq!(wait(&mut lock, &token(2, 1), "1/2/1000")[0], "entered");
    for client in 3..=5 {
        assert_eq!(
            wait(&mut lock, &token(client, 1), "1/2/1000")[..2],
            ["waiting".to_owned(), (client - 2).to_string()]
        );
    }
    assert_eq!(lock.messages(), [], "no holder is asked to give anything back");
    lock.pass_ms(601);
    assert_eq!(wait(&mut lock, &token(3, 1), "1/2/1000")[0], "entered");
    let next = |client, ms: u64| {
        let token = token(client, 1);
        (crate::common::channel(&token), format!("next {token} {ms} {}", "invoice:42"))
    };
    assert_eq!(lock.messages(), [next(4, 400)]);
    // The first waiter leaves, and the next one is told.
    assert_eq!(release(&mut lock, &token(4, 1), "0"), "left");
    assert_eq!(lock.messages(), [next(5, 400)]);
    assert_eq!(release(&mut lock, &token(9, 1), "0"), "gone");
    assert_eq!(lock.messages(), [], "not with every call");
}

#[test]
fn if_more_waiters_can_be_granted_than_one_call_grants_the_next_is_told_to_ask_at_once() {
    let mut lock = semaphore_lock();
    assert_eq!(wait(&mut lock, &token(1, 1), "70/70/1000")[0], "entered");
    lock.pass_ms(PER);
    for client in 2..=71 {
        assert_eq!(wait(&mut lock, &token(client, 1), "1/70/1000")[0], "waiting");
    }
    lock.pass_ms(1);
    lock.messages();
    assert_eq!(wait(&mut lock, &token(2, 1), "1/70/1000")[0], "entered");
    let messages = lock.messages();
    assert_eq!(messages.iter().filter(|(_, payload)| payload.starts_with("grant ")).count(), 63);
    assert_eq!(messages.last().unwrap().1, format!("next {} 0 invoice:42", token(66, 1)));
}

#[test]
fn one_call_removes_a_hundred_permits_and_the_others_count_until_the_next() {
    let mut lock = semaphore_lock();
    for client in 1..=250 {
        assert_eq!(wait(&mut lock, &token(client, 1), "1/250/1000")[0], "entered");
    }
    lock.pass_ms(PER + 1);
    let answers: Vec<_> = (0..3).map(|_| wait(&mut lock, &token(300, 1), "250/250/1000")).collect();
    let shown = |answer: &Vec<String>| format!("{} {}", answer[0], answer[2]);
    assert_eq!(answers.iter().map(shown).collect::<Vec<_>>(), ["waiting 1", "waiting 1", "entered 1"]);
}

#[test]
fn force_gives_all_permits_of_the_window_back() {
    let mut lock = semaphore_lock();
    for client in 1..=3 {
        assert_eq!(wait(&mut lock, &token(client, 1), "1/3/1000")[0], "entered");
    }
    assert_eq!(wait(&mut lock, &token(4, 1), "1/3/1000")[0], "waiting");
    let answer = words(lock.call(&semaphore::FORCE, &ALL_KEYS, &["leases", "0", "native"]));
    assert_eq!(answer[..2], ["released", "3"]);
    assert!(lock.messages().iter().any(|(_, payload)| payload.starts_with(&format!("grant {} ", token(4, 1)))));
}

/// Random calls, with copies, clients that die, and releases. `change` breaks the scripts. Returns the grants in order: the
/// server's µs, and the permits.
fn grants(seed: u64, change: impl Fn(&mut Lock<Model>)) -> (u64, Vec<(u64, u64)>) {
    let (mut lock, mut rng) = (semaphore_lock(), Rng::new(seed));
    change(&mut lock);
    lock.claim = 300;
    let limit = 1 + rng.below(4);
    let mut seen = BTreeMap::new();
    for _ in 0..400 {
        lock.host.now_us += *rng.pick(&[0, 1, 700, 9_000, 90_000, 400_000]);
        let client = token(1 + rng.below(6) as u32, 1 + rng.below(40));
        let permits = 1 + (client.len() as u64 + client.as_bytes()[7] as u64) % limit;
        let mode = format!("{permits}/{limit}/{PER}");
        let us = lock.host.now_us;
        let tombstone = *rng.pick(&["0", "60000"]);
        let entered = match rng.below(8) {
            0 => release(&mut lock, &client, tombstone) == "entered",
            1 => words(acquire(&mut lock, &client, &mode, "try"))[0] == "entered",
            _ => wait(&mut lock, &client, &mode)[0] == "entered",
        };
        if entered {
            seen.insert((us, client), permits);
        }
        for (_, payload) in lock.messages() {
            if let ["grant", token, mode, ..] = payload.split(' ').collect::<Vec<_>>()[..] {
                seen.insert((us, token.to_owned()), mode.split('/').next().unwrap().parse().unwrap());
            }
        }
    }
    (limit, seen.into_iter().map(|((us, _), permits)| (us, permits)).collect())
}

/// The most permits in any window.
fn most((limit, grants): &(u64, Vec<(u64, u64)>)) -> (u64, u64) {
    let in_window = |from: u64| {
        grants.iter().filter(|(us, _)| (from..from + PER * 1_000).contains(us)).map(|(_, permits)| permits).sum()
    };
    (grants.iter().map(|(us, _)| in_window(*us)).max().unwrap_or(0), *limit)
}

#[test]
fn no_window_of_the_servers_clock_has_more_permits_than_the_limit() {
    let mut full = 0;
    for seed in 0..60 {
        let (most, limit) = most(&grants(seed, |_| {}));
        assert!(most <= limit, "seed {seed}: {most} of {limit}");
        full += u32::from(most == limit);
    }
    assert!(full > 40, "the limit was reached in {full} runs only");
}

#[test]
fn a_script_that_breaks_the_limit_is_found() {
    let changes = [
        ("a release gives permits back", "semaphore-release", "if per > 0 and not ends then", "if false then"),
        (
            "an unclaimed grant counts for the claim window",
            "semaphore-acquire",
            "    ms = per + 1\n",
            "    ms = math.min(ms, 300)\n",
        ),
        ("the window begins with the millisecond of the grant", "semaphore-acquire", "ms = per + 1", "ms = per"),
        ("the window is a millisecond short", "semaphore-acquire", "ms = per + 1", "ms = per - 1"),
    ];
    for (what, script, find, put) in changes {
        let change = |lock: &mut Lock<Model>| {
            // The twin in Rust has the rule, so the model only runs the script.
            lock.host.server.replace_script(script, find, put).unwrap();
            lock.host.server.run_scripts_in(Engine::Lua);
        };
        let breaks = |seed| {
            let (most, limit) = most(&grants(seed, change));
            most > limit
        };
        assert!((0..400).any(breaks), "{what}");
    }
}
