use std::time::{Duration, Instant};

use leasehold_servers::{Reply, Server};
use leasehold_wasmtime_host::{
    AcquireOptions, Error, HoldEnd, Locks, Manager, ManagerOptions, Multi, Reentrant, Target,
};

/// The longest time that a test waits for something.
pub(crate) const SOON: Duration = Duration::from_secs(15);

/// Returns the answer of a call that must succeed.
#[track_caller]
pub(crate) fn ok<T>(answer: wasmtime::Result<Result<T, Error>>) -> T {
    match answer {
        Ok(Ok(value)) => value,
        Ok(Err(error)) => panic!("{error:?}"),
        Err(trap) => panic!("trapped: {trap:?}"),
    }
}

/// Returns the error of a call that must fail.
#[track_caller]
pub(crate) fn refused<T>(answer: wasmtime::Result<Result<T, Error>>) -> Error {
    match answer {
        Ok(Ok(_)) => panic!("it was not refused"),
        Ok(Err(error)) => error,
        Err(trap) => panic!("trapped: {trap:?}"),
    }
}

pub(crate) fn mutex(name: &str) -> Target {
    Target::Mutex(name.to_owned())
}

pub(crate) fn read(name: &str) -> Target {
    Target::Read(name.to_owned())
}

pub(crate) fn write(name: &str) -> Target {
    Target::Write(name.to_owned())
}

pub(crate) fn reentrant(name: &str, owner: u64) -> Target {
    Target::Reentrant(Reentrant { name: name.to_owned(), owner })
}

/// Several names as one lock.
pub(crate) fn multi(names: &[&str]) -> Target {
    Target::Multi(Multi { names: names.iter().map(|name| (*name).to_owned()).collect(), one_script: false })
}

/// Options for a lease with this TTL, and a wait of at most 10 s.
pub(crate) fn ttl(ttl_ms: u64) -> Option<AcquireOptions> {
    Some(AcquireOptions { ttl_ms: Some(ttl_ms), wait_ms: Some(10_000), max_hold_ms: None })
}

/// Options for a wait of at most this long.
pub(crate) fn wait(wait_ms: u64) -> Option<AcquireOptions> {
    Some(AcquireOptions { ttl_ms: None, wait_ms: Some(wait_ms), max_hold_ms: None })
}

/// Short times, for tests of servers and hosts that don't answer.
pub(crate) fn quick() -> Option<ManagerOptions> {
    Some(ManagerOptions {
        prefix: None,
        local_handoffs: None,
        claim_window_ms: Some(300),
        response_timeout_ms: Some(500),
        node_timeout_ms: None,
        mixed_fleet: None,
        label: None,
    })
}

/// Longer times, for servers that may answer late, because machines that run tests are busy.
pub(crate) fn patient() -> Option<ManagerOptions> {
    answering_within(10_000).map(|options| ManagerOptions { claim_window_ms: Some(3_000), ..options })
}

/// [`quick`], with another response timeout.
pub(crate) fn answering_within(ms: u64) -> Option<ManagerOptions> {
    quick().map(|quick| ManagerOptions { response_timeout_ms: Some(ms), ..quick })
}

pub(crate) async fn open<'a>(locks: Locks<'a>, server: &Server) -> Manager<'a> {
    ok(locks.open(&server.url(), patient()).await)
}

/// Options for tests in which something does not answer.
pub(crate) async fn open_quick<'a>(locks: Locks<'a>, server: &Server) -> Manager<'a> {
    ok(locks.open(&server.url(), quick()).await)
}

/// Two managers of this address pass a lock on, by message.
pub(crate) async fn taken_kept_handed_over_and_given_back(locks: Locks<'_>, url: &str, server: &Server) {
    let options = patient().map(|patient| ManagerOptions { claim_window_ms: Some(60_000), ..patient });
    let open = async || ok(locks.open(url, options.clone()).await);
    let (one, other) = (open().await, open().await);
    let lease = ok(one.acquire(mutex("job"), ttl(1_500)).await);
    assert!(ok(other.try_acquire(mutex("job"), None).await).is_none());
    assert_eq!(ok(lease.hold(1_600).await), HoldEnd::Held);
    ok(lease.release().await);

    // No lease ends and no heartbeat is due in time for the waiter: only the message can tell it.
    let lease = ok(one.acquire(mutex("job"), ttl(60_000)).await);
    let handing_over = async {
        until("somebody waits", || waiters(server, "job") == 1).await;
        let channels = || texts(&server.cli(&["PUBSUB", "CHANNELS", "leasehold:*"]).unwrap());
        until("it has subscribed", || !channels().is_empty()).await;
        ok(lease.release().await);
    };
    let waiting = soon("the message", other.acquire(mutex("job"), ttl(60_000)));
    let (next, ()) = tokio::join!(waiting, handing_over);
    let next = ok(next);
    assert!(next.fence().await.unwrap() > lease.fence().await.unwrap());
    ok(next.release().await);
    assert!(!is_there(server, "job"));
}

pub(crate) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    tokio::time::timeout(SOON, future).await.unwrap_or_else(|_| panic!("not in time: {what}"))
}

/// Waits until `condition` holds. Returns how long that took.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(what, wait).await;
    start.elapsed()
}

pub(crate) fn number(server: &Server, command: &[&str]) -> i64 {
    let reply = server.cli(command).unwrap();
    reply.integer().unwrap_or_else(|| panic!("{command:?} answered {reply:?}"))
}

/// Whether the lock's own key exists.
pub(crate) fn is_there(server: &Server, name: &str) -> bool {
    number(server, &["EXISTS", name]) == 1
}

/// How many waiters are in the server's queue.
pub(crate) fn waiters(server: &Server, name: &str) -> i64 {
    number(server, &["ZCOUNT", &format!("leasehold:{{{name}}}:queue"), "0", "+inf"])
}

/// How many commands of the component the server has run so far.
pub(crate) fn scripts_run(server: &Server) -> i64 {
    let stats = server.cli(&["INFO", "commandstats"]).unwrap();
    let calls = |name: &str| -> i64 {
        let line = stats.text().and_then(|text| text.lines().find(|line| line.starts_with(name)).map(str::to_owned));
        let calls = line.and_then(|line| line.split(['=', ',']).nth(1).map(str::to_owned));
        calls.map_or(0, |calls| calls.parse().unwrap())
    };
    calls("cmdstat_evalsha:") + calls("cmdstat_eval:")
}

pub(crate) fn texts(reply: &Reply) -> Vec<String> {
    reply.list().iter().filter_map(Reply::text).map(str::to_owned).collect()
}

/// Waits until a lock's key is gone, and checks that no client renews it in the meantime.
pub(crate) async fn ends_unrenewed(server: &Server, name: &str) -> Duration {
    let mut left = number(server, &["PTTL", name]);
    until("the lock is free", || {
        let before = std::mem::replace(&mut left, number(server, &["PTTL", name]));
        assert!(left <= before, "it was renewed: {before} ms, then {left} ms");
        left == -2
    })
    .await
}
