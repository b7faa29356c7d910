//! Leases that expire: when the holder is notified, and that all ways to find out agree.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use leasehold::{Lease, LossReason, Wait};
use leasehold_live::{Tested, quick, soon};
use leasehold_servers::Server;

/// The number of leases. Their TTLs differ by a few milliseconds.
const LEASES: u64 = 100;

fn ttl(number: u64) -> Duration {
    Duration::from_millis(6_000 + number * 7)
}

/// Whether the lease reports the loss at this moment.
fn is_told(lease: &Lease) -> bool {
    matches!(pin!(lease.lost()).poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(LossReason::Expired))
}

/// How long a program may block between two `await`s. A lease's end has a margin for that.
const BLOCKING: Duration = Duration::from_millis(25);

#[tokio::test]
async fn every_loss_by_expiry_is_told_before_the_server_forgets_the_lease_though_other_work_takes_the_thread() -> Tested
{
    let server = Server::start()?;
    let locks = quick().connect(&server.url()).await?;
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
    // When the machine has kept this thread from running for longer than that.
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
    assert!(excused <= LEASES / 2, "the machine was too busy to tell: {excused} of {LEASES}");
    Ok(())
}

#[tokio::test]
async fn a_lease_with_no_time_left_is_told_as_lost_at_that_moment() -> Tested {
    let server = Server::start()?;
    let locks = quick().connect(&server.url()).await?;
    let mut leases = Vec::new();
    for number in 0..LEASES {
        leases.push(
            locks
                .mutex(format!("l{number}"))
                .ttl(Duration::from_millis(500 + number * 2))
                .renew(false)
                .acquire()
                .await?,
        );
    }
    // Only this test runs, as in a program whose own work takes all the time.
    let mut silent = 0;
    for lease in &leases {
        while !lease.remaining().is_zero() {
            std::hint::spin_loop();
        }
        silent += u32::from(!is_told(lease));
        assert!(!lease.is_held());
    }
    assert_eq!(silent, 0, "of {LEASES} leases without any time left were not told as lost");
    Ok(())
}

#[tokio::test]
async fn work_that_sees_no_time_left_ends_as_lost() -> Tested {
    let server = Server::start()?;
    let locks = quick().wait(Wait::For(Duration::from_secs(1))).connect(&server.url()).await?;
    let lock = locks.mutex("door").ttl(Duration::from_millis(300)).renew(false);
    let mut seen = 0;
    let ended = lock
        .run(async |lease| {
            while lease.is_held() {
                std::hint::spin_loop();
            }
            tokio::task::yield_now().await;
            seen += 1;
            Ok::<_, leasehold::Error>(())
        })
        .await;
    assert_eq!(ended.unwrap_err().code(), "lost");
    assert_eq!(seen, 0, "the work went on after its lease");
    Ok(())
}
