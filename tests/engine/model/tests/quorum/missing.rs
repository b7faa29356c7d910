//! Calls about a lease that only a majority has, when one server of that majority doesn't answer.

use leasehold_core::{Input, LeaseId, OpId, Outcome, ReleaseOutcome, Wait};

use crate::world::{Health, MS, NAME, ScriptedQuorum};

/// Three servers. Client 1 has got the lock from client 0, before the release had reached the second server. So only the
/// first and the last server have its lease.
fn on_two_of_three() -> (ScriptedQuorum, LeaseId) {
    let mut quorum = ScriptedQuorum::new(3, 2);
    quorum.warm();
    let held = quorum.acquired(0, 30_000);
    let waiter = quorum.acquire(1, 30_000, Wait::Forever);
    quorum.pass(10 * MS);
    quorum.set([1], Health::Slow(10 * MS));
    quorum.call(0, |op| Input::Release { op, lease: held.lease });
    quorum.set([1], Health::Well);
    let lease = quorum.granted(1, waiter).lease;
    quorum.settle();
    let holders = [0, 1, 2].map(|server| quorum.holder(server).is_some());
    assert_eq!(holders, [true, false, true]);
    (quorum, lease)
}

#[test]
fn a_release_succeeds_if_a_majority_is_free_for_certain() {
    for gone in [0, 2] {
        let (mut quorum, lease) = on_two_of_three();
        quorum.set([gone], Health::Dead);
        assert_eq!(quorum.release(1, lease), Ok(Outcome::Released(ReleaseOutcome::Released)), "without server {gone}");
        quorum.acquired(0, 30_000);
    }
}

#[test]
fn a_release_fails_if_a_majority_may_still_have_the_lease() {
    let (mut quorum, lease) = on_two_of_three();
    quorum.set([0, 2], Health::Dead);
    assert_eq!(quorum.release(1, lease).unwrap_err().code(), "unreachable");

    // The second server has not answered yet, and may have granted the lease.
    let mut quorum = ScriptedQuorum::new(3, 1);
    quorum.warm();
    quorum.set([1], Health::Mute);
    let lease = quorum.acquired(0, 30_000).lease;
    quorum.set([2], Health::Dead);
    assert_eq!(quorum.release(0, lease).unwrap_err().code(), "unreachable");
}

#[test]
fn a_release_says_that_the_lease_had_ended_if_no_majority_can_have_had_it() {
    for (empty, gone) in [(0, 2), (2, 0)] {
        let (mut quorum, lease) = on_two_of_three();
        quorum.wipe(empty);
        quorum.set([gone], Health::Dead);
        assert_eq!(quorum.release(1, lease), Ok(Outcome::Released(ReleaseOutcome::AlreadyExpired)));
    }
}

/// What a force release by client 0 answers.
fn forced(quorum: &mut ScriptedQuorum) -> Outcome {
    let op: OpId = quorum.call(0, |op| Input::ForceRelease { op, name: NAME, foreign: false });
    quorum.result(0, op).unwrap()
}

#[test]
fn a_force_release_counts_the_lease_although_one_server_that_had_it_does_not_answer() {
    for gone in [0, 2] {
        for health in [Health::Dead, Health::Mute] {
            let (mut quorum, _) = on_two_of_three();
            quorum.set([gone], health);
            assert_eq!(forced(&mut quorum), Outcome::Revoked(1), "server {gone} is {health:?}");
        }
    }
}

#[test]
fn a_force_release_counts_nothing_if_no_server_that_answers_had_a_lease() {
    let mut quorum = ScriptedQuorum::new(3, 1);
    for gone in [0, 1, 2] {
        quorum.set(0..3, Health::Well);
        quorum.set([gone], Health::Mute);
        assert_eq!(forced(&mut quorum), Outcome::Revoked(0), "server {gone} does not answer");
    }
}
