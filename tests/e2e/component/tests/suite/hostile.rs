//! A connection provider that gives answers that no server would give. The component returns an error, and stays
//! usable.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_wasmtime_host::{
    Answer, Connected, Endpoint, ErrorKind, Failure, Future, HoldEnd, LossReason, Messages, Provider, Reply, Servers,
    Value,
};
use tokio::sync::mpsc;

use crate::common::*;
use crate::memory::{Memory, on_virtual_time};

/// How calls are answered.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Manners {
    Good,
    Nothing,
    Empty,
    Huge,
    Nested,
    Wild,
    Text,
    Nil,
    Unsupported,
    Other,
    Wordy,
    NeverAnswers,
}

const ALL: [Manners; 12] = [
    Manners::Good,
    Manners::Nothing,
    Manners::Empty,
    Manners::Huge,
    Manners::Nested,
    Manners::Wild,
    Manners::Text,
    Manners::Nil,
    Manners::Unsupported,
    Manners::Other,
    Manners::Wordy,
    Manners::NeverAnswers,
];

/// A correct provider whose answers and messages a test can replace.
#[derive(Clone)]
struct Hostile {
    server: Memory,
    manners: Arc<AtomicU8>,
    messages: Arc<Mutex<Vec<mpsc::Sender<Vec<u8>>>>>,
}

impl Hostile {
    fn before(server: &Memory) -> Self {
        Self { server: server.clone(), manners: Arc::default(), messages: Arc::default() }
    }

    fn set(&self, manners: Manners) {
        let at = ALL.iter().position(|other| *other == manners).unwrap();
        self.manners.store(at as u8, Ordering::SeqCst);
    }

    fn manners(&self) -> Manners {
        ALL[usize::from(self.manners.load(Ordering::SeqCst))]
    }
}

struct HostileEndpoint {
    host: Hostile,
    good: Arc<dyn Endpoint>,
}

impl Provider for Hostile {
    fn open(&self, servers: Servers, response_timeout: Duration) -> Future<Connected> {
        let (host, opening) = (self.clone(), self.server.provider().open(servers, response_timeout));
        Box::pin(async move { Ok(Arc::new(HostileEndpoint { host, good: opening.await? }) as Arc<dyn Endpoint>) })
    }
}

impl Endpoint for HostileEndpoint {
    fn call(&self, command: Vec<Vec<u8>>) -> Future<Answer> {
        let text = |text: &str| Value::Text(text.as_bytes().to_vec());
        let wild = || Value::Integer(i64::MIN);
        let spoilt = match self.host.manners() {
            Manners::Good => return self.good.call(command),
            Manners::NeverAnswers => return Box::pin(std::future::pending()),
            Manners::Nothing => Ok(Reply::Array(Vec::new())),
            Manners::Empty => Ok(Reply::Single(Value::Text(Vec::new()))),
            Manners::Huge => Ok(Reply::Array(vec![Value::Integer(i64::MAX); 100_000])),
            Manners::Nested => Ok(Reply::Other("[[1]]".into())),
            Manners::Wild => Ok(Reply::Array(vec![text("entered"), wild(), wild(), wild(), wild(), wild(), wild()])),
            Manners::Text => Ok(Reply::Array(vec![text("entered"), text("no number"), Value::Text(vec![0xff; 64])])),
            Manners::Nil => Ok(Reply::Single(Value::Nil)),
            Manners::Unsupported => Err(Failure::Unsupported("no commands here".into())),
            Manners::Other => Err(Failure::Other("who knows".into())),
            Manners::Wordy => Err(Failure::Refused(format!("ERR {}", "no ".repeat(2_000_000)))),
        };
        Box::pin(async { spoilt })
    }

    fn subscribe(&self, _channel: String) -> Future<Result<Messages, Failure>> {
        let (sender, messages) = mpsc::channel(64);
        self.host.messages.lock().unwrap().push(sender);
        Box::pin(async { Ok(messages) })
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_a_call_is_answered_the_component_answers_with_an_error_and_stays_usable() {
    let server = Memory::start();
    let host = Hostile::before(&server);
    let work = on_virtual_time(host.clone(), async |locks| {
        let manager = ok(locks.open(&server.url(), answering_within(1_500)).await);
        for manners in ALL {
            if manners == Manners::Good {
                continue;
            }
            let name = format!("{manners:?}");
            // A conversion whose result is unknown ends with its lease at the latest.
            let kept = ok(manager.acquire(mutex(&format!("kept-{name}")), ttl(1_500)).await);
            host.set(manners);
            let error = refused(soon(&name, manager.acquire(mutex(&name), wait(3_000))).await);
            let expected = match manners {
                Manners::Unsupported => matches!(error.kind, ErrorKind::Unsupported),
                Manners::Other | Manners::NeverAnswers => matches!(error.kind, ErrorKind::Unreachable),
                Manners::Wordy => matches!(error.kind, ErrorKind::Server) && error.message.contains("ERR no no"),
                _ => matches!(error.kind, ErrorKind::Protocol),
            };
            assert!(error.message.len() < 1_000, "{manners:?}: {} bytes", error.message.len());
            assert!(expected, "{manners:?}: {error:?}");
            refused(soon(&name, manager.inspect(&name)).await);
            refused(soon(&name, kept.extend(10_000)).await);
            refused(soon(&name, kept.downgrade()).await);
            let _ = soon(&name, kept.verify()).await.unwrap();
            let _ = soon(&name, kept.release()).await.unwrap();
            // A server that doesn't report its version is accepted.
            let _ = soon(&name, locks.open(&server.url(), quick())).await.unwrap();

            host.set(Manners::Good);
            let lease = ok(soon(&name, manager.acquire(mutex(&format!("after-{name}")), None)).await);
            assert!(ok(lease.verify().await), "{manners:?}");
            ok(lease.release().await);
        }
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hold_with_a_provider_that_never_answers_ends_at_the_leases_deadline() {
    let server = Memory::start();
    let host = Hostile::before(&server);
    let work = on_virtual_time(host.clone(), async |locks| {
        let manager = open_quick(locks, &server).await;
        let lease = ok(manager.acquire(mutex("job"), ttl(1_500)).await);
        host.set(Manners::NeverAnswers);
        let watching = async {
            loop {
                let was_there = is_there(&server, "job");
                if !lease.is_held().await.unwrap() {
                    break;
                }
                assert!(was_there, "the server's lease has ended, and the holder is not told");
                tokio::time::sleep(Duration::from_micros(500)).await;
            }
            assert_eq!(lease.remaining_ms().await.unwrap(), 0);
            assert_eq!(ok(lease.hold(60_000).await), HoldEnd::Lost(LossReason::Expired));
        };
        let (end, ()) = soon("it ends", async { tokio::join!(lease.hold(60_000), watching) }).await;
        assert_eq!(ok(end), HoldEnd::Lost(LossReason::Expired));
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn messages_that_mean_nothing_and_streams_that_end_do_no_harm() {
    let server = Memory::start();
    let host = Hostile::before(&server);
    let work = on_virtual_time(host.clone(), async |locks| {
        let (one, other) = (open_quick(locks, &server).await, open_quick(locks, &server).await);
        let lease = ok(one.acquire(mutex("job"), None).await);
        let striking = async {
            until("somebody waits", || waiters(&server, "job") == 1).await;
            for round in 0..20 {
                let senders = std::mem::take(&mut *host.messages.lock().unwrap());
                for sender in senders {
                    for payload in payloads(round) {
                        let _ = sender.send(payload).await;
                    }
                    // Dropping the sender ends the stream.
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            assert!(ok(lease.verify().await));
            ok(lease.release().await);
        };
        // No message of a grant arrives. The waiter finds the grant at its next heartbeat.
        let (next, ()) =
            soon("it is granted", async { tokio::join!(other.acquire(mutex("job"), None), striking) }).await;
        assert!(ok(next).is_held().await.unwrap());
    });
    work.await.unwrap();
}

fn payloads(round: u64) -> Vec<Vec<u8>> {
    let texts = [
        "",
        "grant",
        "wanted",
        "wanted job",
        "wanted \u{0} job",
        "grant x exclusive 1 1 1 1 1 job",
        "grant 00000000-0000-4000-8000-00000000000a:1 exclusive 99999999999999999999 1 1 1 1 job",
        "grant 00000000-0000-4000-8000-00000000000a:18446744073709551615 shared 1 1 1 1 1 job",
    ];
    let mut payloads: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    payloads.push(vec![0xff; 1 << (round % 17)]);
    payloads
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_messages_keeps_nobody_from_working() {
    let server = Memory::start();
    let host = Hostile::before(&server);
    let work = on_virtual_time(host.clone(), async |locks| {
        let (one, other) = (open_quick(locks, &server).await, open_quick(locks, &server).await);
        let lease = ok(one.acquire(mutex("job"), None).await);
        let flooding = async {
            until("a stream is there", || !host.messages.lock().unwrap().is_empty()).await;
            let senders = host.messages.lock().unwrap().clone();
            loop {
                for sender in &senders {
                    let _ = sender.try_send(b"wanted somebody".to_vec());
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let working = async {
            until("somebody waits", || waiters(&server, "job") == 1).await;
            for _ in 0..20 {
                let lease = ok(one.acquire(mutex("beside"), None).await);
                ok(lease.release().await);
            }
            ok(lease.release().await);
        };
        let all = async { tokio::join!(other.acquire(mutex("job"), None), working) };
        let all = async {
            tokio::select! {
                (next, ()) = all => next,
                () = flooding => unreachable!("it never ends"),
            }
        };
        ok(soon("the work is done", all).await);
    });
    work.await.unwrap();
}
