use leasehold_lua::{election, once};

use crate::common::model::{Model, model_lock};
use crate::common::{ALL_KEYS, EXCLUSIVE, Lock, SHARED, channel, token};

#[test]
fn a_release_grants_the_head_for_its_own_claim_window_and_says_what_it_wrote() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    (lock.claim, lock.block) = (700, 33);
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.claim = 3_000;
    lock.wait(&token(3, 1), EXCLUSIVE);
    lock.messages();
    lock.pass_ms(5);
    assert_eq!(lock.release(&token(1, 1)).status, "released");
    assert_eq!((lock.holder(), lock.pttl(0)), (Some(token(2, 1)), 700));
    let (fence, us) = (lock.last_fence(), lock.host.now_us);
    assert_eq!(lock.value(), Some(format!("{}*{fence}", token(2, 1))));
    let grant = format!("grant {} exclusive {fence} 33 {us} 700 1 invoice:42", token(2, 1));
    assert_eq!(lock.messages(), [(channel(&token(2, 1)), grant)]);
}

#[test]
fn a_grant_never_lasts_longer_than_the_waiters_ttl() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.ttl = 400;
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.release(&token(1, 1));
    assert_eq!(lock.pttl(0), 400);
}

#[test]
fn any_script_moves_a_queue_whose_holder_died() {
    let scripts: [fn(&mut crate::common::Lock<crate::common::model::Model>); 5] = [
        |lock| drop(lock.try_acquire(&token(9, 1), EXCLUSIVE)),
        |lock| drop(lock.wait(&token(9, 1), SHARED)),
        |lock| drop(lock.release(&token(9, 1))),
        |lock| drop(lock.convert(&token(9, 1), &token(9, 2), SHARED)),
        |lock| drop(lock.wait(&token(8, 1), EXCLUSIVE)), // it has a tombstone: it gets nothing, but it helps
    ];
    for (index, script) in scripts.into_iter().enumerate() {
        let mut lock = model_lock();
        lock.wait(&token(1, 1), EXCLUSIVE);
        lock.wait(&token(2, 1), EXCLUSIVE);
        lock.release_with_tombstone(&token(8, 1), 60_000);
        lock.command(&["DEL", "invoice:42"]);
        lock.messages();
        script(&mut lock);
        assert_eq!(lock.holder(), Some(token(2, 1)), "script {index}");
        assert_eq!(lock.messages()[0].0, channel(&token(2, 1)), "script {index}");
    }
}

#[test]
fn the_run_of_readers_at_the_head_is_granted_together_up_to_the_first_writer() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), SHARED);
    lock.wait(&token(3, 1), SHARED);
    lock.wait(&token(4, 1), EXCLUSIVE);
    lock.wait(&token(5, 1), SHARED);
    lock.messages();
    lock.release(&token(1, 1));
    assert_eq!(lock.readers(), [token(2, 1), token(3, 1)]);
    assert_eq!(lock.queue(), [token(4, 1), token(5, 1)]);
    assert_eq!(lock.messages().len(), 2);
    lock.release(&token(2, 1));
    lock.release(&token(3, 1));
    assert_eq!(lock.holder(), Some(token(4, 1)));
}

#[test]
fn one_script_grants_at_most_64_readers_and_the_next_goes_on() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    for client in 2..=101 {
        lock.wait(&token(client, 1), SHARED);
    }
    lock.release(&token(1, 1));
    assert_eq!((lock.readers().len(), lock.queue().len()), (64, 36));
    lock.wait(&token(101, 1), SHARED);
    assert_eq!((lock.readers().len(), lock.queue().len()), (100, 0));
}

#[test]
fn a_caller_that_its_own_script_grants_has_its_whole_ttl_and_no_message() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), SHARED);
    lock.wait(&token(3, 1), SHARED);
    lock.command(&["DEL", "invoice:42"]);
    lock.messages();
    let entered = lock.wait(&token(3, 1), SHARED);
    assert_eq!((entered.status.as_str(), entered.ms, entered.waiting), ("entered", 30_000, 0));
    let told: Vec<String> = lock.messages().into_iter().map(|(channel, _)| channel).collect();
    assert_eq!(told, [channel(&token(2, 1))]);
    assert_eq!(lock.pttl(0), 30_000);
}

#[test]
fn a_dead_head_that_is_granted_costs_the_others_one_claim_window_once() {
    let mut lock = model_lock();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), EXCLUSIVE); // dies here
    lock.wait(&token(3, 1), EXCLUSIVE);
    lock.release(&token(1, 1));
    let waiting = lock.wait(&token(3, 1), EXCLUSIVE);
    assert_eq!((waiting.status.as_str(), waiting.ms), ("waiting", 3_000));
    lock.pass_ms(2_500);
    lock.wait(&token(3, 1), EXCLUSIVE);
    lock.pass_ms(501);
    assert_eq!(lock.wait(&token(3, 1), EXCLUSIVE).status, "entered");
}

#[test]
fn a_grant_is_no_error_when_messages_are_refused() {
    let mut lock = model_lock();
    lock.host.server.refuse_publish(true);
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), EXCLUSIVE);
    assert_eq!(lock.release(&token(1, 1)).status, "released");
    assert_eq!(lock.wait(&token(2, 1), EXCLUSIVE).status, "again");
}

#[test]
fn a_name_with_a_nul_byte_is_granted_by_message() {
    let mut lock = model_lock();
    lock.keys[0] = "invoice:\0:42".to_owned();
    lock.wait(&token(1, 1), EXCLUSIVE);
    lock.wait(&token(2, 1), EXCLUSIVE);
    lock.messages();
    lock.release(&token(1, 1));
    assert!(lock.messages()[0].1.ends_with(" 3000 0 invoice:\0:42"));
}

#[test]
fn a_silent_waiter_keeps_its_place_while_the_one_before_it_gets_the_lock() {
    for (mode, acquire, release) in [
        (EXCLUSIVE, leasehold_lua::ACQUIRE, leasehold_lua::RELEASE),
        ("once", once::ACQUIRE, once::RELEASE),
        ("leader node-1", election::ACQUIRE, election::RELEASE),
    ] {
        let mut lock = model_lock();
        let wait = |lock: &mut Lock<Model>, token: &str| {
            let arguments = [token, mode, "30000", "wait", "3000", "1", "0", "native"];
            lock.call(&acquire, &ALL_KEYS, &arguments).unwrap();
        };
        (1..=3).for_each(|client| wait(&mut lock, &token(client, 1)));
        lock.pass_ms(2_000);
        [2, 4].into_iter().for_each(|client| wait(&mut lock, &token(client, 1)));
        lock.pass_ms(1_500);
        lock.call(&release, &ALL_KEYS, &[&token(1, 1), "0", "0", "native"]).unwrap();
        wait(&mut lock, &token(3, 1));
        assert_eq!(lock.queue(), [token(3, 1), token(4, 1)], "{mode}");
    }
}
