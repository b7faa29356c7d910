//! How much a real server does in one call of a script.

mod common;

use common::real::Real;
use common::{EXCLUSIVE, Lock, list, scalar, scalar_number, scalar_text, token};
use leasehold_lua::MULTI;
use leasehold_servers::Server;

#[test]
fn a_token_that_was_given_up_makes_no_hand_over_slower() {
    let server = Server::start().unwrap();
    for clients in [2, 4] {
        let mut lock = lock(&server);
        (0..clients).for_each(|client| drop(lock.wait(&token(client, 1), EXCLUSIVE)));
        // The queue's keys now last longer than a claim window.
        commands_of_a_cycle(&mut lock, clients);
        until_the_clock_has_passed_the_counter(&mut lock);
        lock.claim /= 2;
        let usual = commands_of_a_cycle(&mut lock, clients);
        lock.release_with_tombstone(&token(99, 1), 900_000);
        assert_eq!(commands_of_a_cycle(&mut lock, clients), usual, "{clients} clients, during the tombstone");
        lock.release_with_tombstone(&token(99, 2), 1);
        // Each client that joins asks for the queue's TTL, because an expired tombstone doesn't show it.
        let after = commands_of_a_cycle(&mut lock, clients);
        assert!(after <= usual + u64::from(clients), "{clients} clients, after the tombstone: {after}, not {usual}");
    }
}

/// A lock whose waiters live longer than the test, even on a slow machine.
fn lock(server: &Server) -> Lock<Real> {
    let mut lock = Lock::new(Real::connect(server), "invoice:42");
    (lock.ttl, lock.claim) = (300_000, 600_000);
    lock.command(&["FLUSHALL"]);
    lock
}

/// A new counter of fences is about a millisecond ahead of the clock. Until the clock has passed it, each release takes
/// the long way.
fn until_the_clock_has_passed_the_counter(lock: &mut Lock<Real>) {
    let clock = |lock: &mut Lock<Real>| {
        let now: Vec<i64> = list(lock.command(&["TIME"])).iter().map(scalar_number).collect();
        now[0] * 1_000_000 + now[1]
    };
    let counter = scalar_number(&scalar(lock.command(&["GET", "leasehold:fence"])));
    while clock(lock) <= counter {}
}

/// Each holder gives the lock to the next client and waits again. How many commands that takes.
fn commands_of_a_cycle(lock: &mut Lock<Real>, clients: u32) -> u64 {
    lock.command(&["CONFIG", "RESETSTAT"]);
    for client in 0..clients {
        assert_eq!(lock.release(&token(client, 1)).status, "released");
        assert_eq!(lock.wait(&token(client, 1), EXCLUSIVE).value, i64::from(clients) - 1);
    }
    commands(lock)
}

/// How many commands the scripts ran since the statistics were reset.
fn commands(lock: &mut Lock<Real>) -> u64 {
    let info = scalar_text(&scalar(lock.command(&["INFO", "commandstats"])));
    let calls = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let inside = !["evalsha", "eval", "info", "config"].contains(&name.split('|').next()?);
        inside.then(|| rest.split(',').next()?.parse::<u64>().ok()).flatten()
    };
    info.lines().filter_map(calls).sum()
}

/// Far more than one call may touch.
const DEAD: u32 = 100_000;
/// What one call may do besides the blocks of dead waiters, with room.
const MOST_COMMANDS: u64 = 60;

#[test]
fn a_live_waiter_behind_many_dead_ones_gets_the_lock_after_few_calls_and_no_call_is_long() {
    let server = Server::start().unwrap();
    let mut lock = lock(&server);
    let [holder, live] = [token(1, 1), token(2, 1)];
    lock.wait(&holder, EXCLUSIVE);
    let mut calls = 0;
    crowd(&mut lock);
    assert_eq!(within_limits(&mut lock, |lock| lock.release(&holder)).status, "released");
    loop {
        calls += 1;
        let answer = within_limits(&mut lock, |lock| lock.wait(&live, EXCLUSIVE));
        if answer.status == "entered" {
            break;
        }
        // It asks again at once, although nobody holds the lock.
        assert_eq!((answer.status.as_str(), answer.block, answer.ms), ("waiting", 1, -2));
    }
    assert!(calls <= DEAD / 1_000, "{calls} calls");
    assert_eq!(lock.release(&live).status, "released");
    assert_eq!(lock.number(&["EXISTS", "leasehold:{invoice:42}:queue", "leasehold:{invoice:42}:waiters"]), 0);
}

#[test]
fn waiters_that_have_died_are_dropped_while_the_lock_is_held_and_a_try_is_told_to_ask_again() {
    let server = Server::start().unwrap();
    let mut lock = lock(&server);
    lock.wait(&token(1, 1), EXCLUSIVE);
    crowd(&mut lock);
    let live = within_limits(&mut lock, |lock| lock.wait(&token(2, 1), EXCLUSIVE));
    assert_eq!((live.status.as_str(), live.block), ("waiting", 1));
    let tries = within_limits(&mut lock, |lock| lock.try_acquire(&token(3, 1), EXCLUSIVE));
    assert_eq!((tries.status.as_str(), tries.block), ("busy", 1));
    assert!(tries.waiting < live.waiting, "{} and {} wait", live.waiting, tries.waiting);
    let told = (0..DEAD).map(|_| lock.wait(&token(2, 1), EXCLUSIVE)).find(|answer| answer.block == 0).unwrap();
    assert_eq!((told.value, told.waiting), (1, 1));
}

#[test]
fn several_names_are_taken_in_the_end_though_many_dead_waiters_are_there() {
    let server = Server::start().unwrap();
    let mut lock = lock(&server);
    crowd(&mut lock);
    let taken = |lock: &mut Lock<Real>| {
        let reply = within_limits(lock, |lock| {
            lock.call(&MULTI, &[0, 2, 3, 1], &["60000", &token(1, 1), "exclusive"]).unwrap()
        });
        scalar_text(&list(reply)[2]) == "entered"
    };
    let calls = (1..=DEAD).find(|_| taken(&mut lock)).unwrap();
    assert!(calls <= DEAD / 500 + 1, "{calls} calls");
}

#[test]
fn an_inspection_lists_the_first_waiters_and_counts_them_all() {
    let server = Server::start().unwrap();
    let mut lock = lock(&server);
    crowd(&mut lock);
    let seen = within_limits(&mut lock, |lock| lock.inspect().unwrap());
    assert_eq!(seen.len(), 5 + 1 + 3 * 1_000 + 4);
    assert_eq!((seen[5].as_str(), seen[6].clone()), ("1000", token(1_000_000, 1)));
    assert_eq!(seen[seen.len() - 3], DEAD.to_string());
}

/// Writes many waiters into the queue that died long ago.
fn crowd(lock: &mut Lock<Real>) {
    let [_, _, queue, waiters, ..] = lock.keys.clone();
    for block in 0..DEAD / 1_000 {
        let (mut joins, mut records) =
            (vec!["ZADD".to_owned(), queue.clone()], vec!["HSET".to_owned(), waiters.clone()]);
        for place in block * 1_000..(block + 1) * 1_000 {
            let token = token(1_000_000 + place, 1);
            joins.extend([(1_000 + place).to_string(), token.clone()]);
            records.extend([token, "exclusive 30000 3000 1 1 5".to_owned()]);
        }
        for words in [joins, records] {
            lock.command(&words.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }
    for key in [&queue, &waiters] {
        lock.command(&["PEXPIRE", key, "3600000"]);
    }
}

/// Makes one call, and checks that it was short.
fn within_limits<T>(lock: &mut Lock<Real>, call: impl FnOnce(&mut Lock<Real>) -> T) -> T {
    lock.command(&["CONFIG", "RESETSTAT"]);
    let answer = call(lock);
    let ran = commands(lock);
    assert!(ran <= MOST_COMMANDS, "{ran} commands in one call");
    answer
}
