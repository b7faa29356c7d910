use leasehold_core::Scalar;
use leasehold_lua::BATCH;

use crate::common::model::{Model, model_lock};
use crate::common::{EXCLUSIVE, Lock, SHARED, list, token};

/// An entry's keys and arguments.
type Entry<'a> = (&'a [usize], Vec<&'a str>);

fn acquire<'a>(token: &'a str, block: &'a str) -> Entry<'a> {
    (&[0, 1, 2, 4, 5], vec!["acquire", token, "30000", block])
}

fn release(token: &str) -> Entry<'_> {
    (&[0, 2, 4], vec!["release", token])
}

fn renew<'a>(token: &'a str, ttl: &'a str) -> Entry<'a> {
    (&[0], vec!["renew", token, ttl])
}

/// What a batch says to each entry, and the server's time.
fn batch(lock: &mut Lock<Model>, entries: &[Entry<'_>]) -> Vec<i64> {
    let keys: Vec<usize> = entries.iter().flat_map(|(keys, _)| keys.iter().copied()).collect();
    let mut arguments = vec!["3600000"];
    arguments.extend(entries.iter().flat_map(|(_, arguments)| arguments));
    let number = |scalar| if let Scalar::Int(number) = scalar { number } else { panic!("{scalar:?}") };
    list(lock.call(&BATCH, &keys, &arguments).unwrap()).into_iter().map(number).collect()
}

#[test]
fn a_batch_takes_a_free_lock_with_the_fence_that_its_own_script_would_draw() {
    let (mut lock, mut other) = (model_lock(), model_lock());
    let [one, two] = [token(1, 1), token(1, 2)];
    let said = batch(&mut lock, &[acquire(&one, "1"), renew(&one, "60000"), release(&one), acquire(&two, "1")]);
    let [first, _] = [other.try_acquire(&one, EXCLUSIVE), other.release(&one)];
    let second = other.try_acquire(&two, EXCLUSIVE);
    assert_eq!(said, [first.value, 60_000, 1, second.value, first.us]);
    assert_eq!((lock.holder(), lock.last_fence()), (other.holder(), other.last_fence()));
    assert_eq!((lock.pttl(0), lock.pttl(1)), (other.pttl(0), other.pttl(1)));
}

#[test]
fn a_block_of_a_batch_ends_where_the_next_fence_begins() {
    let mut lock = model_lock();
    let [one, two] = [token(1, 1), token(1, 2)];
    let said = batch(&mut lock, &[acquire(&one, "33"), release(&one), acquire(&two, "2000")]);
    assert_eq!(said[2] - said[0], 33, "the second fence is above the first block");
    assert_eq!(lock.last_fence(), said[3] + 1023, "no block ends more than a millisecond ahead of the clock");
}

#[test]
fn an_acquire_is_left_undone_unless_the_lock_is_free_and_nobody_has_a_claim() {
    let [mine, other] = [token(1, 1), token(2, 1)];
    type Prepare = fn(&mut Lock<Model>, &str);
    let held: [(&str, Prepare); 5] = [
        ("held", |lock, other| drop(lock.wait(other, EXCLUSIVE))),
        ("read", |lock, other| drop(lock.wait(other, SHARED))),
        ("held by another library", |lock, _| drop(lock.command(&["SET", "invoice:42", "somebody", "PX", "9000"]))),
        ("wanted by a waiter whose holder has expired", |lock, other| {
            lock.ttl = 100;
            lock.wait(&token(3, 1), EXCLUSIVE);
            lock.wait(other, EXCLUSIVE);
            lock.pass_ms(101);
        }),
        ("of another type", |lock, _| drop(lock.command(&["HSET", "invoice:42", "field", "1"]))),
    ];
    for (what, prepare) in held {
        let mut lock = model_lock();
        prepare(&mut lock, &other);
        let before = (lock.holder(), lock.queue(), lock.last_fence());
        assert_eq!(batch(&mut lock, &[acquire(&mine, "1")])[0], 0, "{what}");
        assert_eq!((lock.holder(), lock.queue(), lock.last_fence()), before, "{what}");
    }
}

#[test]
fn a_buried_token_does_not_enter_by_a_batch() {
    let mut lock = model_lock();
    lock.bury(&token(1, 1), 60_000);
    assert_eq!(batch(&mut lock, &[acquire(&token(1, 1), "1")])[0], 0);
    assert_eq!(lock.holder(), None);
}

#[test]
fn a_resent_entry_takes_nothing_twice() {
    let mut lock = model_lock();
    let one = token(1, 1);
    let first = batch(&mut lock, &[acquire(&one, "1")]);
    assert!(first[0] > 0);
    assert_eq!(batch(&mut lock, &[acquire(&one, "1")])[0], 0, "sent alone, it is answered `again`");
    assert_eq!(lock.try_acquire(&one, EXCLUSIVE).status, "again");
}

#[test]
fn a_release_is_left_undone_unless_the_token_holds_and_nobody_waits() {
    let [mine, other] = [token(1, 1), token(2, 1)];
    let mut lock = model_lock();
    assert_eq!(batch(&mut lock, &[release(&mine)])[0], 0, "free");
    lock.wait(&other, EXCLUSIVE);
    assert_eq!(batch(&mut lock, &[release(&mine)])[0], 0, "another's");
    lock.wait(&mine, EXCLUSIVE);
    assert_eq!(batch(&mut lock, &[release(&other)])[0], 0, "somebody waits, who must be granted");
    assert_eq!(lock.holder(), Some(other));
}

#[test]
fn a_renewal_needs_the_token_and_never_lowers_the_ttl() {
    let [mine, other] = [token(1, 1), token(2, 1)];
    let mut lock = model_lock();
    assert_eq!(batch(&mut lock, &[renew(&mine, "60000")])[0], 0, "free");
    lock.wait(&mine, EXCLUSIVE);
    assert_eq!(batch(&mut lock, &[renew(&other, "60000"), renew(&mine, "10")])[..2], [0, 30_000]);
    assert_eq!(lock.pttl(0), 30_000);
    assert_eq!(batch(&mut lock, &[renew(&mine, "60000")])[0], 60_000);
    assert_eq!(lock.pttl(0), 60_000);
}

#[test]
fn an_entry_that_the_server_refuses_fails_no_other() {
    let mut lock = model_lock();
    let one = token(1, 1);
    lock.command(&["ZADD", "leasehold:{invoice:42}:fence", "1.5", "member"]);
    assert_eq!(batch(&mut lock, &[acquire(&one, "1")])[0], 0, "the fence has another type");
    lock.command(&["SET", "leasehold:{invoice:42}:fence", "no number"]);
    assert_eq!(batch(&mut lock, &[acquire(&one, "1")])[0], 0, "no fence could rise above this one");
    lock.command(&["DEL", "leasehold:{invoice:42}:fence"]);

    lock.host.server.set_out_of_memory(true);
    assert_eq!(batch(&mut lock, &[acquire(&one, "1")])[0], 0, "no memory for a new lock");
    lock.host.server.set_out_of_memory(false);
    lock.wait(&one, EXCLUSIVE);
    lock.host.server.set_out_of_memory(true);
    assert_eq!(batch(&mut lock, &[acquire(&token(1, 2), "1"), release(&one)])[..2], [0, 1], "a release needs none");
}

#[test]
fn a_server_that_takes_no_writes_confirms_nothing() {
    let mut lock = model_lock();
    let one = token(1, 1);
    lock.wait(&one, EXCLUSIVE);
    lock.host.server.set_read_only(true);
    let said = batch(&mut lock, &[renew(&one, "60000"), release(&one)]);
    assert_eq!(said[..2], [0, 0]);
}
