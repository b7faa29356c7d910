//! A service whose metrics Prometheus scrapes: `live-metered PORT`, with the port of a server of its own. It prints four
//! scrapes, each after a line `# scrape`: at its start, after one short lease, while a lease is held and a call waits, and
//! after a long wait, a loss, six reconnects and an acquire that the server did not answer.
//!
//! `tests/e2e/node/programs/metered.mjs` does the same in JavaScript.

use std::env;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use leasehold_live::{SOON, options, until};
use leasehold_servers::Connection;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};

type Done = Result<(), Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Done {
    // As in the manual.
    let buckets = [0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0];
    let prometheus = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Prefix("leasehold_".to_owned()), &buckets)?
        .install_recorder()?;
    let scrape = || println!("# scrape\n{}", prometheus.render());

    let port = env::args().nth(1).ok_or("usage: live-metered PORT")?.parse()?;
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut operator = Connection::open(server, SOON)?;
    let locks = options().connect(&format!("redis://{server}/")).await?;
    let lock = locks.mutex("metered");
    scrape();

    lock.acquire().await?.release().await?;
    scrape();

    let lease = lock.acquire().await?;
    let waiting = tokio::spawn(lock.acquire());
    until("it waits", async || prometheus.render().contains("leasehold_waiting 1")).await;
    scrape();
    // Longer than the alert about waits allows.
    tokio::time::sleep(Duration::from_secs(6)).await;
    lease.release().await?;
    let lease = waiting.await??;
    for _ in 0..6 {
        operator.call(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])?;
        lease.verify().await?;
    }
    lease.extend(Duration::from_secs(1_200)).await?;
    operator.call(&["DEL", "metered"])?;
    lease.verify().await?;
    lease.release().await?;
    operator.call(&["CLIENT", "PAUSE", "600000"])?;
    if let Ok(lease) = lock.wait(Duration::from_secs(1)).acquire().await {
        return Err(format!("a server that is paused granted {lease:?}").into());
    }
    scrape();
    std::process::exit(0);
}
