//! The queue on the first server: in which order clients get the lock, and how they get it without that server.

use leasehold_core::{Error, Grant, Input, OpId, Outcome, Wait};

use crate::world::{Health, MS, NAME, ScriptedQuorum};

/// Three servers. Client 0 holds the lock, and the other clients wait in the order of their numbers.
fn waiting(clients: usize) -> (ScriptedQuorum, Grant, Vec<OpId>) {
    let mut quorum = ScriptedQuorum::new(3, clients);
    quorum.warm();
    let held = quorum.acquired(0, 30_000);
    let waiters = (1..clients)
        .map(|client| {
            let op = quorum.acquire(client, 30_000, Wait::Forever);
            quorum.pass(10 * MS);
            op
        })
        .collect();
    (quorum, held, waiters)
}

#[test]
fn waiting_clients_are_served_in_order_within_three_round_trips_of_the_release() {
    let (mut quorum, mut held, waiters) = waiting(5);
    quorum.pass(5_000 * MS);
    for (client, op) in (1..).zip(waiters) {
        let released = quorum.now();
        quorum.call(client - 1, |op| Input::Release { op, lease: held.lease });
        let next = quorum.granted(client, op);
        assert!(quorum.now() - released <= 3 * MS, "client {client} after {} us", quorum.now() - released);
        assert!(next.fence > held.fence);
        held = next;
    }
}

#[test]
fn a_waiting_client_asks_the_first_server_and_leaves_the_others_alone() {
    let (mut quorum, ..) = waiting(2);
    quorum.pass(1_000 * MS);
    let before = quorum.sent;
    quorum.pass(10_000 * MS);
    // The holder renews its lease on three servers. The waiter keeps its place, and asks the two others now and then.
    assert!(quorum.sent - before <= 30, "{} commands in 10 s", quorum.sent - before);
}

/// Client 1 has just got its turn, and client 2 waits behind it. Returns the grant and the waiting calls of client 1,
/// and the call of client 2.
fn at_its_turn(quorum: &mut ScriptedQuorum, callers: usize, ahead: u64) -> (Grant, Vec<OpId>, OpId) {
    let held = quorum.acquired(0, 30_000);
    let mut ops: Vec<OpId> = (0..callers).map(|_| quorum.acquire(1, 30_000, Wait::Forever)).collect();
    quorum.pass(10 * MS);
    let behind = quorum.acquire(2, 30_000, Wait::Forever);
    quorum.pass(10 * MS);
    quorum.release(0, held.lease).unwrap();
    quorum.ahead[1] = ahead;
    let first = ops.remove(0);
    let grant = quorum.granted(1, first);
    (grant, ops, behind)
}

#[test]
fn a_client_with_many_callers_lets_another_one_in_after_32_local_turns() {
    let mut quorum = ScriptedQuorum::new(3, 3);
    quorum.warm();
    let (grant, ops, behind) = at_its_turn(&mut quorum, 100, 0);
    let (mut lease, mut last, mut turns) = (grant.lease, grant.fence, 0);
    for op in &ops {
        let released = quorum.now();
        quorum.call(1, |op| Input::Release { op, lease });
        while !quorum.has_ended(1, *op) && !quorum.has_ended(2, behind) {
            quorum.pass(MS / 2);
        }
        if quorum.has_ended(2, behind) {
            break;
        }
        let grant = quorum.granted(1, *op);
        assert!(grant.fence > last);
        assert!(quorum.now() - released <= 3 * MS, "turn {turns} after {} us", quorum.now() - released);
        (lease, last, turns) = (grant.lease, grant.fence, turns + 1);
    }
    assert_eq!(turns, 32);
    let grant = quorum.granted(2, behind);
    assert!(grant.fence > last);
    // Client 1 waits behind client 2 in the queue.
    let released = quorum.now();
    quorum.call(2, |op| Input::Release { op, lease: grant.lease });
    quorum.granted(1, ops[turns]);
    assert!(quorum.now() - released <= 3 * MS);
}

#[test]
fn a_client_that_did_not_know_of_others_lets_them_in_within_a_few_turns() {
    let mut quorum = ScriptedQuorum::new(3, 2);
    quorum.warm();
    let ops: Vec<OpId> = (0..200).map(|_| quorum.acquire(0, 30_000, Wait::Forever)).collect();
    let mut lease = quorum.granted(0, ops[0]).lease;
    let other = quorum.acquire(1, 30_000, Wait::Forever);
    quorum.pass(10 * MS);
    let mut turns = 0;
    for op in &ops[1..] {
        quorum.call(0, |op| Input::Release { op, lease });
        while !quorum.has_ended(0, *op) && !quorum.has_ended(1, other) {
            quorum.pass(MS / 2);
        }
        if quorum.has_ended(1, other) {
            break;
        }
        (lease, turns) = (quorum.granted(0, *op).lease, turns + 1);
    }
    assert!(turns <= 5, "{turns} turns");
}

#[test]
fn a_wait_that_ends_leaves_the_queue_and_the_next_client_moves_up() {
    let (mut quorum, held, _) = waiting(1);
    let gone = quorum.acquire(0, 30_000, Wait::Forever);
    assert_eq!(quorum.clients.len(), 1);
    quorum.call(0, |_| Input::Cancel { op: gone });
    quorum.release(0, held.lease).unwrap();

    let (mut quorum, held, waiters) = waiting(3);
    quorum.call(1, |_| Input::Cancel { op: waiters[0] });
    assert_eq!(quorum.result(1, waiters[0]), Err(Error::Cancelled));
    quorum.pass(5 * MS);
    let released = quorum.now();
    quorum.call(0, |op| Input::Release { op, lease: held.lease });
    let grant = quorum.granted(2, waiters[1]);
    assert!(quorum.now() - released <= 3 * MS);
    quorum.release(2, grant.lease).unwrap();
    quorum.settle();
    assert_eq!(quorum.held(), 0);
    assert!((0..3).all(|client| quorum.is_idle(client)));
}

#[test]
fn a_client_whose_turn_it_is_but_whose_caller_has_left_passes_it_on() {
    let (mut quorum, held, waiters) = waiting(3);
    // The grant of the first server is on its way.
    quorum.call(0, |op| Input::Release { op, lease: held.lease });
    quorum.pass(MS / 2);
    quorum.call(1, |_| Input::Cancel { op: waiters[0] });
    let from = quorum.now();
    quorum.granted(2, waiters[1]);
    assert!(quorum.now() - from <= 5 * MS, "after {} us", quorum.now() - from);
}

#[test]
fn waiters_get_the_lock_without_the_first_server() {
    for health in [Health::Dead, Health::Mute] {
        // The first server is down from the beginning.
        let mut quorum = ScriptedQuorum::new(3, 2);
        quorum.warm();
        quorum.set([0], health);
        let held = quorum.acquired(0, 30_000);
        let op = quorum.acquire(1, 30_000, Wait::Forever);
        quorum.settle();
        quorum.call(0, |op| Input::Release { op, lease: held.lease });
        let from = quorum.now();
        quorum.granted(1, op);
        assert!(quorum.now() - from <= 1_000 * MS, "{health:?}: after {} us", quorum.now() - from);

        // The first server goes down while a client waits there.
        let (mut quorum, held, waiters) = waiting(2);
        quorum.set([0], health);
        quorum.pass(5_000 * MS);
        let from = quorum.now();
        quorum.call(0, |op| Input::Release { op, lease: held.lease });
        let grant = quorum.granted(1, waiters[0]);
        assert!(quorum.now() - from <= 1_000 * MS, "{health:?}: after {} us", quorum.now() - from);
        // The first server comes back.
        quorum.set([0], Health::Well);
        quorum.release(1, grant.lease).unwrap();
        let again = quorum.acquired(0, 30_000);
        assert!(again.fence > grant.fence);
    }
}

#[test]
fn a_client_that_reaches_only_the_first_server_does_not_keep_the_others_from_the_lock() {
    let (mut quorum, held, waiters) = waiting(3);
    quorum.cut(1, [1, 2]);
    quorum.call(0, |op| Input::Release { op, lease: held.lease });
    let from = quorum.now();
    quorum.granted(2, waiters[1]);
    assert!(quorum.now() - from <= 1_000 * MS, "after {} us", quorum.now() - from);
}

#[test]
fn a_turn_that_is_passed_on_has_a_greater_fence_though_only_the_first_server_knows_the_last_one() {
    let mut quorum = ScriptedQuorum::new(3, 3);
    quorum.warm();
    quorum.set([2], Health::Dead);
    // Server 1 is an hour ahead.
    let (held, ops, _) = at_its_turn(&mut quorum, 2, 3_600_000 * MS);
    quorum.pass(20 * MS);
    quorum.set([1], Health::Dead);
    quorum.set([2], Health::Well);
    quorum.call(1, |op| Input::Release { op, lease: held.lease });
    let next = quorum.granted(1, ops[0]);
    assert!(next.fence > held.fence, "{} after {}", next.fence, held.fence);
}

#[test]
fn a_first_server_that_has_lost_its_data_does_not_count_for_the_next_local_caller() {
    let mut quorum = ScriptedQuorum::new(5, 4);
    quorum.warm();
    quorum.cut(1, [3, 4]);
    let (held, ops, _) = at_its_turn(&mut quorum, 2, 0);
    // Server 0 forgets the lease, and another client gets a majority with it.
    quorum.wipe(0);
    let other = quorum.acquired(3, 30_000);
    quorum.call(1, |op| Input::Release { op, lease: held.lease });
    quorum.pass(2_000 * MS);
    assert!(!quorum.has_ended(1, ops[0]), "two clients hold the lock");
    quorum.call(3, |op| Input::Release { op, lease: other.lease });
    let grant = quorum.granted(1, ops[0]);
    assert!(grant.fence > other.fence);
}

#[test]
fn callers_with_other_options_get_a_lease_of_their_own_on_every_server() {
    let mut quorum = ScriptedQuorum::new(3, 1);
    quorum.warm();
    let held = quorum.acquired(0, 30_000);
    let op = quorum.acquire(0, 5_000, Wait::Forever);
    quorum.settle();
    quorum.release(0, held.lease).unwrap();
    let grant = quorum.granted(0, op);
    quorum.settle();
    let left = grant.valid_until.as_micros() - quorum.now();
    assert!(left <= 5_000 * MS, "{left} us");
    for server in 0..3 {
        assert!(quorum.ttl(server) <= 5_000, "server {server}: {} ms", quorum.ttl(server));
    }
}

#[test]
fn inspect_shows_who_waits_at_the_first_server() {
    let (mut quorum, ..) = waiting(3);
    let op = quorum.call(0, |op| Input::Inspect { op, name: NAME });
    let Ok(Outcome::Inspected(seen)) = quorum.result(0, op) else { panic!("not inspected") };
    assert_eq!(seen.holders.len(), 1);
    assert_eq!(seen.waiters.len(), 2);
}

#[test]
fn clients_that_list_the_servers_in_other_orders_get_the_lock_nevertheless() {
    let mut quorum = ScriptedQuorum::listed(3, vec![vec![0, 1, 2], vec![0, 1, 2], vec![1, 2, 0], vec![2, 0, 1]]);
    quorum.warm();
    let held = quorum.acquired(0, 30_000);
    let ops: Vec<(usize, OpId)> =
        (1..4).map(|client| (client, quorum.acquire(client, 30_000, Wait::Forever))).collect();
    quorum.pass(2_000 * MS);
    quorum.call(0, |op| Input::Release { op, lease: held.lease });
    let mut open = ops;
    while !open.is_empty() {
        let (client, grant) = next(&mut quorum, &mut open, 5_000);
        quorum.pass(10 * MS);
        quorum.call(client, |op| Input::Release { op, lease: grant.lease });
    }
}

#[test]
fn a_key_that_never_ends_on_the_first_server_does_not_keep_waiters_from_the_lock() {
    let mut quorum = ScriptedQuorum::new(3, 3);
    quorum.warm();
    quorum.write(0);
    let held = quorum.acquired(0, 30_000);
    let ops: Vec<OpId> = (1..3).map(|client| quorum.acquire(client, 30_000, Wait::Forever)).collect();
    quorum.pass(2_000 * MS);
    let mut last = (0, held);
    for (client, op) in (1..).zip(ops) {
        quorum.call(last.0, |op| Input::Release { op, lease: last.1.lease });
        let from = quorum.now();
        while !quorum.has_ended(client, op) {
            quorum.pass(MS);
            assert!(quorum.now() - from <= 5_000 * MS, "client {client} waits");
        }
        last = (client, quorum.granted(client, op));
    }
}

#[test]
fn a_client_that_wins_no_majority_gives_its_turn_to_the_next_one() {
    let (mut quorum, held, waiters) = five(&[2]);
    // Client 1 doesn't reach the servers 3 and 4, and server 2 is held for ever.
    quorum.cut(1, [3, 4]);
    quorum.call(0, |op| Input::Release { op, lease: held.lease });
    let from = quorum.now();
    while !quorum.has_ended(2, waiters[1]) {
        quorum.pass(MS);
        assert!(quorum.now() - from <= 5_000 * MS, "client 2 waits");
    }
}

/// Five servers, of which these are held for ever. Client 0 holds the others, and the clients 1 and 2 wait.
fn five(held: &[usize]) -> (ScriptedQuorum, Grant, Vec<OpId>) {
    let mut quorum = ScriptedQuorum::new(5, 4);
    quorum.warm();
    for server in held {
        quorum.write(*server);
    }
    let held = quorum.acquired(0, 30_000);
    let waiters = [1, 2].map(|client| {
        let op = quorum.acquire(client, 30_000, Wait::Forever);
        quorum.pass(10 * MS);
        op
    });
    (quorum, held, waiters.to_vec())
}

#[test]
fn a_first_server_that_has_lost_its_data_does_not_count_for_a_later_attempt() {
    let mut quorum = ScriptedQuorum::new(5, 3);
    // Its clock is ahead, so it remembers all fences of the others.
    quorum.ahead[0] = 60_000 * MS;
    quorum.warm();
    let held = quorum.acquired(0, 5_000);
    let op = quorum.acquire(1, 30_000, Wait::Forever);
    quorum.pass(20 * MS);
    // The holder's release doesn't reach the servers 1 and 2, where its lease goes on for 5 s.
    quorum.cut(0, [1, 2]);
    quorum.cut(1, [3, 4]);
    quorum.call(0, |op| Input::Release { op, lease: held.lease });
    quorum.pass(4_700 * MS);
    assert!(quorum.ttl(1) > 0 && !quorum.has_ended(1, op));
    quorum.wipe(0);
    let other = quorum.acquired(2, 30_000);
    quorum.pass(2_000 * MS);
    assert!(!quorum.has_ended(1, op), "two clients hold the lock");
    quorum.call(2, |op| Input::Release { op, lease: other.lease });
    let grant = quorum.granted(1, op);
    assert!(grant.fence > other.fence);
}

#[test]
fn waiters_get_the_lock_soon_if_the_first_server_refuses_to_send_messages() {
    let mut quorum = ScriptedQuorum::new(3, 5);
    quorum.silent = true;
    quorum.warm();
    let mut held = (0, quorum.acquired(0, 30_000));
    let mut open: Vec<(usize, OpId)> =
        (1..5).map(|client| (client, quorum.acquire(client, 30_000, Wait::Forever))).collect();
    quorum.pass(3_000 * MS);
    while !open.is_empty() {
        quorum.call(held.0, |op| Input::Release { op, lease: held.1.lease });
        held = next(&mut quorum, &mut open, 600);
    }
}

#[test]
fn clients_that_ask_again_at_once_after_each_release_take_turns() {
    let mut quorum = ScriptedQuorum::new(3, 3);
    quorum.warm();
    let mut ops = [0, 1, 2].map(|client| quorum.acquire(client, 30_000, Wait::Forever));
    let mut turns = [0; 3];
    let end = quorum.now() + 10_000 * MS;
    while quorum.now() < end {
        quorum.pass(MS / 2);
        let Some(client) = (0..3).find(|client| quorum.has_ended(*client, ops[*client])) else { continue };
        let grant = quorum.granted(client, ops[client]);
        turns[client] += 1;
        quorum.pass(30 * MS);
        quorum.call(client, |op| Input::Release { op, lease: grant.lease });
        ops[client] = quorum.acquire(client, 30_000, Wait::Forever);
    }
    assert!(turns.iter().min().unwrap() * 10 >= turns.iter().max().unwrap() * 9, "{turns:?}");
}

#[test]
fn a_try_after_a_release_is_answered_at_once_though_others_wait() {
    let (mut quorum, held, _) = waiting(2);
    quorum.release(0, held.lease).unwrap();
    let from = quorum.now();
    assert!(matches!(quorum.tried(0, 30_000), Err(Error::Busy { .. })));
    assert!(quorum.now() - from <= 3 * MS, "after {} us", quorum.now() - from);
}

#[test]
fn waiters_are_served_by_a_first_server_that_has_restarted_empty() {
    let (mut quorum, mut held, waiters) = waiting(5);
    quorum.restart_empty();
    quorum.pass(3_000 * MS);
    let mut holder = 0;
    let mut open: Vec<(usize, OpId)> = (1..).zip(waiters).collect();
    while !open.is_empty() {
        quorum.call(holder, |op| Input::Release { op, lease: held.lease });
        let (client, grant) = next(&mut quorum, &mut open, 1_000);
        assert!(grant.fence > held.fence);
        (holder, held) = (client, grant);
    }
    quorum.release(holder, held.lease).unwrap();
    quorum.settle();
    assert_eq!(quorum.held(), 0);
    assert!((0..5).all(|client| quorum.is_idle(client)));
}

#[test]
fn a_client_that_closes_while_it_waits_leaves_the_queue() {
    let (mut quorum, held, waiters) = waiting(3);
    let close = quorum.call(1, |op| Input::Close { op });
    assert_eq!(quorum.result(1, close), Ok(Outcome::Closed { lost: 0, unreleased: 0 }));
    assert_eq!(quorum.result(1, waiters[0]), Err(Error::Closed));
    assert!(quorum.is_idle(1));
    let released = quorum.now();
    quorum.call(0, |op| Input::Release { op, lease: held.lease });
    quorum.granted(2, waiters[1]);
    assert!(quorum.now() - released <= 3 * MS);
}

/// The next of these calls that ends, within this many milliseconds.
fn next(quorum: &mut ScriptedQuorum, open: &mut Vec<(usize, OpId)>, within: u64) -> (usize, Grant) {
    let from = quorum.now();
    let ended = loop {
        quorum.pass(MS / 2);
        if let Some(at) = open.iter().position(|(client, op)| quorum.has_ended(*client, *op)) {
            break at;
        }
        assert!(quorum.now() - from <= within * MS, "nobody has got the lock, and {} wait", open.len());
    };
    let (client, op) = open.remove(ended);
    (client, quorum.granted(client, op))
}
