//! The promises of the scripts that need a real server: memory limits, ACL rights, digests, cluster slots.

mod common;

use common::real::{Real, receive_message};
use common::{EXCLUSIVE, Host, Lock, SHARED, list, scalar, scalar_text, token};
use std::time::Instant;

use leasehold_lua::{ALL, BATCH, MULTI, RAISE};
use leasehold_servers::Server;

/// Exactly the ACL rights that the README lists.
const RIGHTS: &str = "on >secret ~invoice:* ~leasehold:* resetchannels &leasehold:* +eval +evalsha +time +type +get +set +del +exists \
    +pttl +pexpire +zadd +zcard +zcount +zrange +zrangebyscore +zrank +zrem +zremrangebyscore +zrevrank +zscore \
    +hset +hget +hmget +hdel +hlen +hgetall +publish +subscribe +unsubscribe";

#[test]
fn the_scripts_keep_their_promises_on_a_real_server() {
    let server = Server::builder().acl("app", RIGHTS).acl("mute", &RIGHTS.replace("&leasehold:* ", "")).start();
    let server = server.unwrap();
    digests_are_the_servers_own(&server);
    at_maxmemory_leases_are_given_back_and_renewed(&server);
    a_user_with_the_documented_rights_may_do_everything(&server);
    a_user_without_the_channel_loses_only_messages(&server);
    a_key_of_another_type_is_told_and_left_as_it_is(&server);
    a_demoted_primary_confirms_no_lease(&server);
    let cluster = Server::builder().arg("--cluster-enabled", "yes").start().unwrap();
    every_script_runs_in_one_slot_of_a_cluster(&cluster);
}

fn lock(server: &Server) -> Lock<Real> {
    let mut lock = patient(server);
    lock.command(&["FLUSHALL"]);
    lock
}

/// A lock whose leases and waiters' places last longer than the test, even on a slow machine.
fn patient(server: &Server) -> Lock<Real> {
    let mut lock = Lock::new(Real::connect(server), "invoice:42");
    (lock.ttl, lock.claim) = (600_000, 600_000);
    lock
}

/// A lock whose connection is logged in as a user.
fn lock_as(server: &Server, user: &str) -> Lock<Real> {
    let mut lock = lock(server);
    lock.command(&["AUTH", user, "secret"]);
    lock
}

fn digests_are_the_servers_own(server: &Server) {
    let mut lock = lock(server);
    for script in ALL {
        let digest = scalar_text(&scalar(lock.command(&["SCRIPT", "LOAD", script.source])));
        assert_eq!(digest, script.sha1, "{}", script.name);
    }
}

fn at_maxmemory_leases_are_given_back_and_renewed(server: &Server) {
    for (mode, other, tombstone) in [(EXCLUSIVE, SHARED, 0), (EXCLUSIVE, SHARED, 60_000), (SHARED, EXCLUSIVE, 60_000)] {
        let mut lock = lock(server);
        lock.wait(&token(1, 1), mode);
        lock.wait(&token(2, 1), EXCLUSIVE);
        lock.command(&["CONFIG", "SET", "maxmemory", "1"]);
        let refused = Lock::new(Real::connect(server), "another").acquire(&token(3, 1), mode, "try").unwrap_err();
        assert!(refused.contains("OOM command not allowed"), "{refused}");
        assert_eq!(lock.renew(&token(1, 1), mode, 60_000).status, "renewed");
        assert_eq!(lock.renew(&token(1, 1), mode, 1_000).status, "renewed", "a renewal that raises nothing");
        assert_eq!(lock.convert(&token(1, 1), &token(1, 2), other).status, "converted");
        lock.used_fence = 2_000_000_000_000_000;
        assert_eq!(
            lock.release_with_tombstone(&token(9, 1), tombstone).status,
            "taken",
            "and the used fence is remembered"
        );
        lock.used_fence = 0;
        assert_eq!(lock.release_with_tombstone(&token(1, 2), tombstone).status, "released");
        assert_eq!(lock.release_with_tombstone(&token(2, 1), tombstone).status, "released", "it was granted");
        lock.command(&["CONFIG", "SET", "maxmemory", "0"]);
    }
}

fn a_user_with_the_documented_rights_may_do_everything(server: &Server) {
    let mut messages = server.connect().unwrap();
    messages.call(&["PSUBSCRIBE", "leasehold:*"]).unwrap();
    let mut lock = lock_as(server, "app");
    every_script(&mut lock);
    assert!(receive_message(&mut messages).1.starts_with("wanted "));
    assert!(receive_message(&mut messages).1.starts_with("grant "));
}

fn a_user_without_the_channel_loses_only_messages(server: &Server) {
    let mut lock = lock_as(server, "mute");
    let channel = common::channel(&token(1, 1));
    let refused = lock.host.run(&["PUBLISH", &channel, "hello"]).unwrap_err();
    assert!(refused.starts_with("NOPERM"), "{refused}");
    every_script(&mut lock);
}

fn a_key_of_another_type_is_told_and_left_as_it_is(server: &Server) {
    let mut lock = lock(server);
    lock.command(&["HSET", "invoice:42", "a-reentrant-lock", "1"]);
    for refused in [
        lock.acquire(&token(1, 1), EXCLUSIVE, "wait").unwrap_err(),
        lock.try_release_with_tombstone(&token(1, 1), 60_000).unwrap_err(),
        lock.convert_with_tombstone(&token(1, 1), &token(1, 2), SHARED, 60_000).unwrap_err(),
        lock.try_renew(&token(1, 1), EXCLUSIVE, 1_000).unwrap_err(),
        lock.inspect().unwrap_err(),
    ] {
        assert!(refused.contains("WRONGTYPE"), "{refused}");
    }
    assert_eq!(lock.number(&["DBSIZE"]), 1);
}

fn a_demoted_primary_confirms_no_lease(server: &Server) {
    let mut lock = lock(server);
    for mode in [EXCLUSIVE, SHARED] {
        lock.command(&["FLUSHALL"]);
        lock.wait(&token(1, 1), mode);
        let before = lock.pttl(0);
        assert_eq!(lock.renew(&token(1, 1), mode, 0).status, "renewed");
        assert!(lock.pttl(0) <= before, "a question prolongs nothing");
        lock.command(&["REPLICAOF", "127.0.0.1", "1"]);
        for ttl in [0, 10, 60_000] {
            let refused = lock.try_renew(&token(1, 1), mode, ttl).unwrap_err();
            assert!(refused.contains("READONLY"), "{mode} {ttl}: {refused}");
        }
        lock.command(&["REPLICAOF", "NO", "ONE"]);
    }
    reentrant_and_semaphore_are_not_confirmed_either(&mut lock);
}

fn reentrant_and_semaphore_are_not_confirmed_either(lock: &mut Lock<Real>) {
    let (holder, later) = (token(1, 1), "99999999999999");
    lock.command(&["FLUSHALL"]);
    lock.command(&["HSET", "a", &holder, "1"]);
    lock.command(&["PEXPIRE", "a", "600000"]);
    lock.command(&["ZADD", "{a}", later, &holder]);
    lock.command(&["HSET", "{a}permits", &holder, "1/1", "used", "1", "limit", "1", "fence", "5"]);
    lock.command(&["REPLICAOF", "127.0.0.1", "1"]);
    for words in [
        &["EVAL", leasehold_lua::reentrant::RENEW.source, "1", "a", &holder, "0"][..],
        &["EVAL", leasehold_lua::semaphore::RENEW.source, "2", "{a}", "{a}permits", &holder, "0"][..],
    ] {
        let refused = lock.host.run(words).unwrap_err();
        assert!(refused.contains("READONLY"), "{refused}");
    }
    lock.command(&["REPLICAOF", "NO", "ONE"]);
}

fn every_script_runs_in_one_slot_of_a_cluster(server: &Server) {
    let mut lock = patient(server);
    lock.keys[1] = "leasehold:fence:{invoice:42}".to_owned();
    let slots: Vec<String> = (0..16_384).map(|slot| slot.to_string()).collect();
    let words: Vec<&str> = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str)).collect();
    lock.command(&words);
    // The node takes a moment to notice that it serves every slot.
    while lock.host.run(&["GET", "invoice:42"]).is_err_and(|error| error.starts_with("CLUSTERDOWN")) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    every_script(&mut lock);
}

fn every_script<H: Host>(lock: &mut Lock<H>) {
    assert_eq!(lock.wait(&token(1, 1), EXCLUSIVE).status, "entered");
    assert_eq!(lock.wait(&token(2, 1), SHARED).status, "waiting");
    assert_eq!(lock.wait(&token(3, 1), EXCLUSIVE).status, "waiting");
    assert_eq!(lock.renew(&token(1, 1), EXCLUSIVE, 60_000).status, "renewed");
    assert_eq!(lock.convert_with_tombstone(&token(1, 1), &token(1, 2), SHARED, 60_000).unwrap().status, "converted");
    assert_eq!(lock.renew(&token(2, 1), SHARED, 60_000).status, "renewed", "the downgrade let it in");
    assert_eq!(lock.renew(&token(9, 1), SHARED, 60_000).status, "taken");
    assert_eq!(lock.inspect().unwrap().len(), 5 + 4 + 1 + 3 + 4);
    assert_eq!(lock.release_with_tombstone(&token(3, 1), 60_000).status, "left");
    assert_eq!(lock.release(&token(1, 2)).status, "released");
    assert_eq!(lock.refill(&token(2, 1), SHARED).status, "again");
    assert_eq!(lock.convert(&token(2, 1), &token(2, 2), EXCLUSIVE).status, "converted");
    assert_eq!(lock.release(&token(2, 2)).status, "released");
    // The queue has a tombstone.
    assert_eq!(lock.acquire_fast(&token(4, 1)), 0);
    let queue = lock.keys[2].clone();
    lock.command(&["DEL", &queue]);
    let fence = lock.acquire_fast(&token(4, 1));
    assert!(fence > 0);
    assert!(lock.release_fast(&format!("{} {fence}", token(4, 1))));
    let raised = lock.call(&RAISE, &[0, 1], &[&token(4, 1), "5"]).unwrap();
    assert_eq!(scalar_text(&list(raised)[0]), "gone");
    assert_eq!(lock.force().status, "released");
    let multi = list(lock.call(&MULTI, &[0, 2, 3, 1], &["30000", &token(5, 1), "exclusive"]).unwrap());
    assert_eq!(scalar_text(&multi[2]), "entered");
    let value = format!("{} {}", token(5, 1), scalar_text(&multi[3]));
    let entries =
        ["1", "release", &value, "acquire", &format!("{} ", token(6, 1)), "30000", "renew", &token(6, 1), "5"];
    let asked = Instant::now();
    let batch = list(lock.call(&BATCH, &[0, 0, 2, 0, 1], &entries).unwrap());
    let took = asked.elapsed().as_millis() as u64 + 1;
    assert_eq!(batch[2..4].iter().map(scalar_text).collect::<Vec<_>>(), ["1", "1"]);
    // On older servers, time passes while a script runs.
    let left: u64 = scalar_text(&batch[4]).parse().unwrap();
    assert!((30_000 - took..=30_000).contains(&left), "{left}");
}
