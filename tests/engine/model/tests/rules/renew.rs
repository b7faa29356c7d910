use crate::common::model::model_lock;
use crate::common::{EXCLUSIVE, SHARED, token};

#[test]
fn a_renewal_raises_the_ttl_and_answers_it() {
    for mode in [EXCLUSIVE, SHARED] {
        let mut lock = model_lock();
        lock.wait(&token(1, 1), mode);
        lock.pass_ms(10_000);
        let renewed = lock.renew(&token(1, 1), mode, 30_000);
        assert_eq!((renewed.status.as_str(), renewed.ms), ("renewed", 30_000), "{mode}");
        assert_eq!(lock.pttl(0), 30_000, "{mode}");
    }
}

#[test]
fn a_renewal_never_lowers_a_ttl() {
    for mode in [EXCLUSIVE, SHARED] {
        let mut lock = model_lock();
        lock.wait(&token(1, 1), mode);
        assert_eq!(lock.renew(&token(1, 1), mode, 1_000).ms, 30_000, "{mode}");
        assert_eq!(lock.pttl(0), 30_000, "{mode}");
    }
}

#[test]
fn a_renewal_of_nothing_only_asks() {
    for mode in [EXCLUSIVE, SHARED] {
        let mut lock = model_lock();
        lock.wait(&token(1, 1), mode);
        lock.pass_ms(10_000);
        let asked = lock.renew(&token(1, 1), mode, 0);
        assert_eq!((asked.status.as_str(), asked.ms), ("renewed", 20_000), "{mode}");
        assert_eq!(lock.pttl(0), 20_000, "{mode}");
        assert_eq!(lock.renew(&token(2, 1), mode, 0).status, "taken", "{mode}");
    }
}

#[test]
fn a_renewal_with_a_negative_ttl_extends_the_remaining_time_of_its_own_lease_only() {
    for mode in [EXCLUSIVE, SHARED] {
        let mut lock = model_lock();
        lock.wait(&token(1, 1), mode);
        for passed in [0, 10_000] {
            lock.pass_ms(passed);
            let before = lock.pttl(0);
            let touched = lock.renew(&token(1, 1), mode, -1);
            assert_eq!((touched.status.as_str(), touched.ms), ("renewed", before + 1), "{mode}");
            assert_eq!(lock.pttl(0), before + 1, "{mode}");
        }
        let before = lock.pttl(0);
        assert_eq!(lock.renew(&token(2, 1), mode, -1).status, "taken", "{mode}");
        assert_eq!(lock.pttl(0), before, "{mode}");
        lock.command(&["FLUSHALL"]);
        assert_eq!(lock.renew(&token(1, 1), mode, -1).status, "gone", "{mode}");
    }
}

#[test]
fn a_renewal_never_creates_what_is_gone() {
    for mode in [EXCLUSIVE, SHARED] {
        let mut lock = model_lock();
        lock.wait(&token(1, 1), mode);
        lock.command(&["FLUSHALL"]);
        assert_eq!(lock.renew(&token(1, 1), mode, 30_000).status, "gone", "{mode}");
        assert_eq!(lock.host.server.keys(lock.host.now_us), [], "{mode}");
    }
}

#[test]
fn a_renewal_says_that_another_client_holds_the_lock() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    for mode in [EXCLUSIVE, SHARED] {
        assert_eq!(lock.renew(&token(2, 1), mode, 30_000).status, "taken", "{mode}");
    }
    assert_eq!(lock.pttl(0), 30_000);
}

#[test]
fn a_reader_whose_expiry_is_over_is_not_renewed_though_others_read() {
    let mut lock = model_lock();
    lock.ttl = 1_000;
    lock.wait(&token(1, 1), SHARED);
    lock.ttl = 30_000;
    lock.wait(&token(2, 1), SHARED);
    lock.pass_ms(1_000);
    assert_eq!(lock.renew(&token(1, 1), SHARED, 30_000).status, "taken");
    lock.release(&token(2, 1));
    assert_eq!(lock.holder(), None, "it left nothing behind");
}

#[test]
fn a_reader_that_is_over_alone_is_gone() {
    let mut lock = model_lock();
    lock.ttl = 1_000;
    lock.wait(&token(1, 1), SHARED);
    lock.command(&["PEXPIRE", "invoice:42", "60000"]);
    lock.pass_ms(1_000);
    assert_eq!(lock.renew(&token(1, 1), SHARED, 30_000).status, "gone");
}

#[test]
fn a_readers_renewal_keeps_n_at_least_as_long() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), SHARED);
    lock.wait(&token(2, 1), SHARED);
    lock.renew(&token(1, 1), SHARED, 60_000);
    lock.renew(&token(2, 1), SHARED, 40_000);
    assert_eq!((lock.pttl(0), lock.pttl(4)), (60_000, 60_000));
}

#[test]
fn an_own_key_that_lost_its_ttl_gets_one_again() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    let value = lock.value().unwrap();
    lock.command(&["SET", "invoice:42", &value]);
    assert_eq!(lock.renew(&token(1, 1), EXCLUSIVE, 0).ms, 0);
    assert_eq!(lock.renew(&token(1, 1), EXCLUSIVE, 30_000).ms, 30_000);
    assert_eq!(lock.pttl(0), 30_000);
}

#[test]
fn the_shortest_renewal_gives_a_key_a_ttl_too() {
    let one = token(1, 1);
    let mut lock = model_lock();
    lock.wait(&one, EXCLUSIVE);
    lock.command(&["PERSIST", "invoice:42"]);
    assert_eq!(lock.renew(&one, EXCLUSIVE, 1).ms, 1);
    assert_eq!(lock.pttl(0), 1);

    let mut reentrant = model_lock();
    reentrant.command(&["HSET", "invoice:42", &one, "1"]);
    reentrant.call(&leasehold_lua::reentrant::RENEW, &[0], &[&one, "1"]).unwrap();
    assert_eq!(reentrant.pttl(0), 1);
}
