//! Leases that expire: all ways to find out agree.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leasehold::{Lease, LossReason};
use leasehold_live::{Tested, client};
use leasehold_servers::Server;

/// The number of leases. Their TTLs differ by a few milliseconds.
const LEASES: u64 = 100;

/// Whether the lease reports the loss at this moment.
fn is_told(lease: &Lease) -> bool {
    matches!(pin!(lease.lost()).poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(LossReason::Expired))
}

#[tokio::test]
async fn a_lease_with_no_time_left_is_told_as_lost_at_that_moment() -> Tested {
    let server = Server::start()?;
    let locks = client(&server).await?;
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
    let locks = client(&server).await?;
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
