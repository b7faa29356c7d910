//! How much a real server does in one call of a script.

mod common;

use common::real::Real;
use common::{EXCLUSIVE, Lock, scalar, scalar_text, token};
use leasehold_servers::Server;

#[test]
fn a_token_that_was_given_up_makes_no_hand_over_slower() {
    let server = Server::start().unwrap();
    for clients in [2, 4] {
        let mut lock = lock(&server);
        (0..clients).for_each(|client| drop(lock.wait(&token(client, 1), EXCLUSIVE)));
        // A new counter of fences is ahead of the clock at first. The queue's keys now last longer than a claim window.
        commands_of_a_cycle(&mut lock, clients);
        lock.claim /= 2;
        let usual = commands_of_a_cycle(&mut lock, clients);
        lock.bury(&token(99, 1), 900_000);
        assert_eq!(commands_of_a_cycle(&mut lock, clients), usual, "{clients} clients, during the burial");
        lock.bury(&token(99, 2), 1);
        // Each client that joins asks how long the queue lives, because that tombstone doesn't tell.
        let after = commands_of_a_cycle(&mut lock, clients);
        assert!(after <= usual + u64::from(clients), "{clients} clients, after the burial: {after}, not {usual}");
    }
}

/// A lock whose waiters live longer than the test, even on a slow machine.
fn lock(server: &Server) -> Lock<Real> {
    let mut lock = Lock::new(Real::connect(server), "invoice:42");
    (lock.ttl, lock.claim) = (300_000, 600_000);
    lock.command(&["FLUSHALL"]);
    lock
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
