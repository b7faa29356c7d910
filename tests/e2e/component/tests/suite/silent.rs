//! Providers that don't support some calls, or never answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_wasmtime_host::{
    Answer, Connected, Endpoint, ErrorKind, Failure, Future, ManagerOptions, Messages, Provider, Reply, Servers,
    Topology, Value,
};
use tokio::time::{Instant, advance};

use crate::common::*;
use crate::memory::{Memory, on_virtual_time};

/// How the provider answers a subscription.
#[derive(Clone, Copy, Debug)]
enum Subscribes {
    Never,
    Unsupported,
    Refused,
    /// The stream ends at once.
    AndEnds,
}

struct WithoutMessages(Subscribes, Memory);

struct Quiet(Subscribes, Arc<dyn Endpoint>);

impl Provider for WithoutMessages {
    fn open(&self, servers: Servers, response_timeout: Duration) -> Future<Connected> {
        let (subscribes, opening) = (self.0, self.1.provider().open(servers, response_timeout));
        Box::pin(async move { Ok(Arc::new(Quiet(subscribes, opening.await?)) as Arc<dyn Endpoint>) })
    }
}

impl Endpoint for Quiet {
    fn call(&self, command: Vec<Vec<u8>>) -> Future<Answer> {
        self.1.call(command)
    }

    fn subscribe(&self, _channel: String) -> Future<Result<Messages, Failure>> {
        let subscribed = match self.0 {
            Subscribes::Never => return Box::pin(std::future::pending()),
            Subscribes::Unsupported => Err(Failure::Unsupported("no messages here".into())),
            Subscribes::Refused => Err(Failure::Refused("NOPERM this user has no channels".into())),
            Subscribes::AndEnds => Ok(tokio::sync::mpsc::channel(1).1),
        };
        Box::pin(async { subscribed })
    }
}

#[tokio::test(start_paused = true)]
async fn without_messages_a_waiter_is_granted_all_the_same_and_nobody_asks_too_often() {
    for subscribes in [Subscribes::Never, Subscribes::Unsupported, Subscribes::Refused, Subscribes::AndEnds] {
        let server = Memory::start();
        let work = on_virtual_time(WithoutMessages(subscribes, server.clone()), async |locks| {
            let (one, other) = (open_quick(locks, &server).await, open_quick(locks, &server).await);
            let lease = ok(one.acquire(mutex("job"), None).await);
            let releasing = async {
                until("somebody waits", || waiters(&server, "job") == 1).await;
                let before = scripts_run(&server);
                tokio::time::sleep(Duration::from_millis(1_000)).await;
                let asked = scripts_run(&server) - before;
                assert!((1..40).contains(&asked), "{subscribes:?}: {asked} commands in a second");
                ok(lease.release().await);
            };
            let (next, ()) =
                soon("it is granted", async { tokio::join!(other.acquire(mutex("job"), None), releasing) }).await;
            ok(ok(next).release().await);
        });
        work.await.unwrap();
    }
}

/// A provider that connects slowly, and then does not answer.
struct OpensSlowly;

impl Provider for OpensSlowly {
    fn open(&self, _servers: Servers, _response_timeout: Duration) -> Future<Connected> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(1_600)).await;
            Ok(Arc::new(Never) as Arc<dyn Endpoint>)
        })
    }
}

struct Never;

impl Endpoint for Never {
    fn call(&self, _command: Vec<Vec<u8>>) -> Future<Answer> {
        Box::pin(std::future::pending())
    }

    fn subscribe(&self, _channel: String) -> Future<Result<Messages, Failure>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn connecting_and_asking_for_the_version_take_one_response_timeout_together() {
    let work = on_virtual_time(OpensSlowly, async |locks| {
        for topology in [
            Topology::Single("redis://slow".to_owned()),
            Topology::Quorum(["a", "b", "c"].map(|server| format!("redis://{server}")).to_vec()),
        ] {
            let error = refused(soon("it is given up", locks.open_at(topology, answering_within(2_000))).await);
            assert!(matches!(error.kind, ErrorKind::Unreachable) && error.retryable, "{error:?}");
            assert!((2_000..2_010).contains(&error.waited_ms.unwrap_or_default()), "{error:?}");
        }
    });
    work.await.unwrap();
}

struct NeverOpens;

impl Provider for NeverOpens {
    fn open(&self, _servers: Servers, _response_timeout: Duration) -> Future<Connected> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_never_connects_is_unreachable_in_the_response_timeout() {
    let work = on_virtual_time(NeverOpens, async |locks| {
        for _ in 0..2 {
            let error = refused(soon("it is given up", locks.open("redis://nowhere", quick())).await);
            assert!(matches!(error.kind, ErrorKind::Unreachable) && error.retryable, "{error:?}");
            assert!((500..510).contains(&error.waited_ms.unwrap_or_default()), "{error:?}");
        }
    });
    work.await.unwrap();
}

/// A provider that answers `INFO` and nothing else.
#[derive(Clone, Default)]
struct AnswersNothing {
    /// How many commands it got.
    asked: Arc<AtomicUsize>,
    /// How many of them the component has given up.
    given_up: Arc<AtomicUsize>,
}

/// Counts when it is dropped.
struct GivenUp(Arc<AtomicUsize>);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Provider for AnswersNothing {
    fn open(&self, _servers: Servers, _response_timeout: Duration) -> Future<Connected> {
        let endpoint = Arc::new(self.clone()) as Arc<dyn Endpoint>;
        Box::pin(async { Ok(endpoint) })
    }
}

impl Endpoint for AnswersNothing {
    fn call(&self, command: Vec<Vec<u8>>) -> Future<Answer> {
        if command[0] == b"INFO" {
            return Box::pin(async { Ok(Reply::Single(Value::Text(b"redis_version:7.2.0".to_vec()))) });
        }
        // The question whether the address enforces slots.
        if command[0] == b"EVAL" {
            return Box::pin(async { Ok(Reply::Single(Value::Integer(0))) });
        }
        self.asked.fetch_add(1, Ordering::Relaxed);
        let given_up = GivenUp(Arc::clone(&self.given_up));
        Box::pin(async move {
            let _given_up = given_up;
            std::future::pending().await
        })
    }

    fn subscribe(&self, _channel: String) -> Future<Result<Messages, Failure>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn waits_end_in_time_though_no_command_is_answered() {
    let provider = AnswersNothing::default();
    let asked = Arc::clone(&provider.asked);
    let work = on_virtual_time(provider, async |locks| {
        let options = quick().map(|quick| ManagerOptions { response_timeout_ms: Some(10), ..quick });
        let manager = ok(locks.open("redis://silent", options).await);
        // The client repeatedly tries to release abandoned waits. That must not keep later waits from ending.
        for _ in 0..10 {
            asked.store(0, Ordering::Relaxed);
            let start = Instant::now();
            let waits = (0..100).map(async |number| {
                let error = refused(manager.acquire(mutex(&format!("job-{number}")), wait(100)).await);
                assert!(matches!(error.kind, ErrorKind::Unreachable), "{error:?}");
                start.elapsed()
            });
            let last = join_all(waits).await.into_iter().max().unwrap();
            let asked = asked.load(Ordering::Relaxed);
            assert!((100..110).contains(&last.as_millis()), "the last ended after {last:?}");
            let most = 200 + 2 * usize::try_from(last.as_millis()).unwrap();
            assert!((16..most).contains(&asked), "{asked} commands in {last:?}");
        }
    });
    work.await.unwrap();
}

/// How many calls go on after they were given up. The others are cancelled.
const LEFT: usize = 256;

#[tokio::test(start_paused = true)]
async fn calls_that_are_given_up_go_on_until_there_are_too_many() {
    let provider = AnswersNothing::default();
    let (asked, given_up) = (Arc::clone(&provider.asked), Arc::clone(&provider.given_up));
    let work = on_virtual_time(provider, async |locks| {
        let manager = ok(locks.open("redis://silent", quick()).await);
        let mut most = 0;
        while given_up.load(Ordering::Relaxed) < 100 {
            refused(soon("the try ends", manager.try_acquire(mutex("job"), None)).await);
            let asked = asked.load(Ordering::Relaxed);
            let under_way = asked - given_up.load(Ordering::Relaxed);
            most = most.max(under_way);
            assert!(asked < 5_000, "{asked} calls, and not enough were cancelled");
        }
        assert!((LEFT..LEFT + 100).contains(&most), "{most} calls were under way");
        manager.drop().unwrap();
        // The manager's end cancels none of those that go on: a provider that is busy would block the instance.
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(asked.load(Ordering::Relaxed) - given_up.load(Ordering::Relaxed), LEFT);
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_always_late_ends_a_call_that_is_never_answered() {
    let provider = AnswersNothing::default();
    let given_up = Arc::clone(&provider.given_up);
    let work = on_virtual_time(provider, async |locks| {
        let manager = ok(locks.open("redis://silent", quick()).await);
        let always_late = async {
            loop {
                tokio::time::sleep(Duration::from_millis(1)).await;
                advance(Duration::from_secs(1)).await;
            }
        };
        let calling = async {
            while given_up.load(Ordering::Relaxed) == 0 {
                let error = refused(soon("the try ends", manager.try_acquire(mutex("job"), None)).await);
                assert!(matches!(error.kind, ErrorKind::Unreachable), "{error:?}");
            }
        };
        tokio::select! {
            () = calling => {}
            () = always_late => {}
        }
    });
    work.await.unwrap();
}
