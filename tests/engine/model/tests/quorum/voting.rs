//! Which client gets the lock, and when that is certain.

use std::time::Duration;

use leasehold_core::{AcquireOptions, Error, Input, Outcome, ReleaseOutcome, Wait};

use crate::world::{Health, MS, NAME, ScriptedQuorum, options};

#[test]
fn a_majority_is_enough_and_the_rest_is_not_waited_for() {
    let mut quorum = ScriptedQuorum::new(5, 1);
    quorum.ahead = vec![3 * MS, MS, 2 * MS, 4 * MS, 5 * MS];
    quorum.warm();
    quorum.set([3, 4], Health::Slow(90 * MS));
    let began = quorum.now();
    let grant = quorum.acquired(0, 30_000);
    // One round trip for the lock, one for the fence.
    assert_eq!(quorum.now() - began, 2 * MS);
    let validity = grant.valid_until.as_micros() - began;
    assert_eq!(
        validity,
        30_000 * MS - 352 * MS,
        "1 % and 2 ms for clocks and 50 ms for late timers are taken off, from the sending"
    );
}

#[test]
fn slower_servers_join_the_lease_and_give_it_back_with_it() {
    let mut quorum = ScriptedQuorum::new(5, 1);
    quorum.warm();
    quorum.set([3, 4], Health::Slow(90 * MS));
    let grant = quorum.acquired(0, 30_000);
    quorum.settle();
    assert_eq!(quorum.held(), 5);
    assert_eq!(quorum.release(0, grant.lease), Ok(Outcome::Released(ReleaseOutcome::Released)));
    quorum.settle();
    assert_eq!(quorum.held(), 0);
    assert!(quorum.is_idle(0));
}

#[test]
fn a_lease_that_was_released_before_slow_servers_answered_is_given_back_there_too() {
    let mut quorum = ScriptedQuorum::new(5, 1);
    quorum.set([3, 4], Health::Slow(90 * MS));
    let grant = quorum.acquired(0, 30_000);
    quorum.release(0, grant.lease).unwrap();
    quorum.settle();
    assert_eq!(quorum.held(), 0);
    assert!(quorum.is_idle(0));
}

#[test]
fn a_dead_minority_is_not_needed() {
    let mut quorum = ScriptedQuorum::new(5, 1);
    quorum.set([0, 1], Health::Dead);
    let grant = quorum.acquired(0, 30_000);
    assert_eq!(quorum.release(0, grant.lease), Ok(Outcome::Released(ReleaseOutcome::Released)));
}

#[test]
fn the_second_client_waits_and_gets_it_after_the_release() {
    let mut quorum = ScriptedQuorum::new(5, 2);
    let first = quorum.acquired(0, 30_000);
    let op = quorum.acquire(1, 30_000, Wait::Forever);
    quorum.settle();
    assert!(quorum.clients[1].ended.is_empty());
    quorum.release(0, first.lease).unwrap();
    let Ok(Outcome::Acquired(second)) = quorum.result(1, op) else { panic!("not acquired") };
    assert!(second.fence > first.fence);
}

#[test]
fn callers_of_one_client_are_served_in_order() {
    let mut quorum = ScriptedQuorum::new(3, 1);
    quorum.warm();
    let began = quorum.now();
    let ops: Vec<_> = (0..5).map(|_| quorum.acquire(0, 30_000, Wait::Forever)).collect();
    let mut fences = Vec::new();
    for op in ops {
        let grant = quorum.granted(0, op);
        fences.push(grant.fence);
        quorum.release(0, grant.lease).unwrap();
    }
    assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
    let took = quorum.now() - began;
    assert!(took < 25 * MS, "the next asks at once: {took} us");
}

#[test]
fn a_try_is_busy_at_once_while_another_client_or_caller_holds_it() {
    let mut quorum = ScriptedQuorum::new(5, 2);
    quorum.acquired(0, 30_000);
    for client in [0, 1] {
        let began = quorum.now();
        assert!(matches!(quorum.tried(client, 30_000), Err(Error::Busy { holder_remaining: Some(_), .. })));
        assert!(quorum.now() - began <= 2 * MS);
    }
}

/// It takes two round trips here, because the servers' clocks differ, so one server has to remember a greater fence.
#[test]
fn a_try_ends_within_the_time_that_it_was_given() {
    for (answers_after, within) in [(60, 30), (20, 30)] {
        let mut quorum = ScriptedQuorum::new(3, 1);
        quorum.warm();
        quorum.ahead = vec![0, 40 * MS, 80 * MS];
        quorum.set(0..3, Health::Slow(answers_after * MS));
        let within = Duration::from_millis(within);
        let options = AcquireOptions { within: Some(within), ..options(30_000, Wait::No) };
        let began = quorum.now();
        let op = quorum.call(0, |op| Input::Acquire { op, name: NAME, options: &options });
        let error = quorum.result(0, op).unwrap_err();
        assert_eq!((error.code(), quorum.now() - began), ("unreachable", 30 * MS), "{error}");
        quorum.pass(1_000 * MS);
        assert_eq!(quorum.held(), 0);
        assert!(quorum.is_idle(0));
    }
}

#[test]
fn a_wait_that_was_cancelled_or_timed_out_leaves_nothing_behind() {
    let mut quorum = ScriptedQuorum::new(5, 2);
    let first = quorum.acquired(0, 30_000);
    let op = quorum.acquire(1, 30_000, Wait::For(Duration::from_millis(300)));
    assert!(matches!(quorum.result(1, op), Err(Error::Busy { .. })));
    let op = quorum.acquire(1, 30_000, Wait::Forever);
    quorum.call(1, |_| Input::Cancel { op });
    assert_eq!(quorum.result(1, op), Err(Error::Cancelled));
    quorum.release(0, first.lease).unwrap();
    quorum.settle();
    assert_eq!(quorum.held(), 0);
    assert!(quorum.is_idle(0) && quorum.is_idle(1));
}

#[test]
fn a_release_also_reaches_servers_whose_answers_were_lost() {
    let mut quorum = ScriptedQuorum::new(5, 2);
    quorum.set([0, 1, 2], Health::Mute);
    assert!(matches!(quorum.tried(0, 30_000), Err(Error::Unreachable { .. })));
    quorum.set([0, 1, 2], Health::Well);
    quorum.pass(2_000 * MS);
    assert_eq!(quorum.held(), 0, "the releases were sent again");
    quorum.acquired(1, 30_000);
}

/// Until then the client doesn't ask it. The silence of the dead server lasts for two node timeouts.
#[test]
fn a_server_votes_as_soon_as_it_has_confirmed_an_earlier_release_though_another_one_is_dead() {
    for (server, dead) in [(0, 1), (1, 2), (2, 0)] {
        let mut quorum = ScriptedQuorum::new(3, 1);
        quorum.warm();
        quorum.set([dead], Health::Dead);
        quorum.set([server], Health::Mute);
        let op = quorum.acquire(0, 30_000, Wait::For(Duration::from_millis(50)));
        assert!(matches!(quorum.result(0, op), Err(Error::Unreachable { .. })));
        // The reply to the release is overdue, and the release is not sent again yet.
        quorum.pass(100 * MS);
        quorum.set([server], Health::Well);
        let sent = quorum.sent;
        let began = quorum.now();
        let op = quorum.acquire(0, 30_000, Wait::Forever);
        assert_eq!(quorum.sent - sent, 2, "server {server} is not asked yet");
        quorum.granted(0, op);
        let took = quorum.now() - began;
        assert!(took < 50 * MS, "with server {server}: {took} us");
    }
}

/// The last holder's release reaches that server late. The silence of the dead server lasts for two node timeouts.
#[test]
fn a_client_that_finds_a_server_busy_tries_again_although_another_one_is_dead() {
    for (server, dead) in [(0, 1), (1, 2), (2, 0)] {
        let mut quorum = ScriptedQuorum::new(3, 2);
        quorum.warm();
        let last = quorum.acquired(1, 30_000);
        quorum.settle();
        quorum.set([server], Health::Refusing("TRYAGAIN Multiple keys request during rehashing of slot"));
        assert_eq!(quorum.release(1, last.lease), Ok(Outcome::Released(ReleaseOutcome::Released)));
        quorum.set([server], Health::Well);
        quorum.set([dead], Health::Dead);
        assert!(quorum.holder(server).is_some());
        let began = quorum.now();
        quorum.acquired(0, 30_000);
        let took = quorum.now() - began;
        assert!(took < 100 * MS, "with server {server}: {took} us");
    }
}

#[test]
fn a_split_vote_is_resolved_by_random_delays() {
    let mut quorum = ScriptedQuorum::new(4 + 1, 3);
    let ops = [0, 1, 2].map(|client| quorum.acquire(client, 30_000, Wait::Forever));
    for client in [0, 1, 2] {
        // The winner holds it for a while.
        let (winner, lease) = loop {
            let found = (0..3).find_map(|client| {
                let results = quorum.clients[client].ended.iter();
                results.rev().find_map(|(op, result)| match result {
                    Ok(Outcome::Acquired(grant)) if *op == ops[client] => Some((client, grant.lease)),
                    _ => None,
                })
            });
            match found {
                Some(found) if quorum.valid_until(found.0, found.1).is_some() => break found,
                _ => quorum.pass(MS),
            }
            assert!(quorum.now() < 10_000 * MS, "nobody wins after {client} had it");
        };
        quorum.release(winner, lease).unwrap();
        quorum.clients[winner].ended.clear();
    }
}

#[test]
fn a_client_that_closes_gives_everything_back() {
    let mut quorum = ScriptedQuorum::new(3, 1);
    quorum.acquired(0, 30_000);
    let waiting = quorum.acquire(0, 30_000, Wait::Forever);
    let op = quorum.call(0, |op| Input::Close { op });
    assert_eq!(quorum.result(0, op), Ok(Outcome::Closed { lost: 1, unreleased: 0 }));
    assert_eq!(quorum.result(0, waiting), Err(Error::Closed));
    assert_eq!(quorum.held(), 0);
    assert!(quorum.is_idle(0));
    assert_eq!(quorum.tried(0, 30_000), Err(Error::Closed));
}
