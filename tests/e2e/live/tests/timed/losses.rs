//! Leases that expire: when the holder is notified.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold::LossReason;
use leasehold_live::{Tested, client, soon};
use leasehold_servers::Server;

/// The number of leases. Their TTLs differ by a few milliseconds.
const LEASES: u64 = 100;

fn ttl(number: u64) -> Duration {
    Duration::from_millis(6_000 + number * 7)
}

/// How long a program may block between two `await`s. A lease's end has a margin for that.
const BLOCKING: Duration = Duration::from_millis(25);

#[tokio::test]
async fn every_loss_by_expiry_is_told_before_the_server_forgets_the_lease_though_other_work_takes_the_thread() -> Tested
{
    let server = Server::start()?;
    let locks = client(&server).await?;
    let mut told = Vec::new();
    for number in 0..LEASES {
        let lock = locks.mutex(format!("l{number}")).ttl(ttl(number)).renew(number % 2 == 0);
        // The server can't have started the TTL before this moment.
        let start = Instant::now();
        let lease = lock.acquire().await?;
        told.push(tokio::spawn(async move {
            let reason = lease.lost().await;
            (number, reason, start, Instant::now())
        }));
    }
    server.pause()?;
    // The times in which the machine kept this thread from running for longer than that.
    let stalls = Arc::new(Mutex::new(Vec::new()));
    let noting = Arc::clone(&stalls);
    let work = tokio::spawn(async move {
        loop {
            let start = Instant::now();
            std::thread::sleep(BLOCKING);
            tokio::task::yield_now().await;
            if start.elapsed() > BLOCKING * 2 {
                noting.lock().expect("nobody panics with it").push((start, Instant::now()));
            }
        }
    });
    let (mut late, mut excused) = (Vec::new(), 0);
    for told in told {
        let (number, reason, start, at) = soon("the loss", told).await?;
        assert_eq!(reason, LossReason::Expired);
        let end = start + ttl(number);
        if at >= end {
            let stalls = stalls.lock().expect("nobody panics with it");
            let excuse = stalls.iter().any(|(from, to)| *from <= end && end - BLOCKING * 2 <= *to);
            excused += u64::from(excuse);
            late.extend((!excuse).then(|| at - end));
        }
    }
    work.abort();
    late.sort();
    assert!(late.is_empty(), "{} of {LEASES} were told late, by {late:?}", late.len());
    assert!(excused <= LEASES / 2, "the machine was too busy to measure {excused} of {LEASES}");
    Ok(())
}
