//! Readers on several servers, beside writers.

use std::time::Duration;

use leasehold_core::{AcquireOptions, Error, Grant, Input, Kind, Mode, OpId, Outcome, Owner, ReleaseOutcome, Wait};

use crate::world::{Health, MS, NAME, ScriptedQuorum, options};

fn reads(quorum: &mut ScriptedQuorum, client: usize, wait: Wait) -> OpId {
    let options = AcquireOptions { mode: Mode::Shared, ..options(30_000, wait) };
    quorum.call(client, |op| Input::Acquire { op, name: NAME, options: &options })
}

fn reader(quorum: &mut ScriptedQuorum, client: usize) -> Grant {
    let op = reads(quorum, client, Wait::Forever);
    quorum.granted(client, op)
}

#[test]
fn the_first_reader_takes_two_round_trips_and_one_that_joins_it_takes_one() {
    let mut quorum = ScriptedQuorum::new(3, 2);
    // The servers get the scripts.
    for grant in [reader(&mut quorum, 0), reader(&mut quorum, 0)] {
        quorum.release(0, grant.lease).unwrap();
    }
    quorum.settle();
    let began = quorum.now();
    let first = reader(&mut quorum, 0);
    assert_eq!(quorum.now() - began, 2 * MS, "the first server, and then the others");
    let began = quorum.now();
    let second = reader(&mut quorum, 0);
    assert_eq!(quorum.now() - began, MS, "the servers confirm its fence");
    let third = reader(&mut quorum, 1);
    assert!(first.fence < second.fence && first.mode == Mode::Shared && third.mode == Mode::Shared);
    assert!(matches!(quorum.tried(1, 30_000), Err(Error::Busy { .. })), "a writer is excluded");
    for (client, grant) in [(0, first), (0, second), (1, third)] {
        assert_eq!(quorum.release(client, grant.lease), Ok(Outcome::Released(ReleaseOutcome::Released)));
    }
    let writer = quorum.acquired(1, 30_000);
    assert!(writer.fence > second.fence.max(third.fence));
    quorum.release(1, writer.lease).unwrap();
    quorum.settle();
    assert!(quorum.held() == 0 && quorum.is_idle(0) && quorum.is_idle(1));
}

#[test]
fn a_reader_does_not_pass_a_writer_that_waits() {
    let mut quorum = ScriptedQuorum::new(3, 3);
    let first = reader(&mut quorum, 0);
    let writer = quorum.acquire(1, 30_000, Wait::Forever);
    quorum.settle();
    let tries = reads(&mut quorum, 2, Wait::No);
    assert!(matches!(quorum.result(2, tries), Err(Error::Busy { .. })));
    let waits = reads(&mut quorum, 2, Wait::Forever);
    quorum.settle();
    assert!(!quorum.has_ended(2, waits) && !quorum.has_ended(1, writer));
    quorum.release(0, first.lease).unwrap();
    let writer = quorum.granted(1, writer);
    quorum.settle();
    assert!(!quorum.has_ended(2, waits));
    quorum.release(1, writer.lease).unwrap();
    assert!(quorum.granted(2, waits).fence > writer.fence);
}

#[test]
fn a_reader_does_without_a_first_server_that_is_dead_silent_or_empty() {
    for health in [Health::Dead, Health::Slow(10_000 * MS)] {
        let mut quorum = ScriptedQuorum::new(3, 2);
        quorum.set([0], health);
        let (first, second) = (reader(&mut quorum, 0), reader(&mut quorum, 1));
        assert!(quorum.valid_until(0, first.lease).is_some() && quorum.valid_until(1, second.lease).is_some());
        assert!(quorum.tried(1, 30_000).is_err());
    }
    let mut quorum = ScriptedQuorum::new(3, 2);
    let holder = quorum.acquired(0, 30_000);
    let waits = reads(&mut quorum, 1, Wait::Forever);
    quorum.settle();
    quorum.restart_empty();
    quorum.settle();
    assert!(!quorum.has_ended(1, waits), "the majority still has the writer's lease");
    quorum.release(0, holder.lease).unwrap();
    assert!(quorum.granted(1, waits).fence > holder.fence);
}

#[test]
fn a_reader_that_a_majority_has_lost_is_lost() {
    let mut quorum = ScriptedQuorum::new(3, 1);
    let grant = reader(&mut quorum, 0);
    quorum.settle();
    quorum.wipe(1);
    quorum.wipe(2);
    quorum.pass(11_000 * MS);
    assert_eq!(quorum.valid_until(0, grant.lease), None, "it was not taken again behind the reader's back");
}

#[test]
fn conversions_semaphores_and_reentrant_locks_are_refused_at_once() {
    let mut quorum = ScriptedQuorum::new(3, 1);
    let grant = quorum.acquired(0, 30_000);
    let (lease, mode) = (grant.lease, Mode::Shared);
    let op = quorum.call(0, |op| Input::Convert { op, lease, mode });
    assert!(matches!(quorum.result(0, op), Err(Error::Unsupported(_))));
    for kind in [Kind::Reentrant(Owner(1)), Kind::Semaphore { permits: 1, limit: 2 }] {
        let options = AcquireOptions { kind, ttl: Duration::from_secs(30), ..AcquireOptions::default() };
        let op = quorum.call(0, |op| Input::Acquire { op, name: "another", options: &options });
        assert!(matches!(quorum.result(0, op), Err(Error::Unsupported(_))));
    }
}
