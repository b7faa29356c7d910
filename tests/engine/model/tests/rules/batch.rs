use leasehold_lua::BATCH;

use crate::common::model::{Model, model_lock};
use crate::common::{EXCLUSIVE, Lock, SHARED, list, scalar_number, token};

const NOW: i64 = 1_700_000_000_000_000;

/// An entry's keys and arguments.
type Entry = (&'static [usize], Vec<String>);

fn entry(keys: &'static [usize], arguments: &[&str]) -> Entry {
    (keys, arguments.iter().map(|word| (*word).to_owned()).collect())
}

fn acquire(token: &str) -> Entry {
    entry(&[0, 2], &["acquire", &format!("{token} "), "30000"])
}

fn release(value: &str) -> Entry {
    entry(&[0], &["release", value])
}

fn share(token: &str, ttl: &str) -> Entry {
    entry(&[0, 2, 4], &["share", token, ttl])
}

fn unshare(token: &str) -> Entry {
    entry(&[0, 4], &["unshare", token])
}

fn permit(token: &str, mode: &str) -> Entry {
    entry(&[0, 2, 4], &["permit", token, "30000", mode])
}

fn unpermit(token: &str) -> Entry {
    entry(&[0, 2, 4], &["unpermit", token])
}

fn renew(token: &str, ttl: &str) -> Entry {
    entry(&[0], &["renew", token, ttl])
}

fn renew_share(token: &str, ttl: &str) -> Entry {
    entry(&[0, 4], &["renew-share", token, ttl])
}

fn renew_permit(token: &str, ttl: &str) -> Entry {
    entry(&[0, 4], &["renew-permit", token, ttl])
}

fn acquire_reentrant(token: &str) -> Entry {
    entry(&[0, 2], &["acquire-reentrant", token, "30000"])
}

fn release_reentrant(token: &str) -> Entry {
    entry(&[0], &["release-reentrant", token])
}

fn renew_reentrant(token: &str, ttl: &str) -> Entry {
    entry(&[0], &["renew-reentrant", token, ttl])
}

/// A lock on a server whose counter exists.
fn counted_lock() -> Lock<Model> {
    let mut lock = model_lock();
    lock.command(&["SET", "leasehold:fence", "5"]);
    lock
}

/// What a batch says: the server's time, the fence of its acquires, and a number for each entry.
fn batch(lock: &mut Lock<Model>, entries: &[Entry]) -> Vec<i64> {
    let takes = |(_, arguments): &&Entry| ["acquire", "acquire-reentrant", "share", "permit"].contains(&&*arguments[0]);
    let acquires = entries.iter().filter(takes).count();
    let fence = if acquires > 0 { &[1][..] } else { &[] };
    let keys: Vec<usize> = entries.iter().flat_map(|(keys, _)| *keys).chain(fence).copied().collect();
    let acquires = acquires.to_string();
    let mut arguments = vec![acquires.as_str()];
    arguments.extend(entries.iter().flat_map(|(_, arguments)| arguments).map(String::as_str));
    list(lock.call(&BATCH, &keys, &arguments).unwrap()).iter().map(scalar_number).collect()
}

/// What it says to the entries.
fn entries(lock: &mut Lock<Model>, entries: &[Entry]) -> Vec<i64> {
    batch(lock, entries)[2..].to_vec()
}

#[test]
fn a_batch_takes_a_free_lock_as_the_fast_path_does() {
    let (mut lock, mut other) = (counted_lock(), counted_lock());
    let one = token(1, 1);
    let fence = other.acquire_fast(&one);
    assert_eq!(batch(&mut lock, &[acquire(&one), renew(&one, "10")]), [NOW, fence, 1, 30_000]);
    assert_eq!(format!("{:?}", lock.state()), format!("{:?}", other.state()));
}

#[test]
fn all_acquires_of_a_batch_share_one_fence() {
    let mut lock = counted_lock();
    let [one, two] = [token(1, 1), token(1, 2)];
    let value = format!("{one} {NOW}");
    let said = batch(&mut lock, &[acquire(&one), renew(&one, "60000"), release(&value), acquire(&two)]);
    assert_eq!(said, [NOW, NOW, 1, 60_000, 1, 1]);
    assert_eq!((lock.value(), lock.last_fence()), (Some(format!("{two} {NOW}")), NOW));
    assert_eq!((lock.pttl(0), lock.pttl(1)), (30_000, -1));
}

#[test]
fn a_batch_that_takes_nothing_new_needs_no_counter_and_tells_no_time() {
    let mut lock = model_lock();
    let one = token(1, 1);
    let fence = lock.wait(&one, EXCLUSIVE).value;
    assert_eq!(batch(&mut lock, &[renew(&one, "60000"), release(&format!("{one} {fence}"))]), [0, 0, 60_000, 1]);
    assert_eq!((lock.holder(), lock.last_fence()), (None, fence));
}

#[test]
fn an_acquire_is_left_undone_unless_the_lock_is_free_and_nobody_has_a_claim() {
    let [mine, other] = [token(1, 1), token(2, 1)];
    type Prepare = fn(&mut Lock<Model>, &str);
    let held: [(&str, Prepare); 6] = [
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
        ("one with a tombstone", |lock, _| drop(lock.release_with_tombstone(&token(1, 1), 60_000))),
    ];
    for (what, prepare) in held {
        let mut lock = counted_lock();
        prepare(&mut lock, &other);
        let before = (lock.value(), lock.queue(), lock.tombstones());
        assert_eq!(entries(&mut lock, &[acquire(&mine)]), [0], "{what}");
        assert_eq!((lock.value(), lock.queue(), lock.tombstones()), before, "{what}");
    }
}

#[test]
fn a_resent_entry_takes_nothing_twice() {
    let mut lock = counted_lock();
    let one = token(1, 1);
    assert_eq!(entries(&mut lock, &[acquire(&one)]), [1]);
    assert_eq!(entries(&mut lock, &[acquire(&one)]), [0], "sent alone, it is answered `again`");
    assert_eq!(lock.try_acquire(&one, EXCLUSIVE).status, "again");
}

#[test]
fn a_release_is_left_undone_unless_n_has_the_exact_value() {
    let [mine, other] = [token(1, 1), token(2, 1)];
    let mut lock = model_lock();
    assert_eq!(entries(&mut lock, &[release(&format!("{mine} 5"))]), [0], "free");
    let fence = lock.wait(&other, EXCLUSIVE).value;
    let value = lock.value().unwrap();
    let (less, wrong) = (format!("{other} {}", fence - 1), format!("{mine} {fence}"));
    assert_eq!(entries(&mut lock, &[release(&less), release(&wrong), release(&other)]), [0; 3]);
    lock.wait(&mine, EXCLUSIVE);
    assert_eq!(entries(&mut lock, &[release(&value)]), [0], "somebody waits, who must be granted");
    assert_eq!(lock.holder(), Some(other));
}

#[test]
fn a_renewal_needs_the_token_and_never_lowers_the_ttl() {
    let [mine, other] = [token(1, 1), token(2, 1)];
    let mut lock = model_lock();
    assert_eq!(entries(&mut lock, &[renew(&mine, "60000")]), [0], "free");
    lock.wait(&mine, EXCLUSIVE);
    assert_eq!(entries(&mut lock, &[renew(&other, "60000"), renew(&mine, "10")]), [0, 30_000]);
    assert_eq!(lock.pttl(0), 30_000);
    lock.wait(&other, EXCLUSIVE);
    let marked = lock.value();
    assert_eq!(entries(&mut lock, &[renew(&mine, "60000")]), [60_000]);
    assert_eq!((lock.pttl(0), lock.value()), (60_000, marked));
}

#[test]
fn a_counter_that_leads_the_clock_is_raised_by_one() {
    for (stored, fence) in [
        ("1700000000000000", 1_700_000_000_000_001),
        ("2000000000000000", 2_000_000_000_000_001),
        ("9007199254736896", 9_007_199_254_736_897),
    ] {
        let mut lock = model_lock();
        lock.command(&["SET", "leasehold:fence", stored]);
        assert_eq!(batch(&mut lock, &[acquire(&token(1, 1))]), [NOW, fence, 1]);
        assert_eq!((lock.last_fence(), lock.value()), (fence, Some(format!("{} {fence}", token(1, 1)))));
    }
}

#[test]
fn a_lost_counter_leaves_the_acquires_undone_and_the_other_entries_done() {
    let mut lock = model_lock();
    let one = token(1, 1);
    let value = format!("{one} {}", lock.wait(&one, EXCLUSIVE).value);
    lock.command(&["DEL", "leasehold:fence"]);
    let said = batch(&mut lock, &[renew(&one, "60000"), release(&value), acquire(&token(1, 2))]);
    assert_eq!(said, [NOW, 0, 60_000, 1, 0]);
    assert_eq!(lock.host.server.keys(lock.host.now_us), []);
}

#[test]
fn a_counter_that_is_no_fence_is_left_as_it_is() {
    for absurd in super::fences::ABSURD {
        let mut lock = model_lock();
        lock.command(&["SET", "leasehold:fence", absurd]);
        assert_eq!(batch(&mut lock, &[acquire(&token(1, 1))]), [NOW, 0, 0], "{absurd}");
        let stored = lock.host.server.get(lock.host.now_us, "leasehold:fence");
        assert_eq!((stored.as_deref(), lock.value()), (Some(absurd), None));
    }
}

#[test]
fn an_entry_that_the_server_refuses_fails_no_other() {
    let mut lock = model_lock();
    let one = token(1, 1);
    lock.command(&["ZADD", "leasehold:fence", "1.5", "member"]);
    assert_eq!(entries(&mut lock, &[acquire(&one)]), [0], "the fence has another type");
    lock.command(&["DEL", "leasehold:fence"]);

    lock.command(&["SET", "leasehold:fence", "5"]);
    lock.host.server.set_out_of_memory(true);
    assert_eq!(entries(&mut lock, &[acquire(&one)]), [0], "no memory for a new lock");
    assert_eq!(lock.last_fence(), 5);
    lock.host.server.set_out_of_memory(false);
    lock.wait(&one, EXCLUSIVE);
    let value = lock.value().unwrap();
    lock.host.server.set_out_of_memory(true);
    assert_eq!(entries(&mut lock, &[acquire(&token(1, 2)), release(&value)]), [0, 1], "a release needs none");
}

#[test]
fn a_server_that_takes_no_writes_confirms_nothing() {
    let mut lock = model_lock();
    let one = token(1, 1);
    lock.wait(&one, EXCLUSIVE);
    let value = lock.value().unwrap();
    lock.host.server.set_read_only(true);
    assert_eq!(batch(&mut lock, &[renew(&one, "60000"), release(&value), acquire(&one)])[1..], [0; 4]);
}

#[test]
fn readers_come_and_go_by_batches_as_by_their_own_script() {
    let [one, two] = [token(1, 1), token(2, 1)];
    let mut lock = counted_lock();
    let said = batch(&mut lock, &[share(&one, "30000"), share(&two, "10000")]);
    assert_eq!(said, [NOW, NOW, 1, 1]);
    assert_eq!(lock.value(), Some(format!("shared {NOW}")));
    assert_eq!(lock.pttl(0), 30_000, "as long as the last reader");
    assert_eq!(lock.try_acquire(&token(3, 1), EXCLUSIVE).status, "busy");
    assert_eq!(entries(&mut lock, &[share(&one, "60000")]), [0], "its own script raises the TTL of a reader");

    assert_eq!(entries(&mut lock, &[unshare(&one), unshare(&one)]), [1, 0]);
    assert_eq!(lock.pttl(0), 10_000, "as long as the reader that is left");
    assert_eq!(entries(&mut lock, &[unshare(&two)]), [1]);
    assert_eq!(lock.value(), None);
}

#[test]
fn a_reader_is_left_undone_if_somebody_holds_the_lock_or_has_a_claim() {
    let [mine, other] = [token(1, 1), token(2, 1)];
    type Prepare = fn(&mut Lock<Model>, &str);
    let cases: [(&str, Prepare); 4] = [
        ("held", |lock, other| drop(lock.wait(other, EXCLUSIVE))),
        ("wanted by a writer", |lock, other| {
            lock.wait(&token(3, 1), SHARED);
            lock.wait(other, EXCLUSIVE);
        }),
        ("a token was given up", |lock, other| drop(lock.release_with_tombstone(other, 60_000))),
        ("evicted readers", |lock, other| {
            lock.wait(other, SHARED);
            let readers = lock.keys[4].clone();
            lock.command(&["DEL", &readers]);
        }),
    ];
    for (what, prepare) in cases {
        let mut lock = counted_lock();
        prepare(&mut lock, &other);
        let before = (lock.value(), lock.queue());
        assert_eq!(entries(&mut lock, &[share(&mine, "30000"), unshare(&mine)]), [0, 0], "{what}");
        assert_eq!((lock.value(), lock.queue()), before, "{what}");
    }
}

#[test]
fn readers_from_before_the_lock_was_something_else_do_not_count() {
    let mut lock = counted_lock();
    lock.wait(&token(1, 1), SHARED);
    lock.command(&["DEL", "invoice:42"]);
    assert_eq!(entries(&mut lock, &[share(&token(2, 1), "30000"), unshare(&token(2, 1))]), [1, 1]);
    assert_eq!(lock.value(), None, "the last reader has left");

    let mut lock = counted_lock();
    lock.wait(&token(1, 1), SHARED);
    lock.command(&["DEL", "invoice:42"]);
    lock.wait(&token(2, 1), EXCLUSIVE);
    assert_eq!(entries(&mut lock, &[renew_share(&token(1, 1), "60000")]), [0]);
    assert_eq!(lock.pttl(0), 30_000, "it is another client's");
}

#[test]
fn permits_are_taken_up_to_the_limit_and_given_back() {
    let [one, two, three] = [token(1, 1), token(2, 1), token(3, 1)];
    let mut lock = counted_lock();
    assert_eq!(entries(&mut lock, &[permit(&one, "2/3"), permit(&one, "2/3")]), [1, 0], "not twice");
    assert_eq!(entries(&mut lock, &[permit(&two, "2/3"), permit(&three, "1/3")]), [0, 1], "one is left");
    assert_eq!(entries(&mut lock, &[unpermit(&two), unpermit(&one)]), [0, 1]);
    assert_eq!(entries(&mut lock, &[permit(&two, "2/3")]), [1]);
    assert_eq!(entries(&mut lock, &[unpermit(&two), unpermit(&three)]), [1, 1]);
    let keys: Vec<String> = lock.host.server.keys(lock.host.now_us).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["leasehold:fence"]);
}

#[test]
fn readers_permits_and_reentrant_locks_are_renewed_by_batches_as_by_their_own_scripts() {
    let one = token(1, 1);
    type Enter = fn(&mut Lock<Model>, &str);
    type Renew = fn(&str, &str) -> Entry;
    let kinds: [(Enter, Renew, leasehold_lua::Script, &[usize]); 3] = [
        (|lock, one| drop(lock.wait(one, SHARED)), renew_share, leasehold_lua::RENEW, &[0, 4]),
        (
            |lock, one| drop(entries(lock, &[permit(one, "1/2")])),
            renew_permit,
            leasehold_lua::semaphore::RENEW,
            &[0, 4],
        ),
        (
            |lock, one| {
                lock.command(&["HSET", "invoice:42", one, "1"]);
                lock.command(&["PEXPIRE", "invoice:42", "30000"]);
            },
            renew_reentrant,
            leasehold_lua::reentrant::RENEW,
            &[0],
        ),
    ];
    for (enter, renew, own, keys) in kinds {
        let (mut lock, mut other) = (counted_lock(), counted_lock());
        enter(&mut lock, &one);
        enter(&mut other, &one);
        for ttl in ["60000", "10"] {
            lock.pass_ms(100);
            other.pass_ms(100);
            let left = lock.pttl(0).max(ttl.parse().unwrap());
            assert_eq!(entries(&mut lock, &[renew(&one, ttl), renew(&token(2, 1), ttl)]), [left, 0]);
            other.call(&own, keys, &[&one, ttl]).unwrap();
            assert_eq!(format!("{:?}", lock.state()), format!("{:?}", other.state()));
        }
        lock.pass_ms(60_000);
        assert_eq!(entries(&mut lock, &[renew(&one, "60000")]), [0], "the lease has expired");
    }
}

/// Where Redisson's clients wait for the lock.
const CHANNEL: &str = "redisson_lock__channel:{invoice:42}";

#[test]
fn a_batch_takes_and_frees_a_reentrant_lock_as_its_own_scripts_do() {
    let one = token(1, 1);
    let (mut lock, mut other) = (counted_lock(), counted_lock());
    let keys = [0, 1, 2, 3, 4, 5];
    let acquire = [one.as_str(), EXCLUSIVE, "30000", "try", "5000", "1", "0", "native"];
    assert_eq!(batch(&mut lock, &[acquire_reentrant(&one)]), [NOW, NOW, 1]);
    other.call(&leasehold_lua::reentrant::ACQUIRE, &keys, &acquire).unwrap();
    assert_eq!(lock.pttl(0), 30_000);
    assert_eq!(format!("{:?}", lock.state()), format!("{:?}", other.state()));
    assert_eq!(lock.messages(), []);
    assert_eq!(entries(&mut lock, &[release_reentrant(&one)]), [1]);
    other.call(&leasehold_lua::reentrant::RELEASE, &keys, &[&one, "0", "0", "native"]).unwrap();
    assert_eq!(format!("{:?}", lock.state()), format!("{:?}", other.state()));
    let told = lock.messages();
    assert!(told.iter().all(|(channel, payload)| channel == CHANNEL && payload == "0") && !told.is_empty(), "{told:?}");
    assert_eq!(told, other.messages());
}

/// How many clients wait for a reentrant lock, as its own script and a batch answer, if so many listen at this server.
fn told_waiting(counter: &str, listeners: u64) -> [i64; 2] {
    let mut lock = counted_lock();
    lock.keys[1] = counter.to_owned();
    lock.command(&["SET", counter, "5"]);
    lock.host.server.set_listeners(CHANNEL, listeners);
    let batched = entries(&mut lock, &[acquire_reentrant(&token(1, 1))])[0] - 1;
    lock.command(&["DEL", "invoice:42"]);
    let acquire = [&token(1, 2), EXCLUSIVE, "30000", "try", "5000", "1", "0", "mixed"];
    let own = list(lock.call(&leasehold_lua::reentrant::ACQUIRE, &[0, 1, 2, 3, 4, 5], &acquire).unwrap());
    [scalar_number(&own[5]), batched]
}

#[test]
fn listeners_on_a_reentrant_locks_channel_count_as_waiters() {
    for listeners in 0..3 {
        assert_eq!(told_waiting("leasehold:fence", listeners), [listeners as i64; 2]);
    }
}

#[test]
fn in_a_cluster_another_client_always_waits_for_a_reentrant_lock() {
    // The other client may listen at another node. The caller itself may be counted.
    for listeners in 0..3 {
        assert_eq!(told_waiting("leasehold:fence:{@@@@}", listeners), [2; 2]);
    }
}

#[test]
fn a_reentrant_lock_is_left_undone_unless_it_is_free_and_no_token_has_a_tombstone() {
    let [mine, other] = [token(1, 1), token(2, 1)];
    type Prepare = fn(&mut Lock<Model>, &str);
    let held: [(&str, Prepare); 4] = [
        ("held", |lock, other| drop(entries(lock, &[acquire_reentrant(other)]))),
        ("held by the caller", |lock, _| drop(entries(lock, &[acquire_reentrant(&token(1, 1))]))),
        ("of another type", |lock, _| drop(lock.command(&["SET", "invoice:42", "somebody"]))),
        ("one with a tombstone", |lock, _| drop(lock.release_with_tombstone(&token(1, 1), 60_000))),
    ];
    for (what, prepare) in held {
        let mut lock = counted_lock();
        prepare(&mut lock, &other);
        let before = lock.host.server.keys(lock.host.now_us);
        assert_eq!(entries(&mut lock, &[acquire_reentrant(&mine)]), [0], "{what}");
        let keys = |state: Vec<(String, _)>| state.into_iter().filter(|(key, _)| key != "leasehold:fence").collect();
        let (before, now): (Vec<_>, Vec<_>) = (keys(before), keys(lock.host.server.keys(lock.host.now_us)));
        assert_eq!(format!("{now:?}"), format!("{before:?}"), "{what}");
    }
}

#[test]
fn a_release_of_a_reentrant_lock_is_left_undone_unless_the_token_is_its_only_holder() {
    let [mine, other] = [token(1, 1), token(2, 1)];
    let mut lock = counted_lock();
    assert_eq!(entries(&mut lock, &[release_reentrant(&mine)]), [0], "nobody holds it");
    assert_eq!(entries(&mut lock, &[acquire_reentrant(&other), release_reentrant(&mine)]), [1, 0]);
    lock.command(&["HSET", "invoice:42", &mine, "1"]);
    assert_eq!(entries(&mut lock, &[release_reentrant(&mine)]), [0], "this is no reentrant lock");
    lock.command(&["DEL", "invoice:42"]);
    lock.command(&["SET", "invoice:42", &mine]);
    assert_eq!(entries(&mut lock, &[release_reentrant(&mine)]), [0], "nor is this");
    assert_eq!(lock.messages(), []);
}

#[test]
fn permits_that_the_batch_does_not_know_are_left_to_their_own_script() {
    let [one, two] = [token(1, 1), token(2, 1)];
    let mut lock = counted_lock();
    entries(&mut lock, &[permit(&one, "1/2")]);
    let known = lock.keys[4].clone();
    lock.command(&["DEL", &known]);
    assert_eq!(entries(&mut lock, &[permit(&two, "1/2"), unpermit(&one)]), [0, 0], "evicted");

    let mut lock = counted_lock();
    entries(&mut lock, &[permit(&one, "1/2"), permit(&two, "1/2")]);
    lock.command(&["HSET", &known, &one, "odd"]);
    assert_eq!(entries(&mut lock, &[unpermit(&one), unpermit(&two)]), [0, 1], "of another mode");

    let mut lock = counted_lock();
    entries(&mut lock, &[permit(&one, "1/2")]);
    lock.command(&["PEXPIRE", "invoice:42", "90000"]);
    lock.pass_ms(30_001);
    assert_eq!(entries(&mut lock, &[permit(&two, "1/2")]), [0], "an expired holder is there");

    let mut lock = counted_lock();
    lock.release_with_tombstone(&token(9, 1), 60_000);
    assert_eq!(entries(&mut lock, &[permit(&one, "1/2"), unpermit(&one)]), [0, 0], "a token was given up");
}

#[test]
fn no_entry_fails_the_call_whatever_its_keys_hold() {
    let one = token(1, 1);
    let all = || {
        [
            acquire(&one),
            release("x"),
            renew(&one, "5"),
            share(&one, "5"),
            unshare(&one),
            permit(&one, "1/2"),
            unpermit(&one),
        ]
    };
    for place in [0, 2, 4] {
        for other in [&["SET", "", "text"][..], &["HSET", "", &one, "1/2"], &["ZADD", "", "1", &one]] {
            for entry in all() {
                let mut lock = counted_lock();
                let mut command = other.to_vec();
                let key = lock.keys[place].clone();
                command[1] = &key;
                lock.command(&command);
                let said = batch(&mut lock, &[entry, renew(&token(2, 1), "5")]);
                assert_eq!(said.len(), 4, "{place} {other:?}");
            }
        }
    }
}
