//! A loss is reported once, in time, with a reason.

use leasehold_core::{AcquireOptions, Error, Input, LossReason, Outcome, ReleaseOutcome, Wait};

use crate::world::{Health, MS, NAME, ScriptedQuorum, options};

#[test]
fn without_a_majority_a_lease_is_lost_at_its_deadline() {
    let mut quorum = ScriptedQuorum::new(5, 2);
    let grant = quorum.acquired(0, 1_000);
    quorum.settle();
    quorum.set([0, 1, 2], Health::Mute);
    let told = loop {
        let until = quorum.valid_until(0, grant.lease).unwrap();
        quorum.pass(until - quorum.now());
        if let [(lease, at, reason)] = quorum.clients[0].lost[..] {
            assert_eq!((lease, reason), (grant.lease, LossReason::Expired));
            break at == until;
        }
    };
    assert!(told, "told at the deadline");
    quorum.set([0, 1, 2], Health::Well);
    quorum.acquired(1, 1_000);
    quorum.pass(5_000 * MS);
    assert_eq!(quorum.clients[0].lost.len(), 1, "told once");
}

#[test]
fn a_majority_that_restarts_empty_is_reported_as_a_loss_by_the_next_renewal() {
    let mut quorum = ScriptedQuorum::new(5, 1);
    let grant = quorum.acquired(0, 3_000);
    quorum.settle();
    (0..3).for_each(|server| quorum.servers[server].0.flush_all());
    quorum.pass(1_100 * MS);
    assert!(matches!(quorum.clients[0].lost[..], [(lease, _, LossReason::Gone)] if lease == grant.lease));
    quorum.settle();
    assert_eq!(quorum.held(), 0, "the others have it back");
    assert!(quorum.is_idle(0));
    let again = quorum.release(0, grant.lease);
    assert_eq!(again, Ok(Outcome::Released(ReleaseOutcome::AlreadyExpired)));
}

#[test]
fn after_a_loss_the_next_local_caller_acquires_again() {
    let mut quorum = ScriptedQuorum::new(3, 1);
    let first = quorum.acquired(0, 1_000);
    let op = quorum.acquire(0, 1_000, Wait::Forever);
    quorum.settle();
    quorum.servers[0].0.flush_all();
    quorum.servers[1].0.flush_all();
    let Ok(Outcome::Acquired(second)) = quorum.result(0, op) else { panic!("not acquired") };
    assert!(second.fence > first.fence);
    assert_eq!(quorum.clients[0].lost.len(), 1);
}

#[test]
fn a_crashed_holders_lock_is_granted_after_its_ttl() {
    let mut quorum = ScriptedQuorum::new(5, 2);
    let began = quorum.now();
    quorum.acquired(0, 1_000);
    // The client sends nothing from now on.
    quorum.clients[0] = ScriptedQuorum::new(5, 1).clients.remove(0);
    quorum.acquired(1, 1_000);
    assert!(quorum.now() - began < 1_300 * MS, "after {} us", quorum.now() - began);
}

#[test]
fn a_holder_that_wakes_up_late_is_first_notified_of_the_loss() {
    let mut quorum = ScriptedQuorum::new(3, 1);
    let grant = quorum.acquired(0, 1_000);
    quorum.sleep(10_000 * MS);
    let lease = grant.lease;
    let op = quorum.call(0, |op| leasehold_core::Input::Verify { op, lease });
    assert_eq!(quorum.result(0, op), Err(Error::NotHeld));
    assert!(matches!(quorum.clients[0].lost[..], [(_, _, LossReason::Expired)]));
}

/// The lease has no renewal that would tell. Its client listens, because it has waited.
#[test]
fn a_lease_that_an_operator_takes_is_lost_at_once() {
    for renew in [true, false] {
        let mut quorum = ScriptedQuorum::new(5, 2);
        let before = quorum.acquired(1, 30_000);
        let options = AcquireOptions { renew, ..options(60_000, Wait::Forever) };
        let op = quorum.call(0, |op| Input::Acquire { op, name: NAME, options: &options });
        quorum.settle();
        quorum.release(1, before.lease).unwrap();
        let grant = quorum.granted(0, op);
        quorum.settle();
        let op = quorum.call(1, |op| Input::ForceRelease { op, name: NAME, foreign: false });
        assert_eq!(quorum.result(1, op), Ok(Outcome::Revoked(1)));
        quorum.pass(5 * MS);
        assert!(matches!(quorum.clients[0].lost[..], [(lease, _, LossReason::Revoked)] if lease == grant.lease));
        quorum.settle();
        assert_eq!(quorum.held(), 0);
        assert!(quorum.is_idle(0));
    }
}

#[test]
fn a_key_without_a_ttl_on_a_majority_is_deleted_only_with_foreign() {
    let mut quorum = ScriptedQuorum::new(3, 1);
    quorum.write(0);
    quorum.write(1);
    let op = quorum.call(0, |op| Input::ForceRelease { op, name: NAME, foreign: false });
    assert!(matches!(quorum.result(0, op), Err(Error::WrongKind(_))));
    let op = quorum.call(0, |op| Input::ForceRelease { op, name: NAME, foreign: true });
    assert_eq!(quorum.result(0, op), Ok(Outcome::Revoked(1)));
    assert_eq!(quorum.held(), 0);
}
