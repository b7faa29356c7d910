//! A client of a quorum that drains.

use std::time::Duration;

use leasehold_core::{Error, Input, Outcome, Part, ReleaseOutcome, Wait};

use crate::world::{MS, ScriptedQuorum, options};

const TTL: u64 = 1_000;

#[test]
fn a_client_that_drains_keeps_what_it_holds_until_it_is_given_back_and_grants_no_more() {
    let mut quorum = ScriptedQuorum::new(3, 2);
    let held = quorum.acquired(0, TTL);
    let waits = quorum.acquire(0, TTL, Wait::Forever);
    let forever = options(TTL, Wait::Forever);
    let parts = Part::mutexes(&["a", "b"]);
    let several = quorum.call(0, |op| Input::AcquireAll { op, parts: &parts, options: &forever, one_script: false });
    let drain = quorum.call(0, |op| Input::Drain { op, grace: Duration::from_secs(600) });
    for op in [waits, several] {
        assert!(quorum.has_ended(0, op), "at once");
        assert_eq!(quorum.result(0, op), Err(Error::Closed));
    }
    assert_eq!(quorum.tried(0, TTL), Err(Error::Closed));
    let next = quorum.acquire(1, TTL, Wait::Forever);
    quorum.pass(60_000 * MS);
    assert!(quorum.clients[0].lost.is_empty() && !quorum.has_ended(0, drain) && !quorum.has_ended(1, next));
    let verify = quorum.call(0, |op| Input::Verify { op, lease: held.lease });
    assert_eq!(quorum.result(0, verify), Ok(Outcome::Verified(true)));

    let release = quorum.call(0, |op| Input::Release { op, lease: held.lease });
    assert!(quorum.has_ended(0, drain), "nothing is held");
    assert_eq!(quorum.result(0, release), Ok(Outcome::Released(ReleaseOutcome::Released)));
    let close = quorum.call(0, |op| Input::Close { op });
    assert_eq!(quorum.result(0, close), Ok(Outcome::Closed { lost: 0, unreleased: 0 }));
    let next = quorum.granted(1, next);
    quorum.release(1, next.lease).unwrap();
    quorum.settle();
    assert!((0..2).all(|client| quorum.is_idle(client)) && quorum.held() == 0);
}

#[test]
fn when_the_time_is_over_the_close_takes_the_leases_and_counts_them() {
    let mut quorum = ScriptedQuorum::new(3, 1);
    quorum.acquired(0, TTL);
    let drain = quorum.call(0, |op| Input::Drain { op, grace: Duration::from_secs(10) });
    quorum.pass(9_999 * MS);
    assert!(!quorum.has_ended(0, drain));
    quorum.pass(MS);
    assert!(quorum.has_ended(0, drain));
    let close = quorum.call(0, |op| Input::Close { op });
    assert_eq!(quorum.result(0, close), Ok(Outcome::Closed { lost: 1, unreleased: 0 }));
    assert_eq!(quorum.held(), 0);
    assert!(quorum.is_idle(0));
}
