//! The component that connects by itself, with only standard WASI.

use leasehold_component_tests::{tcp_component, with_tcp_component};
use leasehold_servers::{Cluster, Server};
use leasehold_wasmtime_host::{
    Error, ErrorKind, HoldEnd, LossReason, Mode, RedisProvider, Sentinel, Topology, with_provider,
};

use crate::common::*;

/// How many clients are connected to the server, except the one that asks.
fn clients(server: &Server) -> usize {
    let list = server.cli(&["CLIENT", "LIST"]).unwrap();
    list.text().map_or(0, |list| list.lines().count()) - 1
}

#[tokio::test]
async fn a_lock_is_taken_handed_over_by_message_and_given_back() {
    let server = Server::start().unwrap();
    let work = with_tcp_component(async |locks| {
        taken_handed_over_by_message_and_given_back(locks, &server.url(), &server).await;
        assert_eq!(number(&server, &["PUBSUB", "NUMPAT"]), 0);
    });
    work.await.unwrap();
}

#[tokio::test]
async fn many_calls_at_once_share_a_connection() {
    let server = Server::start().unwrap();
    let work = with_tcp_component(async |locks| {
        let manager = open(locks, &server).await;
        let cycles = (0..100).map(async |number| {
            let lease = ok(manager.acquire(mutex(&format!("job-{number}")), long()).await);
            assert_eq!(lease.mode().await.unwrap(), Mode::Exclusive);
            ok(lease.release().await);
            lease.drop().unwrap();
        });
        soon("all are done", futures_util::future::join_all(cycles)).await;
        // One connection for commands and one for messages.
        let connections = clients(&server);
        assert!((1..=2).contains(&connections), "{connections} connections");
        ok(manager.inspect("job-1").await);
        manager.drop().unwrap();
        until("its connections are closed", || clients(&server) == 0).await;
    });
    work.await.unwrap();
}

#[tokio::test]
async fn credentials_and_the_database_are_those_of_the_address() {
    let server = Server::builder()
        .password("secret")
        .acl("app", "on >p@ss:word ~* &leasehold:* +@all -info -ping")
        .start()
        .unwrap();
    let at = |credentials: &str, rest: &str| format!("redis://{credentials}127.0.0.1:{}{rest}", server.port());
    let work = with_tcp_component(async |locks| {
        for credentials in ["", ":wrong@", "app:wrong@", "nobody:secret@"] {
            let error = refused(locks.open(&at(credentials, ""), patient()).await);
            assert!(matches!(error.kind, ErrorKind::Auth) && !error.retryable, "{credentials}: {error:?}");
            assert!(!error.message.contains("wrong"), "{error:?}");
        }
        let error = refused(locks.open(&at(":secret@", "/99"), patient()).await);
        assert!(matches!(error.kind, ErrorKind::Server), "{error:?}");

        let default = ok(locks.open(&at(":secret@", ""), patient()).await);
        let named = ok(locks.open(&at("app:p%40ss%3Aword@", "/3"), patient()).await);
        let lease = ok(default.acquire(mutex("job"), long()).await);
        // The other database doesn't have this key.
        ok(named.acquire(mutex("job"), long()).await);
        let keys = server.cli(&["INFO", "keyspace"]).unwrap();
        assert!(keys.text().is_some_and(|text| text.contains("db0:") && text.contains("db3:")), "{keys:?}");
        ok(lease.release().await);
    });
    work.await.unwrap();
}

#[tokio::test]
async fn a_host_is_looked_up_by_its_name() {
    let server = Server::start().unwrap();
    let work = with_tcp_component(async |locks| {
        let manager = ok(locks.open(&format!("redis://localhost:{}", server.port()), patient()).await);
        ok(manager.acquire(mutex("job"), long()).await);
    });
    work.await.unwrap();
}

#[tokio::test]
async fn what_can_not_be_connected_to_is_told_with_the_reason() {
    let mut server = Server::start().unwrap();
    server.stop();
    let work = with_tcp_component(async |locks| {
        let error = refused(locks.open(&server.url(), patient()).await);
        assert!(matches!(error.kind, ErrorKind::Unreachable) && error.retryable, "{error:?}");
        assert!(error.message.contains("ConnectionRefused"), "{error:?}");
        let error = refused(locks.open("rediss://127.0.0.1", patient()).await);
        assert!(matches!(error.kind, ErrorKind::Unsupported) && error.message.contains("TLS"), "{error:?}");
        let error = refused(locks.open("127.0.0.1:6379", patient()).await);
        assert!(matches!(error.kind, ErrorKind::Unsupported) && !error.retryable, "{error:?}");
        assert!(error.message.contains("redis://user:password@host:port/database"), "{error:?}");
    });
    work.await.unwrap();
}

/// Asserts that the error is `unsupported` and not retryable, and that its message has these words and an alternative.
#[track_caller]
fn unsupported(error: &Error, words: &[&str]) {
    assert!(matches!(error.kind, ErrorKind::Unsupported) && !error.retryable, "{error:?}");
    assert!(words.iter().all(|word| error.message.contains(word)), "without {words:?}: {error:?}");
    assert!(error.message.contains("`lock.wasm` in a host"), "{error:?}");
}

#[tokio::test]
async fn an_address_that_asks_for_tls_is_refused_before_anything_is_sent() {
    let (server, alone) = (Server::start().unwrap(), [(); 2].map(|()| Server::start().unwrap()));
    let before = connections_so_far(&server);
    let work = with_tcp_component(async |locks| {
        for scheme in ["rediss", "valkeys"] {
            let url = format!("{scheme}://:secret@127.0.0.1:{}", server.port());
            let error = refused(locks.open(&url, patient()).await);
            unsupported(&error, &["the server's address", &format!("`{scheme}://`"), "no TLS", "TLS proxy", "stunnel"]);
            assert!(!error.message.contains("secret"), "{error:?}");

            let urls = vec![alone[0].url(), url, alone[1].url()];
            let error = refused(locks.open_at(Topology::Quorum(urls), patient()).await);
            unsupported(&error, &[&format!("127.0.0.1:{}", server.port()), &format!("`{scheme}://`"), "no TLS"]);
        }
    });
    work.await.unwrap();
    assert_eq!(connections_so_far(&server), before + 1, "the one that asks");
}

/// How many connections the server has accepted, with the one that asks.
fn connections_so_far(server: &Server) -> i64 {
    let stats = server.cli(&["INFO", "stats"]).unwrap();
    let line =
        stats.text().and_then(|text| text.lines().find_map(|line| line.strip_prefix("total_connections_received:")));
    line.unwrap().trim().parse().unwrap()
}

#[tokio::test]
async fn the_topologies_cluster_and_sentinel_are_refused_by_name_even_if_there_is_a_server() {
    let server = Server::start().unwrap();
    let work = with_tcp_component(async |locks| {
        let error = refused(locks.open_at(Topology::Cluster(vec![server.url()]), patient()).await);
        unsupported(&error, &["topology `cluster`", "`single` or `quorum`"]);
        let sentinel = Sentinel { addresses: vec![server.url()], primary: "main".to_owned() };
        let error = refused(locks.open_at(Topology::Sentinel(sentinel), patient()).await);
        unsupported(&error, &["topology `sentinel`", "`single`"]);
    });
    work.await.unwrap();
}

#[tokio::test]
async fn a_node_of_a_cluster_is_refused_when_the_manager_is_opened_and_otherwise_at_the_first_command() {
    let builder = || Server::builder().acl("app", "on >secret ~* &* +@all -info");
    let cluster = Cluster::start(builder).unwrap();
    let empty = builder().arg("--cluster-enabled", "yes").start().unwrap();
    let alone = [(); 2].map(|()| Server::start().unwrap());
    let node = cluster.server(0);
    let work = with_tcp_component(async |locks| {
        // A node has one database only, and refuses the others in words that don't name the reason.
        for database in [0, 3] {
            let url = format!("redis://127.0.0.1:{}/{database}", node.port());
            let error = refused(locks.open(&url, patient()).await);
            unsupported(&error, &[&format!("the server at 127.0.0.1, port {}", node.port()), "cluster"]);
        }
        let urls = vec![alone[0].url(), node.url(), alone[1].url()];
        let error = refused(locks.open_at(Topology::Quorum(urls), patient()).await);
        unsupported(&error, &[&format!("the server at 127.0.0.1, port {}", node.port()), "cluster"]);

        // The user `app` may not ask the server for its mode. So its answers show that other nodes have the other slots.
        let url = format!("redis://app:secret@127.0.0.1:{}", node.port());
        unsupported(&refused(locks.open(&url, patient()).await), &["cluster", "MOVED"]);
        // This one is a node without slots. It may get some, so calls wait for that.
        let url = format!("redis://app:secret@127.0.0.1:{}", empty.port());
        let manager = ok(locks.open(&url, patient()).await);
        let told = async {
            loop {
                let error = refused(manager.acquire(mutex("job"), wait(500)).await);
                assert!(matches!(error.kind, ErrorKind::Unreachable) && error.retryable, "{error:?}");
                if error.message.contains("CLUSTERDOWN Hash slot not served") {
                    break;
                }
            }
        };
        soon("it says why", told).await;
    });
    work.await.unwrap();
    let keys = |place: usize| number(cluster.server(place), &["DBSIZE"]);
    assert_eq!([0, 1, 2].map(keys), [0; 3], "nothing was written");
}

#[tokio::test]
async fn a_sentinel_is_refused_when_the_manager_is_opened() {
    let primary = Server::start().unwrap();
    let sentinel = leasehold_servers::Sentinel::start(Server::builder(), &primary, 0, "").unwrap();
    let work = with_tcp_component(async |locks| {
        for database in [0, 3] {
            let url = format!("redis://127.0.0.1:{}/{database}", sentinel.server().port());
            let error = refused(locks.open(&url, patient()).await);
            unsupported(
                &error,
                &[&format!("the server at 127.0.0.1, port {}", sentinel.server().port()), "Sentinel", "`single`"],
            );
        }
    });
    work.await.unwrap();
}

#[tokio::test]
async fn a_host_that_allows_no_network_is_told_apart_from_a_server_that_is_gone() {
    let server = Server::start().unwrap();
    let work = with_provider(tcp_component(), RedisProvider, async |locks| {
        let error = refused(locks.open(&server.url(), patient()).await);
        assert!(matches!(error.kind, ErrorKind::Unreachable), "{error:?}");
        assert!(error.message.contains("does not let the component connect"), "{error:?}");
    });
    work.await.unwrap();
}

#[tokio::test]
async fn cut_connections_are_made_again_and_cost_neither_the_lease_nor_the_place_in_the_queue() {
    let server = Server::start().unwrap();
    let work = with_tcp_component(async |locks| {
        let (one, other) = (open(locks, &server).await, open(locks, &server).await);
        let lease = ok(one.acquire(mutex("job"), long()).await);
        let cutting = async {
            until("somebody waits", || waiters(&server, "job") == 1).await;
            for _ in 0..3 {
                server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).unwrap();
                server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap();
                assert!(again("it connects again", async || lease.verify().await).await);
            }
            assert_eq!(waiters(&server, "job"), 1);
            ok(lease.release().await);
        };
        let (next, ()) =
            soon("all goes on", async { tokio::join!(other.acquire(mutex("job"), long()), cutting) }).await;
        ok(next);
    });
    work.await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_killed_ends_waits_as_unreachable_and_is_used_again_once_it_is_back() {
    let mut server = Server::start().unwrap();
    let url = server.url();
    let work = with_tcp_component(async |locks| {
        let manager = ok(locks.open(&url, patient()).await);
        let lease = ok(manager.acquire(mutex("job"), ttl(1_000)).await);
        let fence = lease.fence().await.unwrap();
        server.stop();
        let (end, other) = tokio::join!(lease.hold(10_000), manager.acquire(mutex("other"), wait(700)));
        let error = refused(other);
        assert!(matches!(error.kind, ErrorKind::Unreachable) && error.retryable, "{error:?}");
        assert_eq!(ok(end), HoldEnd::Lost(LossReason::Expired));

        server.restart().unwrap();
        let next = ok(soon("it connects again", manager.acquire(mutex("job"), long())).await);
        assert!(next.fence().await.unwrap() > fence);
    });
    work.await.unwrap();
}

#[tokio::test]
async fn a_server_that_stops_answering_and_goes_on_is_waited_for() {
    let server = Server::start().unwrap();
    let work = with_tcp_component(async |locks| {
        let manager = open(locks, &server).await;
        let lease = ok(manager.acquire(mutex("job"), long()).await);
        server.pause().unwrap();
        let error = refused(manager.acquire(mutex("other"), wait(700)).await);
        assert!(matches!(error.kind, ErrorKind::Unreachable), "{error:?}");
        server.resume().unwrap();
        assert!(ok(lease.verify().await));
        ok(manager.acquire(mutex("other"), long()).await);
    });
    work.await.unwrap();
}
