//! The read-write lock.

use leasehold_component_tests::with_component;
use leasehold_servers::Server;
use leasehold_wasmtime_host::{ErrorKind, Mode, RedisProvider};

use crate::common::*;

#[tokio::test]
async fn readers_share_and_exclude_a_writer() {
    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let (one, other) = (open(locks, &server).await, open(locks, &server).await);
        let first = ok(one.acquire(read("doc"), long()).await);
        let second = ok(other.acquire(read("doc"), long()).await);
        assert_eq!(second.mode().await.unwrap(), Mode::Shared);
        assert!(ok(other.try_acquire(write("doc"), None).await).is_none());
        let leaving = async {
            until("the writer waits", || waiters(&server, "doc") == 1).await;
            assert!(ok(one.try_acquire(read("doc"), None).await).is_none(), "no reader passes a writer that waits");
            ok(first.release().await);
            ok(second.release().await);
        };
        let (writer, ()) = tokio::join!(one.acquire(write("doc"), long()), leaving);
        let writer = ok(writer);
        assert!(writer.fence().await.unwrap() > first.fence().await.unwrap().max(second.fence().await.unwrap()));
        assert!(ok(other.try_acquire(read("doc"), None).await).is_none());
    });
    work.await.unwrap();
}

#[tokio::test]
async fn a_writer_becomes_a_reader_and_a_sole_reader_a_writer() {
    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let (one, other) = (open(locks, &server).await, open(locks, &server).await);
        let lease = ok(one.acquire(write("doc"), long()).await);
        let written = lease.fence().await.unwrap();
        ok(lease.downgrade().await);
        assert_eq!(lease.mode().await.unwrap(), Mode::Shared);

        let guest = ok(other.acquire(read("doc"), long()).await);
        let error = refused(lease.upgrade().await);
        assert!(matches!(error.kind, ErrorKind::Conflict), "{error:?}");
        ok(guest.release().await);

        ok(lease.upgrade().await);
        assert_eq!(lease.mode().await.unwrap(), Mode::Exclusive);
        assert!(lease.fence().await.unwrap() > written.max(guest.fence().await.unwrap()));
        assert!(ok(other.try_acquire(read("doc"), None).await).is_none());
    });
    work.await.unwrap();
}
