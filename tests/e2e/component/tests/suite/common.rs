use std::time::Duration;

use leasehold_servers::{Error as ServerError, Reply, Server};
use leasehold_wasmtime_host::{AcquireOptions, Error, Locks, Manager, ManagerOptions, Multi, Part, Reentrant, Target};
use tokio::time::Instant;

/// The longest time that a test waits for something. A slow machine may stop for seconds at any time.
pub(crate) const SOON: Duration = Duration::from_secs(150);

/// How often a waiter asks the server with the options of [`patient`]: a third of the claim window.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(20);

/// A server whose keys and commands a test can see.
pub(crate) trait Place {
    fn url(&self) -> String;

    fn cli(&self, command: &[&str]) -> Result<Reply, ServerError>;

    /// How many commands of the component the server has run so far.
    fn scripts_run(&self) -> i64;
}

impl Place for Server {
    fn url(&self) -> String {
        Self::url(self)
    }

    fn cli(&self, command: &[&str]) -> Result<Reply, ServerError> {
        Self::cli(self, command)
    }

    fn scripts_run(&self) -> i64 {
        let stats = self.cli(&["INFO", "commandstats"]).unwrap();
        let calls = |name: &str| -> i64 {
            let line =
                stats.text().and_then(|text| text.lines().find(|line| line.starts_with(name)).map(str::to_owned));
            let calls = line.and_then(|line| line.split(['=', ',']).nth(1).map(str::to_owned));
            calls.map_or(0, |calls| calls.parse().unwrap())
        };
        calls("cmdstat_evalsha:") + calls("cmdstat_eval:")
    }
}

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
pub(crate) fn mutexes(names: &[&str]) -> Vec<Part> {
    names.iter().map(|name| Part::Mutex((*name).to_owned())).collect()
}

pub(crate) fn multi(names: &[&str]) -> Target {
    Target::Multi(Multi { parts: mutexes(names), one_script: false })
}

/// Options for a lease and a wait that are both longer than a test takes.
pub(crate) fn long() -> Option<AcquireOptions> {
    ttl(600_000)
}

/// Options for a lease with this TTL, and a wait that is longer than a test takes.
pub(crate) fn ttl(ttl_ms: u64) -> Option<AcquireOptions> {
    Some(AcquireOptions { ttl_ms: Some(ttl_ms), wait_ms: Some(600_000), max_hold_ms: None, max_waiters: None })
}

/// Options for a wait of at most this long.
pub(crate) fn wait(wait_ms: u64) -> Option<AcquireOptions> {
    Some(AcquireOptions { ttl_ms: None, wait_ms: Some(wait_ms), max_hold_ms: None, max_waiters: None })
}

/// The options of all tests against real servers: any answer may be late by tens of seconds.
pub(crate) fn patient() -> Option<ManagerOptions> {
    Some(ManagerOptions {
        prefix: None,
        local_handoffs: None,
        claim_window_ms: Some(60_000),
        response_timeout_ms: Some(60_000),
        node_timeout_ms: Some(60_000),
        mixed_fleet: None,
        cluster_slots: None,
        label: None,
    })
}

/// Short times, for tests on virtual time.
pub(crate) fn quick() -> Option<ManagerOptions> {
    Some(ManagerOptions {
        prefix: None,
        local_handoffs: None,
        claim_window_ms: Some(300),
        response_timeout_ms: Some(500),
        node_timeout_ms: None,
        mixed_fleet: None,
        cluster_slots: None,
        label: None,
    })
}

/// [`quick`], with another response timeout. A test on a real server may use it only to await the timeout, and must
/// repeat calls that need an answer: see [`again`].
pub(crate) fn answering_within(ms: u64) -> Option<ManagerOptions> {
    quick().map(|quick| ManagerOptions { response_timeout_ms: Some(ms), ..quick })
}

pub(crate) async fn open<'a>(locks: Locks<'a>, server: &Server) -> Manager<'a> {
    ok(locks.open(&server.url(), patient()).await)
}

/// A manager with [`quick`] options, for tests on virtual time.
pub(crate) async fn open_quick<'a>(locks: Locks<'a>, server: &impl Place) -> Manager<'a> {
    ok(locks.open(&server.url(), quick()).await)
}

/// Makes a call again until it succeeds: with a short response timeout, a busy machine may answer too late.
pub(crate) async fn again<T>(what: &str, call: impl AsyncFn() -> wasmtime::Result<Result<T, Error>>) -> T {
    let calling = async {
        loop {
            match call().await {
                Ok(Ok(value)) => return value,
                Ok(Err(error)) if error.retryable => tokio::time::sleep(Duration::from_millis(20)).await,
                Ok(Err(error)) => panic!("{what}: {error:?}"),
                Err(trap) => panic!("{what} trapped: {trap:?}"),
            }
        }
    };
    soon(what, calling).await
}

/// Two managers of this address pass a lock on, by message.
pub(crate) async fn taken_handed_over_by_message_and_given_back(locks: Locks<'_>, url: &str, server: &Server) {
    let open = async || ok(locks.open(url, patient()).await);
    let (one, other) = (open().await, open().await);
    let lease = ok(one.acquire(mutex("job"), long()).await);
    assert!(ok(other.try_acquire(mutex("job"), None).await).is_none());
    ok(lease.release().await);

    // Only a message can reach the waiter before its next heartbeat. If the machine was too slow to show that, try
    // again.
    for _ in 0..5 {
        let lease = ok(one.acquire(mutex("job"), long()).await);
        let handing_over = async {
            until("somebody waits", || waiters(server, "job") == 1).await;
            let channels = || texts(&server.cli(&["PUBSUB", "CHANNELS", "leasehold:*"]).unwrap());
            until("it has subscribed", || !channels().is_empty()).await;
            ok(lease.release().await);
        };
        let start = Instant::now();
        let waiting = soon("it is granted", other.acquire(mutex("job"), long()));
        let (next, ()) = tokio::join!(waiting, handing_over);
        let (next, took) = (ok(next), start.elapsed());
        assert!(next.fence().await.unwrap() > lease.fence().await.unwrap());
        ok(next.release().await);
        assert!(!is_there(server, "job"));
        if took < HEARTBEAT {
            return;
        }
    }
    panic!("no grant came by message");
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

pub(crate) fn number(server: &impl Place, command: &[&str]) -> i64 {
    let reply = server.cli(command).unwrap();
    reply.integer().unwrap_or_else(|| panic!("{command:?} answered {reply:?}"))
}

/// Whether the lock's own key exists.
pub(crate) fn is_there(server: &impl Place, name: &str) -> bool {
    number(server, &["EXISTS", name]) == 1
}

/// How many waiters are in the server's queue.
pub(crate) fn waiters(server: &impl Place, name: &str) -> i64 {
    number(server, &["ZCOUNT", &format!("leasehold:{{{name}}}:queue"), "0", "+inf"])
}

pub(crate) fn scripts_run(server: &impl Place) -> i64 {
    server.scripts_run()
}

pub(crate) fn texts(reply: &Reply) -> Vec<String> {
    reply.list().iter().filter_map(Reply::text).map(str::to_owned).collect()
}

/// Waits until a lock's key is gone, and checks that no client renews it in the meantime.
pub(crate) async fn ends_unrenewed(server: &impl Place, name: &str) -> Duration {
    let mut left = number(server, &["PTTL", name]);
    until("the lock is free", || {
        let before = std::mem::replace(&mut left, number(server, &["PTTL", name]));
        assert!(left <= before, "it was renewed: {before} ms, then {left} ms");
        left == -2
    })
    .await
}
