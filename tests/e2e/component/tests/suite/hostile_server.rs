//! Servers that break the protocol. The component that connects by itself returns errors, and stays usable.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_component_tests::with_tcp_component;
use leasehold_servers::Server;
use leasehold_wasmtime_host::{
    Error, ErrorKind, Failure, HoldEnd, Lease, Locks, LossReason, Provider, RedisProvider, Reply, Servers, Value,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};

use crate::common::*;

/// What the server answers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Manners {
    /// Passes on the answer of a real server.
    Good,
    /// Sends these bytes, and keeps the connection open.
    Says(&'static [u8]),
    /// Sends these bytes, and closes the connection.
    SaysAndCloses(&'static [u8]),
    /// Closes one connection, and is good after that.
    ClosesOnce,
    /// Sends these bytes repeatedly.
    Repeats(&'static [u8]),
}

use Manners::{ClosesOnce, Good, Repeats, Says, SaysAndCloses};

const ALL: [(&str, Manners); 14] = [
    ("another protocol", SaysAndCloses(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")),
    ("bytes", Says(b"\x00\xff\xfe\r\n\r\n")),
    ("nothing", Says(b"")),
    ("nothing, and closed", SaysAndCloses(b"")),
    ("half a reply", Says(b"*7\r\n$7\r\nentered\r\n:1")),
    ("half a reply, and closed", SaysAndCloses(b"*7\r\n$7\r\nent")),
    ("a reply for nobody", Says(b"+OK\r\n+OK\r\n+OK\r\n")),
    ("an array that says it is huge", Says(b"*2147483647\r\n")),
    ("a string that says it is huge", Says(b"$536870912\r\nabc")),
    ("a string without an end", Repeats(b"+aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")),
    ("an array without an end", Repeats(b"*1000000\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n")),
    ("replies without an end", Repeats(b"+OK\r\n")),
    ("arrays in arrays", Says(b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n")),
    ("a newer protocol", Says(b"%1\r\n+server\r\n+x\r\n")),
];

/// A proxy in front of a real server.
#[derive(Clone)]
struct Hostile {
    manners: Arc<Mutex<Manners>>,
    port: u16,
}

impl Hostile {
    async fn before(server: &Server) -> Self {
        let address = server.address();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let hostile = Self { manners: Arc::new(Mutex::new(Good)), port: listener.local_addr().unwrap().port() };
        let accepting = hostile.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(address).await else { return };
                tokio::spawn(serve(accepting.clone(), client, server));
            }
        });
        hostile
    }

    fn set(&self, manners: Manners) {
        *self.manners.lock().unwrap() = manners;
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

async fn serve(hostile: Hostile, client: TcpStream, server: TcpStream) {
    let (mut from_client, to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let to_client = Arc::new(tokio::sync::Mutex::new(to_client));
    let answering = Arc::clone(&to_client);
    let mut answers = tokio::spawn(async move {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from_server.read(&mut bytes).await {
            if answering.lock().await.write_all(&bytes[..count]).await.is_err() {
                return;
            }
        }
    });
    let mut bytes = [0; 4096];
    loop {
        let count = tokio::select! {
            read = from_client.read(&mut bytes) => read.unwrap_or(0),
            // The real server has closed the connection.
            _ = &mut answers => 0,
        };
        if count == 0 {
            break;
        }
        let manners = *hostile.manners.lock().unwrap();
        let (said, ends) = match manners {
            Good => (to_server.write_all(&bytes[..count]).await, false),
            Says(text) => (to_client.lock().await.write_all(text).await, false),
            SaysAndCloses(text) => (to_client.lock().await.write_all(text).await, true),
            ClosesOnce => {
                hostile.set(Good);
                (Ok(()), true)
            }
            Repeats(text) => {
                let many = text.repeat(200);
                let mut to_client = to_client.lock().await;
                let mut said = Ok(());
                while said.is_ok() {
                    said = to_client.write_all(&many).await;
                }
                (said, true)
            }
        };
        if said.is_err() || ends {
            break;
        }
    }
    answers.abort();
    let _ = to_client.lock().await.shutdown().await;
    // Reads the rest, so that the connection ends cleanly.
    let _ = copy(&mut from_client, &mut tokio::io::sink()).await;
}

#[tokio::test]
async fn whatever_a_server_says_the_component_answers_with_an_error_and_stays_usable() {
    let server = Server::start().unwrap();
    let hostile = Hostile::before(&server).await;
    let work = with_tcp_component(async |locks| {
        let manager = again("it opens", async || locks.open(&hostile.url(), answering_within(1_000)).await).await;
        for (what, manners) in ALL {
            let kept = again(what, async || manager.acquire(mutex(&format!("kept {what}")), ttl(1_500)).await).await;
            hostile.set(manners);
            let error = refused(soon(what, manager.acquire(mutex(what), wait(1_500))).await);
            let expected = matches!(error.kind, ErrorKind::Unreachable | ErrorKind::Protocol);
            assert!(expected, "{what}: {error:?}");
            refused(soon(what, manager.inspect(what)).await);
            refused(soon(what, kept.extend(10_000)).await);
            let _ = soon(what, kept.verify()).await.unwrap();
            let _ = soon(what, kept.release()).await.unwrap();
            let error = refused(soon(what, locks.open(&hostile.url(), answering_within(500))).await);
            assert!(matches!(error.kind, ErrorKind::Unreachable | ErrorKind::Protocol), "{what}: {error:?}");

            hostile.set(Good);
            let lease = again(what, async || manager.acquire(mutex(&format!("after {what}")), long()).await).await;
            assert!(again(what, async || lease.verify().await).await, "{what}");
            again(what, async || lease.release().await).await;
        }
    });
    work.await.unwrap();
}

#[tokio::test]
async fn what_is_no_server_of_locks_is_told_with_what_it_said() {
    let server = Server::start().unwrap();
    let hostile = Hostile::before(&server).await;
    hostile.set(SaysAndCloses(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
    let work = with_tcp_component(async |locks| {
        let error = refused(locks.open(&hostile.url(), patient()).await);
        assert!(error.message.contains("HTTP/1.1 400 Bad Request"), "{error:?}");
    });
    work.await.unwrap();
}

#[tokio::test]
async fn a_connection_that_breaks_at_the_login_hides_no_sentinel() {
    let primary = Server::start().unwrap();
    let sentinel = leasehold_servers::Sentinel::start(Server::builder(), &primary, 0, "").unwrap();
    let hostile = Hostile::before(sentinel.server()).await;
    hostile.set(ClosesOnce);
    let work = with_tcp_component(async |locks| {
        let error = refused(locks.open(&hostile.url(), patient()).await);
        assert!(matches!(error.kind, ErrorKind::Unsupported) && error.message.contains("is a Sentinel"), "{error:?}");
    });
    work.await.unwrap();
}

#[tokio::test]
async fn a_hold_on_a_server_that_falls_silent_ends_at_the_leases_deadline() {
    let server = Server::start().unwrap();
    let hostile = Hostile::before(&server).await;
    let work = with_tcp_component(async |locks| {
        let manager = ok(locks.open(&hostile.url(), patient()).await);
        let lease = ok(manager.acquire(mutex("job"), ttl(600)).await);
        hostile.set(Says(b""));
        assert_eq!(ok(soon("it ends", lease.hold(60_000)).await), HoldEnd::Lost(LossReason::Expired));
    });
    work.await.unwrap();
}

#[tokio::test]
async fn a_reply_that_comes_too_late_is_not_taken_for_anothers() {
    let server = Server::start().unwrap();
    let hostile = Hostile::before(&server).await;
    let work = with_tcp_component(async |locks| {
        let manager = again("it opens", async || locks.open(&hostile.url(), answering_within(2_000)).await).await;
        // On a slow machine, answers to other calls may be late, too. In one round, all of them must be in time.
        for round in 0.. {
            server.pause().unwrap();
            refused(soon("it is given up", manager.try_acquire(mutex(&format!("late-{round}")), None)).await);
            server.resume().unwrap();
            let leases = (0..20).map(async |number| {
                let name = format!("job-{round}-{number}");
                let lease = in_time(manager.acquire(mutex(&name), long()).await)?;
                assert!(is_there(&server, &name));
                tokio::time::sleep(Duration::from_millis(1)).await;
                in_time(lease.release().await)?;
                assert!(!is_there(&server, &name));
                Some(())
            });
            let done = soon("all are done", futures_util::future::join_all(leases)).await;
            if done.iter().all(Option::is_some) {
                break;
            }
            assert!(round < 20, "no round without late answers");
        }
    });
    work.await.unwrap();
}

/// What a call returned, unless the server answered too late.
fn in_time<T>(answer: wasmtime::Result<Result<T, Error>>) -> Option<T> {
    match answer.unwrap() {
        Ok(value) => Some(value),
        Err(error) if matches!(error.kind, ErrorKind::Unreachable) => None,
        Err(error) => panic!("{error:?}"),
    }
}

/// The ids of the connections that are subscribed to something.
fn subscribed(server: &Server) -> Vec<String> {
    let list = server.cli(&["CLIENT", "LIST", "TYPE", "pubsub"]).unwrap();
    let id = |line: &str| line.split(' ').next().map(str::to_owned);
    list.text().map_or_else(Vec::new, |list| list.lines().filter_map(id).collect())
}

#[tokio::test]
async fn a_subscription_that_only_looks_alive_is_made_again() {
    let server = Server::start().unwrap();
    let hostile = Hostile::before(&server).await;
    let work = with_tcp_component(async |locks| {
        let (held, waiting) = held_and_waited_for(locks, &server, &hostile).await;
        let striking = async {
            for manners in [Says(b""), Repeats(b"+OK\r\n")] {
                until("it is subscribed", || subscribed(&server).len() == 1).await;
                let before = subscribed(&server);
                hostile.set(manners);
                until("it has noticed", || subscribed(&server).is_empty()).await;
                hostile.set(Good);
                until("it is subscribed again", || subscribed(&server).len() == 1).await;
                assert_ne!(subscribed(&server), before);
            }
            ok(held.release().await);
        };
        tokio::join!(waiting, striking);
    });
    work.await.unwrap();
}

/// A held lock, and a waiter for it on the hostile server. The waiter subscribes. It tries again after an error, and
/// releases what it gets.
async fn held_and_waited_for<'a>(
    locks: Locks<'a>,
    server: &Server,
    hostile: &Hostile,
) -> (Lease<'a>, impl Future<Output = ()>) {
    let manager = again("it opens", async || locks.open(&hostile.url(), answering_within(1_000)).await).await;
    let held = ok(open(locks, server).await.acquire(mutex("job"), long()).await);
    let waiting = async move {
        let next = loop {
            match manager.acquire(mutex("job"), long()).await.unwrap() {
                Ok(lease) => break lease,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        again("it is given back", async || next.release().await).await;
        next.drop().unwrap();
        manager.drop().unwrap();
    };
    (held, waiting)
}

#[tokio::test]
async fn a_server_that_lets_nobody_in_for_a_while_is_waited_for_and_subscribed_to_again() {
    let server = Server::start().unwrap();
    let hostile = Hostile::before(&server).await;
    let work = with_tcp_component(async |locks| {
        let manager = again("it opens", async || locks.open(&hostile.url(), answering_within(1_000)).await).await;
        for words in FULL {
            let (held, waiting) = held_and_waited_for(locks, &server, &hostile).await;
            let striking = async {
                until("it is subscribed", || subscribed(&server).len() == 1).await;
                hostile.set(SaysAndCloses(words));
                server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap();
                server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).unwrap();
                let error = refused(soon("the wait ends", manager.acquire(mutex("other"), wait(700))).await);
                assert!(matches!(error.kind, ErrorKind::Unreachable) && error.retryable, "{error:?}");
                let error = refused(locks.open(&hostile.url(), answering_within(1_000)).await);
                assert!(matches!(error.kind, ErrorKind::Unreachable) && error.retryable, "{error:?}");
                hostile.set(Good);
                until("it is subscribed again", || subscribed(&server).len() == 1).await;
                again("it connects again", async || held.release().await).await;
            };
            tokio::join!(waiting, striking);
            until("it is subscribed no more", || subscribed(&server).is_empty()).await;
        }
    });
    work.await.unwrap();
}

#[tokio::test]
async fn a_cluster_behind_a_proxy_that_is_down_for_a_while_is_waited_for() {
    let server = Server::start().unwrap();
    let hostile = Hostile::before(&server).await;
    let work = with_tcp_component(async |locks| {
        let manager = again("it opens", async || locks.open(&hostile.url(), answering_within(1_000)).await).await;
        hostile.set(Says(b"-CLUSTERDOWN The cluster is down\r\n"));
        let error = refused(manager.acquire(mutex("job"), wait(700)).await);
        assert!(matches!(error.kind, ErrorKind::Unreachable) && error.retryable, "{error:?}");
        hostile.set(Good);
        again("it goes on", async || manager.acquire(mutex("job"), wait(5_000)).await).await;
    });
    work.await.unwrap();
}

/// Errors of a server that may accept the client later.
const FULL: [&[u8]; 2] =
    [b"-ERR max number of clients reached\r\n", b"-LOADING Redis is loading the dataset in memory\r\n"];

#[tokio::test]
async fn the_example_provider_answers_every_call_in_its_time_though_the_server_is_silent() {
    let server = Server::start().unwrap();
    let hostile = Hostile::before(&server).await;
    let limit = Duration::from_secs(2);
    let opened = async || loop {
        match RedisProvider.open(Servers::Single(hostile.url()), limit).await {
            Ok(endpoint) => return endpoint,
            Err(Failure::Unavailable(_)) => {}
            Err(failure) => panic!("{failure:?}"),
        }
    };
    let endpoint = soon("it is open", opened()).await;
    hostile.set(Says(b""));
    let ping = || endpoint.call(vec![b"PING".to_vec()]);
    assert_eq!(ping().await, Err(Failure::TimedOut));
    // One after the other, these calls would take longer than a test waits.
    let many = (SOON.as_secs() / limit.as_secs() * 2) as usize;
    for answer in soon("all end", futures_util::future::join_all((0..many).map(|_| ping()))).await {
        assert!(matches!(answer, Err(Failure::Unavailable(_))), "{answer:?}");
    }
    hostile.set(Good);
    let answered = async { while ping().await != Ok(Reply::Single(Value::Text(b"PONG".to_vec()))) {} };
    soon("it answers again", answered).await;
}
