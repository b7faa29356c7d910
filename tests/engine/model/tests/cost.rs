//! The time that a script takes in the model and on a real server.
//! `cargo test --release -p leasehold-model --test cost -- --nocapture --test-threads 1`

mod common;

use std::time::Instant;

use common::model::model_lock;
use common::real::Real;
use common::{EXCLUSIVE, Host, Lock, scalar_text, token};
use leasehold_servers::Server;

const BATCHES: u32 = 20;
/// A multiple of each number of clients, so that each batch starts with the same holder.
const CYCLES: u32 = 9 * 501;

#[test]
fn a_script_call_in_the_model() {
    for waiters in [0, 2, 8] {
        let mut lock = model_lock();
        wait_all(&mut lock, waiters);
        let best = (0..BATCHES).map(|_| {
            wait_all(&mut lock, waiters);
            let began = Instant::now();
            for cycle in 0..CYCLES {
                lock.host.now_us += 100;
                hand_over(&mut lock, waiters, cycle);
                lock.host.published.clear();
            }
            began.elapsed().as_secs_f64() * 1e6 / f64::from(2 * CYCLES)
        });
        println!("{waiters} waiters: {:.1} µs a call", best.fold(f64::INFINITY, f64::min));
    }
}

#[test]
fn a_script_call_on_a_real_server() {
    let server = Server::start().unwrap();
    for waiters in [0, 2, 8, 500] {
        let mut lock = Lock::new(Real::connect(&server), "invoice:42");
        lock.command(&["FLUSHALL"]);
        wait_all(&mut lock, waiters);
        let best = (0..BATCHES / 5).map(|_| {
            wait_all(&mut lock, waiters);
            lock.command(&["CONFIG", "RESETSTAT"]);
            for cycle in 0..CYCLES {
                hand_over(&mut lock, waiters, cycle);
            }
            let info = lock.command(&["INFO", "commandstats"]);
            let info = scalar_text(&common::scalar(info));
            let spent = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:")?.split("usec=").nth(1));
            let spent: f64 = spent.unwrap().split(',').next().unwrap().parse().unwrap();
            spent / f64::from(CYCLES)
        });
        println!("{waiters} waiters: {:.1} µs of server time a cycle", best.fold(f64::INFINITY, f64::min));
    }
}

/// The first call of each client joins the queue. Later calls keep its place.
fn wait_all<H: Host>(lock: &mut Lock<H>, waiters: u32) {
    for client in 0..=waiters {
        lock.wait(&token(client, 1), EXCLUSIVE);
    }
}

/// The holder releases the lock to the next client and joins the queue again.
fn hand_over<H: Host>(lock: &mut Lock<H>, waiters: u32, cycle: u32) {
    let holder = token(cycle % (waiters + 1), 1);
    assert_eq!(lock.release(&holder).status, "released");
    lock.wait(&holder, EXCLUSIVE);
}
