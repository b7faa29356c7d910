//! What a manager asks a server before the first lock, and what it does with the answers of servers that aren't ready and of proxies.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_core::PROBE;
use leasehold_wasmtime_host::{
    Answer, Connected, Endpoint, ErrorKind, Failure, Future, ManagerOptions, Messages, Provider, Reply, Sentinel,
    Servers, Topology, Value,
};

use crate::common::*;
use crate::memory::{Memories, Memory, on_virtual_time};

/// The answer to a command in place of the server's. The question about slots is called `PROBE`. The numbers say how often this command
/// came before, and how many commands in all.
type Answers = fn(command: &str, before: usize, all: usize) -> Option<Answer>;

/// Servers in memory behind a proxy.
struct Proxied {
    servers: Memories,
    answers: Answers,
    commands: Arc<Mutex<Vec<String>>>,
}

fn proxied(servers: Memories, answers: Answers) -> Proxied {
    Proxied { servers, answers, commands: Arc::default() }
}

struct Asked {
    server: Arc<dyn Endpoint>,
    answers: Answers,
    commands: Arc<Mutex<Vec<String>>>,
}

impl Provider for Proxied {
    fn open(&self, servers: Servers, response_timeout: Duration) -> Future<Connected> {
        let (opening, answers) = (self.servers.open(servers, response_timeout), self.answers);
        let commands = Arc::clone(&self.commands);
        Box::pin(async move { Ok(Arc::new(Asked { server: opening.await?, answers, commands }) as Arc<dyn Endpoint>) })
    }
}

impl Endpoint for Asked {
    fn call(&self, command: Vec<Vec<u8>>) -> Future<Answer> {
        let is_probe = command.iter().map(Vec::as_slice).eq(PROBE.map(str::as_bytes));
        let name = if is_probe { "PROBE".into() } else { String::from_utf8_lossy(&command[0]).into_owned() };
        let mut commands = self.commands.lock().unwrap();
        let before = commands.iter().filter(|command| **command == name).count();
        let all = commands.len();
        commands.push(name.clone());
        match (self.answers)(&name, before, all) {
            Some(answer) => Box::pin(async { answer }),
            None => self.server.call(command),
        }
    }

    fn subscribe(&self, channel: String) -> Future<Result<Messages, Failure>> {
        self.server.subscribe(channel)
    }
}

fn refusing(text: &str) -> Option<Answer> {
    Some(Err(Failure::Refused(text.to_owned())))
}

fn closing() -> Option<Answer> {
    Some(Err(Failure::Interrupted("the connection was closed".to_owned())))
}

#[tokio::test(start_paused = true)]
async fn the_servers_of_a_quorum_may_be_behind_proxies_that_close_the_connection_at_info() {
    let servers: [Memory; 3] = std::array::from_fn(|_| Memory::start());
    let closes = |command: &str, _, _| if command == "INFO" { closing() } else { None };
    let work = on_virtual_time(proxied(Memories(servers.to_vec()), closes), async |locks| {
        let urls = servers.iter().map(Place::url).collect();
        let manager = ok(locks.open_at(Topology::Quorum(urls), quick()).await);
        let lease = ok(manager.acquire(mutex("job"), None).await);
        until("all three have it", || servers.iter().all(|server| is_there(server, "job"))).await;
        ok(lease.release().await);
    });
    work.await.unwrap();
}

/// What a server says that enforces slots.
const CROSSSLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";

/// How many slots have a counter of fences on the server.
fn counters_of_slots(server: &Memory) -> usize {
    server.keys("leasehold:fence:{")
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_not_ready_is_asked_again_whether_it_enforces_slots() {
    let server = Memory::start();
    let answers = |command: &str, before, _| match (command, before) {
        ("PROBE", 0) => refusing("LOADING Redis is loading the dataset in memory"),
        ("PROBE", 1) => refusing("BUSY Redis is busy running a script"),
        ("PROBE", 2) => Some(Err(Failure::TimedOut)),
        ("PROBE", 3) => closing(),
        ("PROBE", 4) => refusing(CROSSSLOT),
        _ => None,
    };
    let work = on_virtual_time(proxied(server.provider(), answers), async |locks| {
        let manager = ok(locks.open(&server.url(), answering_within(5_000)).await);
        ok(ok(manager.acquire(mutex("job"), None).await).release().await);
        assert_eq!(counters_of_slots(&server), 1);
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_at_its_wait_with_the_words_of_a_server_that_never_gets_ready() {
    let server = Memory::start();
    let never = |command: &str, _, _| match command {
        "PROBE" => refusing("LOADING Redis is loading the dataset in memory"),
        _ => None,
    };
    let work = on_virtual_time(proxied(server.provider(), never), async |locks| {
        for cluster_slots in [None, Some(true)] {
            let options = quick().map(|quick| ManagerOptions { cluster_slots, ..quick });
            let manager = ok(locks.open(&server.url(), options).await);
            let error = refused(manager.acquire(mutex("job"), wait(700)).await);
            assert!(matches!(error.kind, ErrorKind::Unreachable) && error.retryable, "{error:?}");
            assert!(error.message.contains("LOADING Redis is loading"), "{error:?}");
            assert!((650..800).contains(&error.waited_ms.unwrap_or_default()), "{error:?}");
        }
        assert!(!is_there(&server, "job"));
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_a_server_tells_once_it_is_ready_ends_calls_as_it_would_have_ended_open() {
    let server = Memory::start();
    let node = |command: &str, before, _| match (command, before) {
        ("PROBE", 0) => refusing("BUSY Redis is busy running a script"),
        ("PROBE", _) => refusing(CROSSSLOT),
        ("GET", _) => refusing("MOVED 1024 10.0.0.2:6379"),
        _ => None,
    };
    let work = on_virtual_time(proxied(server.provider(), node), async |locks| {
        let manager = ok(locks.open(&server.url(), quick()).await);
        for _ in 0..2 {
            let error = refused(manager.acquire(mutex("job"), wait(700)).await);
            assert!(matches!(error.kind, ErrorKind::Unsupported) && !error.retryable, "{error:?}");
            assert!(error.message.contains("topology `cluster`"), "{error:?}");
        }
    });
    work.await.unwrap();
    let without_slots = |command: &str, before, _| match (command, before) {
        ("PROBE", 0) => refusing("LOADING Redis is loading the dataset in memory"),
        ("PROBE", _) => Some(Ok(Reply::Single(Value::Integer(0)))),
        _ => None,
    };
    let work = on_virtual_time(proxied(server.provider(), without_slots), async |locks| {
        let options = quick().map(|quick| ManagerOptions { cluster_slots: Some(true), ..quick });
        let manager = ok(locks.open(&server.url(), options).await);
        let error = refused(manager.acquire(mutex("job"), wait(700)).await);
        assert!(matches!(&error.kind, ErrorKind::InvalidOption(field) if field == "cluster-slots"), "{error:?}");
        assert!(error.message.contains("leave it out"), "{error:?}");
    });
    work.await.unwrap();
    assert!(!is_there(&server, "job"));
}

#[tokio::test(start_paused = true)]
async fn a_proxy_that_closes_the_connection_at_the_question_about_slots_is_used_without_them() {
    let server = Memory::start();
    let closes = |command: &str, _, _| if command == "PROBE" { closing() } else { None };
    let work = on_virtual_time(proxied(server.provider(), closes), async |locks| {
        let manager = ok(locks.open(&server.url(), quick()).await);
        ok(manager.inspect("job").await);
        let options = quick().map(|quick| ManagerOptions { cluster_slots: Some(true), ..quick });
        let error = refused(locks.open(&server.url(), options).await);
        assert!(matches!(error.kind, ErrorKind::Unreachable) && error.retryable, "{error:?}");
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_plain_connection_to_one_node_of_a_cluster_is_refused_at_the_start() {
    let server = Memory::start();
    let one_node = |command: &str, _, _| match command {
        "PROBE" => refusing(CROSSSLOT),
        "GET" => refusing("MOVED 1024 10.0.0.2:6379"),
        _ => None,
    };
    let work = on_virtual_time(proxied(server.provider(), one_node), async |locks| {
        let error = refused(locks.open(&server.url(), quick()).await);
        assert!(matches!(error.kind, ErrorKind::Unsupported) && !error.retryable, "{error:?}");
        assert!(error.message.contains("topology `cluster`") && error.message.contains("MOVED 1024"), "{error:?}");
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_node_of_a_cluster_that_is_down_is_asked_again_whether_other_nodes_have_slots() {
    let server = Memory::start();
    let all_down = |command: &str, before, _| match command {
        "PROBE" => refusing(CROSSSLOT),
        "GET" if before < 32 => refusing("CLUSTERDOWN The cluster is down"),
        "GET" if before == 32 => closing(),
        "GET" if before > 48 => refusing("MOVED 1024 10.0.0.2:6379"),
        _ => None,
    };
    let work = on_virtual_time(proxied(server.provider(), all_down), async |locks| {
        let manager = ok(locks.open(&server.url(), quick()).await);
        let error = refused(manager.acquire(mutex("job"), wait(5_000)).await);
        assert!(matches!(error.kind, ErrorKind::Unsupported) && !error.retryable, "{error:?}");
        assert!(error.message.contains("topology `cluster`") && error.message.contains("MOVED 1024"), "{error:?}");
    });
    work.await.unwrap();
    assert!(!is_there(&server, "job"));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_restarts_behind_a_load_balancer_is_not_taken_for_a_proxy_that_closes_the_connection() {
    let server = Memory::start();
    let restarts = |command: &str, _, all| match command {
        _ if all < 3 => closing(),
        "INFO" => Some(Ok(Reply::Single(Value::Text(b"redis_version:6.0.16".to_vec())))),
        _ => None,
    };
    let work = on_virtual_time(proxied(server.provider(), restarts), async |locks| {
        let error = refused(locks.open(&server.url(), quick()).await);
        assert!(matches!(error.kind, ErrorKind::Unreachable) && error.retryable, "{error:?}");
    });
    work.await.unwrap();

    let restarts = |command: &str, before, _| match command {
        "PROBE" | "PING" if before < 5 => closing(),
        "PROBE" => refusing(CROSSSLOT),
        _ => None,
    };
    let work = on_virtual_time(proxied(server.provider(), restarts), async |locks| {
        let manager = ok(locks.open(&server.url(), answering_within(5_000)).await);
        ok(ok(manager.acquire(mutex("job"), None).await).release().await);
        assert_eq!(counters_of_slots(&server), 1);
    });
    work.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_while_the_server_runs_a_long_script() {
    let server = Memory::start();
    let busy = |command: &str, before, _| match command {
        "INFO" if before < 5 => refusing("BUSY Redis is busy running a script"),
        _ => None,
    };
    let work = on_virtual_time(proxied(server.provider(), busy), async |locks| {
        let manager = ok(locks.open(&server.url(), quick()).await);
        ok(ok(manager.acquire(mutex("job"), None).await).release().await);
    });
    work.await.unwrap();
}

/// A cluster, or the primary behind Sentinel, is the server in memory.
struct Anywhere(Memory);

impl Provider for Anywhere {
    fn open(&self, _servers: Servers, response_timeout: Duration) -> Future<Connected> {
        self.0.provider().open(Servers::Single(self.0.url()), response_timeout)
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_has_slots_whatever_the_option_says_and_only_it_and_a_single_address_can_have_them() {
    let server = Memory::start();
    let urls = vec![server.url()];
    let sentinel = || Topology::Sentinel(Sentinel { addresses: urls.clone(), primary: "main".to_owned() });
    let options = |cluster_slots| quick().map(|quick| ManagerOptions { cluster_slots, ..quick });
    let work = on_virtual_time(Anywhere(server.clone()), async |locks| {
        for (place, slots) in [None, Some(false), Some(true)].into_iter().enumerate() {
            let manager = ok(locks.open_at(Topology::Cluster(urls.clone()), options(slots)).await);
            ok(ok(manager.acquire(mutex(&format!("job-{place}")), None).await).release().await);
            assert_eq!(counters_of_slots(&server), place + 1);
        }
        ok(locks.open_at(sentinel(), options(Some(false))).await);
        for topology in [sentinel(), Topology::Quorum(urls.clone())] {
            let error = refused(locks.open_at(topology, options(Some(true))).await);
            assert!(matches!(&error.kind, ErrorKind::InvalidOption(field) if field == "cluster-slots"), "{error:?}");
        }
    });
    work.await.unwrap();
}
