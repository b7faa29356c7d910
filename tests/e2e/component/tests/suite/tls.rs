//! The component that connects by itself, with TLS.

use std::fs;
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use leasehold_component_tests::with_tls_component;
use leasehold_servers::{Builder, Certificate, Server};
use leasehold_wasmtime_host::{Error, ErrorKind, Locks, ManagerOptions};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::common::*;
use crate::hostile_server::{Hostile, Manners};

/// A server with TLS. None if it was built without.
fn start(server: Builder) -> Option<Server> {
    match server.password("secret").start() {
        Ok(server) => Some(server),
        Err(leasehold_servers::Error::NotStarted(log))
            if log.contains("finding TLS support") || log.contains("Bad directive") =>
        {
            // Past the test harness, which hides what a passing test prints: `cargo xtask test` counts these lines.
            let _ = writeln!(io::stdout(), "skipped: this server has no TLS");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

pub(crate) fn with_tls(certificate: &Certificate) -> Option<Server> {
    start(Server::builder().tls(certificate))
}

fn tls_url(server: &Server) -> String {
    server.tls_url().unwrap()
}

fn tls_port(server: &Server) -> u16 {
    let url = tls_url(server);
    url.trim_end_matches('/').rsplit_once(':').unwrap().1.parse().unwrap()
}

fn certificate_text(certificate: &Certificate) -> String {
    fs::read_to_string(certificate.path()).unwrap()
}

fn key_text(certificate: &Certificate) -> String {
    fs::read_to_string(certificate.key()).unwrap()
}

/// Names and values in the component's environment.
type Variables<'a> = &'a [(&'a str, &'a str)];

/// Runs `work` in an instance that trusts these authorities.
async fn trusting<R>(ca: &str, work: impl AsyncFnOnce(Locks<'_>) -> R) -> wasmtime::Result<R> {
    with_tls_component(&[("LEASEHOLD_TLS_CA", ca)], work).await
}

/// The error of an attempt to open a manager, in an instance of its own with these variables.
async fn refusal(environment: Variables<'_>, url: &str) -> Error {
    refusal_of(environment, url, patient()).await
}

async fn refusal_of(environment: Variables<'_>, url: &str, options: Option<ManagerOptions>) -> Error {
    let opened =
        with_tls_component(environment, async |locks| refused(soon("an answer", locks.open(url, options)).await));
    let error = opened.await.unwrap();
    assert!(!error.message.contains("secret"), "{error:?}");
    error
}

#[track_caller]
fn unreachable(error: &Error, words: &[&str]) {
    assert!(matches!(error.kind, ErrorKind::Unreachable) && error.retryable, "{error:?}");
    assert!(words.iter().all(|word| error.message.contains(word)), "without {words:?}: {error:?}");
}

#[track_caller]
fn unsupported(error: &Error, words: &[&str]) {
    assert!(matches!(error.kind, ErrorKind::Unsupported) && !error.retryable, "{error:?}");
    assert!(words.iter().all(|word| error.message.contains(word)), "without {words:?}: {error:?}");
}

#[tokio::test]
async fn a_lock_is_taken_handed_over_by_message_and_given_back_over_tls() {
    let (rsa, ecdsa) = (Certificate::make().unwrap(), Certificate::make_ecdsa().unwrap());
    for (certificate, version) in [(&rsa, "TLSv1.2"), (&ecdsa, "TLSv1.2"), (&rsa, "TLSv1.3"), (&ecdsa, "TLSv1.3")] {
        let Some(server) = start(Server::builder().tls(certificate).arg("--tls-protocols", version)) else { return };
        let ca = certificate_text(certificate);
        let work = trusting(&ca, async |locks| {
            taken_handed_over_by_message_and_given_back(locks, &tls_url(&server), &server).await;
        });
        work.await.unwrap();
    }
}

#[tokio::test]
async fn commands_and_replies_of_many_records_arrive_whole() {
    let certificate = Certificate::make_ecdsa().unwrap();
    let Some(server) = with_tls(&certificate) else { return };
    let ca = certificate_text(&certificate);
    let names: Vec<String> = (0..16).map(|number| format!("{{tag}}:{number}:{}", "n".repeat(40_000))).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let work = trusting(&ca, async |locks| {
        let manager = ok(locks.open(&tls_url(&server), patient()).await);
        let lease = ok(manager.acquire(multi(&names), long()).await);
        assert!(names.iter().all(|name| is_there(&server, name)));
        let cycles = (0..100).map(async |number| {
            let lease = ok(manager.acquire(mutex(&format!("job-{number}")), long()).await);
            ok(lease.release().await);
        });
        soon("all are done", futures_util::future::join_all(cycles)).await;
        ok(lease.release().await);
        assert!(!names.iter().any(|name| is_there(&server, name)));
    });
    work.await.unwrap();
}

#[tokio::test]
async fn a_certificate_of_an_authority_that_is_not_trusted_is_refused() {
    let (certificate, other) = (Certificate::make().unwrap(), Certificate::make().unwrap());
    let Some(server) = with_tls(&certificate) else { return };
    let url = tls_url(&server);
    let place = format!("127.0.0.1, port {}", tls_port(&server));
    let wanted = [place.as_str(), "invalid peer certificate", "`LEASEHOLD_TLS_CA`"];
    // Without a word, the component trusts the authorities that browsers trust.
    unreachable(&refusal(&[], &url).await, &wanted);
    unreachable(&refusal(&[("LEASEHOLD_TLS_CA", &certificate_text(&other))], &url).await, &wanted);
    assert_eq!(logins(&server), 0, "the password was sent");

    // More than one authority may be given.
    let both = certificate_text(&other) + &certificate_text(&certificate);
    let work = trusting(&both, async |locks| {
        ok(locks.open(&url, patient()).await);
        assert_eq!(logins(&server), 1);
    });
    work.await.unwrap();
}

/// How often a component has logged in. Its login ends with a `PING`, which nothing else here sends.
fn logins(server: &Server) -> i64 {
    let stats = server.cli(&["INFO", "commandstats"]).unwrap();
    let text = stats.text().unwrap_or_default();
    let pings = text.lines().find_map(|line| line.strip_prefix("cmdstat_ping:calls="));
    pings.and_then(|line| line.split(',').next()).map_or(0, |calls| calls.parse().unwrap())
}

#[tokio::test]
async fn a_certificate_for_another_host_is_refused() {
    let certificate = Certificate::make().unwrap();
    let Some(server) = with_tls(&certificate) else { return };
    let ca = certificate_text(&certificate);
    let url = format!("rediss://:secret@localhost:{}", tls_port(&server));
    let error = refusal(&[("LEASEHOLD_TLS_CA", &ca)], &url).await;
    unreachable(&error, &["invalid peer certificate", "localhost", "127.0.0.1", "write a host"]);
}

#[tokio::test]
async fn a_server_without_tls_is_told_apart() {
    let server = Server::start().unwrap();
    // It waits for the end of a line.
    let error = refusal_of(&[], &format!("rediss://127.0.0.1:{}", server.port()), answering_within(5_000)).await;
    unreachable(&error, &["with TLS", "`redis://`"]);

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("rediss://127.0.0.1:{}", listener.local_addr().unwrap().port());
    let answering = async {
        let (mut client, _) = listener.accept().await.unwrap();
        client.write_all(b"-ERR unknown command\r\n").await.unwrap();
        client
    };
    let (error, _client) = tokio::join!(refusal(&[], &url), answering);
    unreachable(&error, &["doesn't answer in TLS", "`redis://`"]);
}

#[tokio::test]
async fn a_handshake_that_stalls_ends_at_the_response_timeout() {
    let certificate = Certificate::make().unwrap();
    let Some(server) = with_tls(&certificate) else { return };
    let ca = certificate_text(&certificate);
    let beginning_of_a_record: &[u8] = &[22, 3, 3, 0, 100, 2, 0, 0, 96];
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let stalled = format!("rediss://127.0.0.1:{}", listener.local_addr().unwrap().port());
    let work = trusting(&ca, async |locks| {
        for said in [b"".as_slice(), beginning_of_a_record] {
            let stalling = async {
                let (mut client, _) = listener.accept().await.unwrap();
                client.write_all(said).await.unwrap();
                client
            };
            let start = Instant::now();
            let opening = soon("it ends", locks.open(&stalled, answering_within(5_000)));
            let (answer, _client) = tokio::join!(opening, stalling);
            unreachable(&refused(answer), &["did not answer the handshake in time"]);
            // The handshake gets nine tenths of the response timeout.
            assert!(start.elapsed() >= Duration::from_millis(4_500), "{:?}", start.elapsed());
        }

        // The same for a server that is there at first.
        let manager = ok(locks.open(&tls_url(&server), patient()).await);
        server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).unwrap();
        server.pause().unwrap();
        unreachable(&refused(manager.acquire(mutex("job"), wait(700)).await), &[]);
        server.resume().unwrap();
        ok(soon("it connects again", manager.acquire(mutex("job"), long())).await);
    });
    work.await.unwrap();
}

#[tokio::test]
async fn a_connection_whose_bytes_are_changed_ends_and_another_one_is_made() {
    let certificate = Certificate::make_ecdsa().unwrap();
    let Some(server) = with_tls(&certificate) else { return };
    let ca = certificate_text(&certificate);
    let hostile = Hostile::at((Ipv4Addr::LOCALHOST, tls_port(&server)).into()).await;
    let url = format!("rediss://:secret@127.0.0.1:{}", hostile.port);
    let forged_record: &[u8] = b"\x17\x03\x03\x00\x18forged and not encrypted";
    let work = trusting(&ca, async |locks| {
        let manager = ok(locks.open(&url, patient()).await);
        for (what, manners) in [
            ("plain text", Manners::Says(b"+OK\r\n")),
            ("a forged record", Manners::Says(forged_record)),
            ("an end without a word", Manners::SaysAndCloses(b"")),
            ("silence", Manners::Says(b"")),
        ] {
            ok(soon(what, manager.acquire(mutex(&format!("before {what}")), long())).await);
            hostile.set(manners);
            let error = refused(soon(what, manager.acquire(mutex(what), wait(700))).await);
            unreachable(&error, &[]);
            unreachable(&refused(soon(what, locks.open(&url, answering_within(1_000))).await), &[]);
            hostile.set(Manners::Good);
            ok(soon(what, manager.acquire(mutex(&format!("after {what}")), long())).await);
        }
    });
    work.await.unwrap();
}

#[tokio::test]
async fn a_client_certificate_is_shown_to_a_server_that_asks_for_it() {
    let certificate = Certificate::make_ecdsa().unwrap();
    for version in ["TLSv1.2", "TLSv1.3"] {
        let builder = Server::builder().tls(&certificate).arg("--tls-auth-clients", "yes");
        let Some(server) = start(builder.arg("--tls-protocols", version)) else { return };
        let (cert, key) = (certificate_text(&certificate), key_text(&certificate));
        let url = tls_url(&server);
        let error = refusal(&[("LEASEHOLD_TLS_CA", &cert)], &url).await;
        unreachable(&error, &["client certificate", "`LEASEHOLD_TLS_CERT` and `LEASEHOLD_TLS_KEY`"]);

        let environment =
            [("LEASEHOLD_TLS_CA", cert.as_str()), ("LEASEHOLD_TLS_CERT", &cert), ("LEASEHOLD_TLS_KEY", &key)];
        let work = with_tls_component(&environment, async |locks| {
            let manager = ok(locks.open(&url, patient()).await);
            let lease = ok(manager.acquire(mutex("job"), long()).await);
            ok(lease.release().await);
        });
        work.await.unwrap();
    }
}

#[tokio::test]
async fn a_configuration_that_can_not_be_used_is_refused_with_the_name_of_the_variable() {
    let (rsa, ecdsa) = (Certificate::make().unwrap(), Certificate::make_ecdsa().unwrap());
    let (rsa_cert, rsa_key) = (certificate_text(&rsa), key_text(&rsa));
    let (ecdsa_cert, ecdsa_key) = (certificate_text(&ecdsa), key_text(&ecdsa));
    let (ca, cert, key) = ("LEASEHOLD_TLS_CA", "LEASEHOLD_TLS_CERT", "LEASEHOLD_TLS_KEY");
    let cases: [(Variables, &[&str]); 8] = [
        (&[(ca, "/etc/ssl/ca.pem")], &["`LEASEHOLD_TLS_CA`", "-----BEGIN", "reads no files"]),
        (&[(ca, &ecdsa_key)], &["`LEASEHOLD_TLS_CA` has no certificate"]),
        (
            &[(ca, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")],
            &["`LEASEHOLD_TLS_CA`", "can't be used"],
        ),
        (&[(cert, &ecdsa_cert)], &["`LEASEHOLD_TLS_KEY`"]),
        (&[(key, &ecdsa_key)], &["`LEASEHOLD_TLS_CERT`"]),
        (&[(cert, "client.pem"), (key, &ecdsa_key)], &["`LEASEHOLD_TLS_CERT` has no certificate"]),
        (&[(cert, &ecdsa_cert), (key, "client.key")], &["`LEASEHOLD_TLS_KEY` has no private key"]),
        (&[(cert, &rsa_cert), (key, &rsa_key)], &["`LEASEHOLD_TLS_KEY`", "RSA", "ECDSA or Ed25519"]),
    ];
    for (environment, words) in cases {
        let error = refusal(environment, "rediss://127.0.0.1:1").await;
        unsupported(&error, words);
        assert!(!error.message.contains("PRIVATE KEY"), "{error:?}");
    }
    unsupported(&refusal(&[], "rediss://127.0.0.1:1/#insecure").await, &["`#insecure`", "`LEASEHOLD_TLS_CA`"]);
    unsupported(&refusal(&[], "rediss://a_b..c:1").await, &["`a_b..c`"]);
}

#[tokio::test]
async fn a_connection_without_tls_works_as_in_the_other_build_and_reads_no_certificates() {
    let server = Server::start().unwrap();
    let work = with_tls_component(&[("LEASEHOLD_TLS_CA", "/etc/ssl/ca.pem")], async |locks| {
        let manager = ok(locks.open(&server.url(), patient()).await);
        ok(manager.acquire(mutex("job"), long()).await);
    });
    work.await.unwrap();
}
