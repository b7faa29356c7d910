//! TLS with a temporary certificate.

use std::fs;
use std::io::{self, Write as _};
use std::time::Duration;

use leasehold::LockManager;
use leasehold::redis_1::redis::{Client, ConnectionInfo, RedisResult, TlsCertificates};
use leasehold_live::{PATIENCE, Tested, begin, hands_over_by_message, options, soon, until};
use leasehold_servers::{Certificate, Cluster, Error, Server};

/// A server with TLS. `None` if it was built without TLS.
fn start() -> Result<Option<(Certificate, Server)>, Box<dyn std::error::Error + Send + Sync>> {
    let certificate = Certificate::make()?;
    match Server::builder().password("secret").tls(&certificate).start() {
        Ok(server) => Ok(Some((certificate, server))),
        Err(Error::NotStarted(log)) if log.contains("finding TLS support") || log.contains("Bad directive") => {
            // Past the test harness, which hides what a passing test prints: `cargo xtask test` counts these lines.
            writeln!(io::stdout(), "skipped: this server has no TLS")?;
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Connection info that trusts the server's certificate.
fn trusting(
    certificate: &Certificate,
    server: &Server,
) -> Result<ConnectionInfo, Box<dyn std::error::Error + Send + Sync>> {
    let trust = TlsCertificates { client_tls: None, root_cert: Some(fs::read(certificate.path())?) };
    let client: RedisResult<Client> = Client::build_with_tls(server.tls_url().unwrap_or_default(), trust);
    Ok(client?.get_connection_info().clone())
}

#[tokio::test]
async fn a_waiter_is_granted_by_message_over_tls() -> Tested {
    let Some((certificate, server)) = start()? else { return Ok(()) };
    let client = async || {
        let client = Client::open(trusting(&certificate, &server)?)?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(options().connect(client).await?)
    };
    let (first, second) = (client().await?, client().await?);
    let lease = first.mutex("door").acquire().await?;
    let waiting = begin(second.mutex("door"));
    until("it waits", async || first.inspect("door").await.is_ok_and(|seen| seen.waiters.len() == 1)).await;
    lease.release().await?;
    soon("the lock", waiting).await??.release().await?;
    hands_over_by_message(&first, &second, &[&server], "gate").await?;
    let error = first.mutex("door").wait_for_replicas(1, Duration::from_millis(50)).acquire().await.unwrap_err();
    assert_eq!(error.code(), "not-replicated", "over TLS as well: {error:?}");
    Ok(())
}

#[tokio::test]
#[ignore = "a cluster takes seconds to start"]
async fn a_cluster_and_what_it_names_are_reached_over_tls() -> Tested {
    let Some((certificate, server)) = start()? else { return Ok(()) };
    drop(server);
    let cluster =
        Cluster::steady(|| Server::builder().password("secret").arg("--masterauth", "secret").tls(&certificate))?;
    let locks = options().cluster([trusting(&certificate, cluster.server(0))?]).await?;
    for name in ["a", "b", "c"] {
        let lock = locks.mutex(name).wait_for_replicas(1, PATIENCE);
        let lease = lock.acquire().await?;
        let waiting = begin(options().cluster([trusting(&certificate, cluster.server(4))?]).await?.mutex(name));
        until("it waits", async || locks.inspect(name).await.is_ok_and(|seen| seen.waiters.len() == 1)).await;
        lease.release().await?;
        soon("the lock", waiting).await??.release().await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_builder_takes_the_certificates_for_every_kind_of_address() -> Tested {
    let Some((certificate, server)) = start()? else { return Ok(()) };
    let (pem, url) = (fs::read(certificate.path())?, server.tls_url().unwrap_or_default());
    let locks = options().root_certificates(pem.clone()).connect(&url).await?;
    let lease = locks.mutex("door").acquire().await?;
    assert!(lease.verify().await?);
    lease.release().await?;
    // Without TLS they would protect nothing.
    for refused in [
        options().root_certificates(pem.clone()).connect("redis://127.0.0.1").await,
        options().root_certificates(pem.clone()).cluster(["redis://127.0.0.1"]).await,
        options().root_certificates(pem).quorum([&*url, "redis://127.0.0.1", "redis://127.0.0.2"]).await,
    ] {
        let error = refused.expect_err("a plain address");
        assert!(error.code() == "invalid-option" && error.to_string().contains("rediss://"), "{error}");
    }
    let error = options().root_certificates("no PEM").connect(&url).await.expect_err("no certificate");
    assert!(error.to_string().starts_with("`root_certificates` "), "{error}");
    let error = options().client_certificate("no PEM", "no PEM").connect(&url).await.expect_err("no certificate");
    assert!(error.to_string().starts_with("`client_certificate` "), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_told() -> Tested {
    let Some((_certificate, server)) = start()? else { return Ok(()) };
    let url = server.tls_url().unwrap_or_default();
    let error = LockManager::connect(&url).await.unwrap_err();
    assert_eq!(error.code(), "unreachable", "{error:?}");
    let (text, place) = (error.to_string(), url.rsplit_once('@').map_or("", |(_, place)| place.trim_end_matches('/')));
    assert!(text.starts_with(&format!("can't connect to rediss://{place}: invalid peer certificate")), "{text}");
    Ok(())
}
