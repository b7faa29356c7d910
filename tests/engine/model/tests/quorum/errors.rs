//! Errors distinguish busy, unreachable and misconfigured servers, and name each server.

use std::time::Duration;

use leasehold_core::{ClientId, Config, Engine, Error, Wait};

use crate::world::{Health, MS, ScriptedQuorum};

#[test]
fn too_many_failures_for_a_majority_are_unreachable_with_each_cause() {
    let mut quorum = ScriptedQuorum::new(5, 1);
    quorum.set([0, 1], Health::Dead);
    quorum.set([2], Health::Mute);
    let error = quorum.tried(0, 30_000).unwrap_err();
    assert!(quorum.now() <= 250 * MS, "two node timeouts: {} us", quorum.now());
    let Error::Unreachable { ref votes, .. } = error else { panic!("{error:?}") };
    assert_eq!(votes.len(), 5);
    let text = error.to_string();
    assert!(text.contains("2 of 5 unreachable (s0, s1), 1 timed out (s2), 2 agreed"), "{text}");
    assert!(error.is_retryable());
}

#[test]
fn a_lock_that_others_hold_is_busy_even_if_some_servers_failed() {
    let mut quorum = ScriptedQuorum::new(5, 2);
    quorum.acquired(0, 30_000);
    quorum.settle();
    quorum.set([0, 1], Health::Dead);
    let op = quorum.acquire(1, 30_000, Wait::For(Duration::from_secs(1)));
    let error = quorum.result(1, op).unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("3 busy"), "{text}");
}

#[test]
fn a_refusal_by_a_majority_fails_at_once_and_names_the_servers() {
    let mut quorum = ScriptedQuorum::new(5, 1);
    quorum.set([1, 2, 4], Health::Refusing("NOPERM this user has no permissions"));
    let op = quorum.acquire(0, 30_000, Wait::Forever);
    let error = quorum.result(0, op).unwrap_err();
    assert_eq!(error.code(), "auth");
    let text = error.to_string();
    assert!(text.contains("NOPERM") && text.contains("3 auth (s1, s2, s4)"), "{text}");
    quorum.settle();
    assert_eq!(quorum.held(), 0);
    assert!(quorum.is_idle(0));
}

#[test]
fn a_misconfigured_minority_is_not_needed_and_is_named_when_it_matters() {
    let mut quorum = ScriptedQuorum::new(5, 1);
    quorum.set([0, 1], Health::Refusing("WRONGTYPE Operation against a key holding the wrong kind of value"));
    let grant = quorum.acquired(0, 30_000);
    quorum.release(0, grant.lease).unwrap();
    quorum.set([2], Health::Dead);
    let error = quorum.tried(0, 30_000).unwrap_err();
    assert_eq!(error.code(), "unreachable");
    let text = error.to_string();
    assert!(text.contains("2 of 5 wrong-kind (s0, s1), 1 unreachable (s2)"), "{text}");
}

#[test]
fn a_waiter_gets_the_lock_after_a_partition_heals() {
    let mut quorum = ScriptedQuorum::new(5, 1);
    quorum.set([0, 1, 2], Health::Dead);
    let op = quorum.acquire(0, 30_000, Wait::Forever);
    quorum.pass(5_000 * MS);
    assert!(quorum.clients[0].ended.is_empty());
    quorum.set([0, 1, 2], Health::Well);
    let healed = quorum.now();
    assert!(quorum.result(0, op).is_ok());
    assert!(quorum.now() - healed < 500 * MS);
}

#[test]
fn too_few_servers_an_even_number_or_a_duplicate_is_refused() {
    let quorum = |servers: &[&str]| Engine::quorum(ClientId::from_random([1; 16]), Config::default(), servers);
    for servers in [&[][..], &["a"], &["a", "b"], &["a", "b", "c", "d"], &["a", "b", "a"]] {
        let Err(Error::InvalidOption { field, .. }) = quorum(servers) else { panic!("{servers:?} passed") };
        assert_eq!(field, "servers");
    }
    let servers = ["a", "b", "c"];
    assert!(quorum(&servers).is_ok());
    let config = Config { node_timeout: Duration::from_millis(9), ..Config::default() };
    let Err(Error::InvalidOption { field, .. }) = Engine::quorum(ClientId::from_random([1; 16]), config, &servers)
    else {
        panic!("9 ms passed");
    };
    assert_eq!(field, "node_timeout");
}

#[test]
fn a_bad_name_or_option_is_refused_before_anything_is_sent() {
    let mut quorum = ScriptedQuorum::new(3, 1);
    let options = leasehold_core::AcquireOptions::default();
    for name in ["", "a}b"] {
        let op = quorum.call(0, |op| leasehold_core::Input::Acquire { op, name, options: &options });
        assert_eq!(quorum.result(0, op).unwrap_err().code(), "invalid-option");
    }
    assert_eq!(quorum.sent, 0);
    assert!(quorum.is_idle(0));
}
