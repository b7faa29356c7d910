//! While a lease is held: renew, extend, verify, inspect, hold again.

use std::time::Duration;

use leasehold_core::{
    AcquireOptions, Error, Fence, Input, Instant, LeaseToken, LossReason, Outcome, ReleaseOutcome, Wait,
};

use crate::world::{Health, MS, NAME, ScriptedQuorum, options};

#[test]
fn a_lease_is_renewed_while_a_majority_works() {
    let mut quorum = ScriptedQuorum::new(5, 1);
    let grant = quorum.acquired(0, 1_000);
    quorum.set([0, 1], Health::Dead);
    quorum.pass(60_000 * MS);
    assert!(quorum.clients[0].lost.is_empty());
    assert!(quorum.valid_until(0, grant.lease).unwrap() > quorum.now() + 500 * MS);
    assert_eq!(quorum.release(0, grant.lease), Ok(Outcome::Released(ReleaseOutcome::Released)));
}

#[test]
fn servers_that_come_back_join_the_lease() {
    let mut quorum = ScriptedQuorum::new(5, 1);
    let grant = quorum.acquired(0, 1_000);
    // The servers restart empty one after the other, so at most one at a time is without the lease.
    for server in 0..5 {
        quorum.servers[server].0.flush_all();
        quorum.pass(1_500 * MS);
    }
    assert!(quorum.clients[0].lost.is_empty());
    assert!(quorum.valid_until(0, grant.lease).is_some());
    assert_eq!(quorum.held(), 5);
    assert!((0..5).all(|server| quorum.last_fence(server) >= grant.fence));
}

#[test]
fn verify_needs_a_majority() {
    let mut quorum = ScriptedQuorum::new(5, 1);
    let lease = quorum.acquired(0, 30_000).lease;
    quorum.settle();
    quorum.servers[0].0.flush_all();
    quorum.servers[1].0.flush_all();
    let op = quorum.call(0, |op| Input::Verify { op, lease });
    assert_eq!(quorum.result(0, op), Ok(Outcome::Verified(true)));
    quorum.servers[2].0.flush_all();
    quorum.servers[3].0.flush_all();
    quorum.servers[4].0.flush_all();
    let op = quorum.call(0, |op| Input::Verify { op, lease });
    assert_eq!(quorum.result(0, op), Ok(Outcome::Verified(false)));
    assert!(matches!(quorum.clients[0].lost[..], [(_, _, LossReason::Gone)]));
    let op = quorum.call(0, |op| Input::Verify { op, lease });
    assert_eq!(quorum.result(0, op), Err(Error::NotHeld));
}

#[test]
fn extend_gives_at_least_the_requested_time_on_a_majority() {
    let mut quorum = ScriptedQuorum::new(5, 1);
    let fixed = AcquireOptions { renew: false, ..options(1_000, Wait::No) };
    let op = quorum.call(0, |op| Input::Acquire { op, name: NAME, options: &fixed });
    let grant = quorum.granted(0, op);
    quorum.set([3, 4], Health::Dead);
    let (lease, ttl) = (grant.lease, Duration::from_secs(20));
    let began = quorum.now();
    let op = quorum.call(0, |op| Input::Extend { op, lease, ttl });
    let Ok(Outcome::Extended { valid_until }) = quorum.result(0, op) else { panic!("not extended") };
    assert!(valid_until.as_micros() >= began + 20_000 * MS);
    assert_eq!(quorum.valid_until(0, lease), Some(valid_until.as_micros()));
    quorum.set([2], Health::Dead);
    let op = quorum.call(0, |op| Input::Extend { op, lease, ttl });
    let error = quorum.result(0, op).unwrap_err();
    assert_eq!(error.code(), "unreachable");
    let text = error.to_string();
    assert!(text.contains("2 of 5 agreed, 3 "), "{text}");
    assert!(text.contains("s2, s3, s4") || text.contains("(s2)"), "{text}");
}

#[test]
fn a_server_that_may_not_know_the_fence_yet_counts_for_an_extend_once_it_was_told() {
    let mut quorum = ScriptedQuorum::new(3, 1);
    // The first server's clock is ahead, so the others have to be told the fence.
    quorum.ahead[0] = 60_000 * MS;
    quorum.warm();
    let op = quorum.acquire(0, 30_000, Wait::Forever);
    quorum.pass(MS);
    quorum.set([2], Health::Mute);
    let lease = quorum.granted(0, op).lease;
    assert_eq!(quorum.held(), 3);
    quorum.set([2], Health::Well);
    quorum.set([1], Health::Dead);
    let op = quorum.call(0, |op| Input::Extend { op, lease, ttl: Duration::from_secs(60) });
    quorum.pass(2 * MS);
    assert!(!quorum.has_ended(0, op), "only the first server counts");
    assert!(quorum.result(0, op).is_ok(), "the third server has been told again");
}

#[test]
fn a_fixed_lease_and_max_hold_end_in_time() {
    let mut quorum = ScriptedQuorum::new(3, 1);
    let bounded = AcquireOptions { max_hold: Some(Duration::from_secs(5)), ..options(1_000, Wait::No) };
    let op = quorum.call(0, |op| Input::Acquire { op, name: NAME, options: &bounded });
    let grant = quorum.granted(0, op);
    let granted = quorum.now();
    quorum.pass(10_000 * MS);
    assert_eq!(quorum.clients[0].lost, [(grant.lease, granted + 5_000 * MS, LossReason::MaxHold)]);
    let fixed = AcquireOptions { renew: false, ..options(1_000, Wait::No) };
    let op = quorum.call(0, |op| Input::Acquire { op, name: NAME, options: &fixed });
    let grant = quorum.granted(0, op);
    let granted = quorum.now();
    quorum.pass(10_000 * MS);
    let (lease, at, reason) = quorum.clients[0].lost[1];
    assert_eq!((lease, reason), (grant.lease, LossReason::Expired));
    assert!(at <= granted + 1_000 * MS && at == grant.valid_until.as_micros());
    assert!(quorum.is_idle(0));
}

#[test]
fn a_kept_lease_ends_when_its_keep_ends() {
    let mut quorum = ScriptedQuorum::new(3, 1);
    let lease = quorum.acquired(0, 1_000).lease;
    let until = quorum.now() + 7_000 * MS;
    quorum.tell(0, Input::Keep { lease, until: Instant::from_micros(until) });
    quorum.pass(20_000 * MS);
    assert_eq!(quorum.clients[0].lost, [(lease, until, LossReason::MaxHold)]);
}

#[test]
fn a_lease_that_is_no_longer_renewed_ends_after_its_ttl_and_can_be_extended() {
    let mut quorum = ScriptedQuorum::new(3, 1);
    let lease = quorum.acquired(0, 1_000).lease;
    quorum.pass(5_000 * MS);
    quorum.tell(0, Input::StopRenewing { lease });
    let op = quorum.call(0, |op| Input::Extend { op, lease, ttl: Duration::from_secs(3) });
    let Ok(Outcome::Extended { valid_until }) = quorum.result(0, op) else { panic!("not extended") };
    quorum.pass(20_000 * MS);
    assert_eq!(quorum.clients[0].lost, [(lease, valid_until.as_micros(), LossReason::Expired)]);
    assert!(quorum.is_idle(0));
}

#[test]
fn a_lease_that_is_no_longer_renewed_ends_although_servers_come_back_one_by_one() {
    for phase in 0..20 {
        let mut quorum = ScriptedQuorum::new(3, 1);
        let lease = quorum.acquired(0, 3_000).lease;
        quorum.set([0], Health::Dead);
        quorum.pass((5_000 + 100 * phase) * MS);
        // The lease ends earlier on the second server than on the third.
        quorum.set([1], Health::Dead);
        quorum.pass(1_500 * MS);
        quorum.tell(0, Input::StopRenewing { lease });
        let stopped = quorum.now();
        quorum.set([0, 1], Health::Well);
        quorum.pass(20_000 * MS);
        let [(lost, at, LossReason::Expired)] = quorum.clients[0].lost[..] else { panic!("phase {phase}") };
        assert!(lost == lease && at <= stopped + 3_000 * MS, "phase {phase}: {at}");
        assert!(quorum.is_idle(0));
    }
}

#[test]
fn a_server_that_answers_after_the_renewals_have_stopped_is_not_renewed() {
    let mut quorum = ScriptedQuorum::new(3, 1);
    quorum.set([0], Health::Slow(50 * MS));
    let lease = quorum.acquired(0, 1_000).lease;
    quorum.tell(0, Input::StopRenewing { lease });
    quorum.set([0], Health::Well);
    quorum.pass(200 * MS);
    assert_eq!(quorum.held(), 3);
    let sent = quorum.sent;
    quorum.pass(700 * MS);
    assert_eq!(quorum.sent, sent, "no renewal");
}

#[test]
fn a_lease_that_is_no_longer_renewed_keeps_its_max_hold() {
    let mut quorum = ScriptedQuorum::new(3, 1);
    let bounded = AcquireOptions { max_hold: Some(Duration::from_secs(5)), ..options(1_000, Wait::No) };
    let op = quorum.call(0, |op| Input::Acquire { op, name: NAME, options: &bounded });
    let lease = quorum.granted(0, op).lease;
    let until = quorum.now() + 5_000 * MS;
    quorum.tell(0, Input::StopRenewing { lease });
    let op = quorum.call(0, |op| Input::Extend { op, lease, ttl: Duration::from_secs(60) });
    assert!(quorum.result(0, op).is_ok());
    quorum.pass(60_000 * MS);
    assert_eq!(quorum.clients[0].lost, [(lease, until, LossReason::MaxHold)]);
}

#[test]
fn a_lease_of_a_quorum_is_neither_exported_nor_adopted() {
    let mut quorum = ScriptedQuorum::new(3, 1);
    let lease = quorum.acquired(0, 30_000).lease;
    let op = quorum.call(0, |op| Input::Export { op, lease });
    assert_eq!(quorum.result(0, op).unwrap_err().code(), "unsupported");
    let token = LeaseToken::read("01234567-89ab-cdef-0123-456789abcdef:7").unwrap();
    let wait = options(1_000, Wait::No);
    let op = quorum.call(0, |op| Input::Adopt { op, name: NAME, token, options: &wait });
    assert_eq!(quorum.result(0, op).unwrap_err().code(), "unsupported");
}

#[test]
fn further_holds_are_counted_by_the_client() {
    let mut quorum = ScriptedQuorum::new(3, 1);
    let lease = quorum.acquired(0, 30_000).lease;
    let sent = quorum.sent;
    let op = quorum.call(0, |op| Input::Hold { op, lease });
    assert_eq!(quorum.result(0, op), Ok(Outcome::Held(2)));
    assert_eq!(quorum.release(0, lease), Ok(Outcome::Released(ReleaseOutcome::StillHeld)));
    assert_eq!(quorum.sent, sent);
    assert_eq!(quorum.release(0, lease), Ok(Outcome::Released(ReleaseOutcome::Released)));
    assert_eq!(quorum.release(0, lease), Ok(Outcome::Released(ReleaseOutcome::AlreadyExpired)));
}

#[test]
fn inspect_shows_the_holder_of_a_majority() {
    let mut quorum = ScriptedQuorum::new(5, 2);
    let op = quorum.call(1, |op| Input::Inspect { op, name: NAME });
    let Ok(Outcome::Inspected(seen)) = quorum.result(1, op) else { panic!("not inspected") };
    assert_eq!((seen.holders.len(), seen.last_fence), (0, None));
    let grant = quorum.acquired(0, 30_000);
    quorum.settle();
    quorum.set([0, 1], Health::Dead);
    let op = quorum.call(1, |op| Input::Inspect { op, name: NAME });
    let Ok(Outcome::Inspected(seen)) = quorum.result(1, op) else { panic!("not inspected") };
    assert_eq!((seen.holders.len(), seen.holders[0].foreign), (1, false));
    assert!(seen.last_fence >= Some(Fence::new(grant.fence)));
    quorum.set([2], Health::Dead);
    let op = quorum.call(1, |op| Input::Inspect { op, name: NAME });
    assert_eq!(quorum.result(1, op).unwrap_err().code(), "unreachable");
}
