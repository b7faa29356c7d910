//! Several instances and a client of the Rust crate on one key.

use std::time::Duration;

use leasehold_component_tests::with_component;
use leasehold_servers::{Connection, Server};
use leasehold_wasmtime_host::{RedisProvider, Target};
use tokio::task::LocalSet;

use crate::common::*;

const INSTANCES: usize = 3;
const CYCLES: usize = 40;

/// Adds one to a counter in two steps, and records the fence. Without a lock, updates would be lost.
fn add_one(connection: &mut Connection, fence: u64) {
    let count = connection.call(&["GET", "counter"]).unwrap();
    let count: u64 = count.text().map_or(0, |text| text.parse().unwrap());
    connection.call(&["SET", "counter", &(count + 1).to_string()]).unwrap();
    connection.call(&["RPUSH", "fences", &fence.to_string()]).unwrap();
}

#[tokio::test]
async fn no_update_is_lost_between_instances_and_a_native_client_and_fences_rise() {
    let server = Server::start().unwrap();
    let fleet = LocalSet::new();
    for _ in 0..INSTANCES {
        let (url, mut connection) = (server.url(), server.connect().unwrap());
        fleet.spawn_local(async move {
            let work = with_component(RedisProvider, async |locks| {
                let manager = ok(locks.open(&url, patient()).await);
                let connection = tokio::sync::Mutex::new(&mut connection);
                let callers = (0..4).map(async |_| {
                    for _ in 0..CYCLES / 4 {
                        let lease = ok(manager.acquire(mutex("job"), long()).await);
                        let fence = lease.fence().await.unwrap();
                        add_one(*connection.lock().await, fence);
                        ok(lease.release().await);
                        lease.drop().unwrap();
                    }
                });
                futures_util::future::join_all(callers).await;
            });
            work.await.unwrap();
        });
    }
    let (url, mut connection) = (server.url(), server.connect().unwrap());
    fleet.spawn_local(async move {
        let manager = leasehold::LockManager::builder()
            .claim_window(Duration::from_secs(60))
            .response_timeout(Duration::from_secs(60))
            .connect(&url)
            .await
            .unwrap();
        for _ in 0..CYCLES {
            let lease = manager
                .mutex("job")
                .ttl(Duration::from_secs(600))
                .wait(Duration::from_secs(600))
                .acquire()
                .await
                .unwrap();
            add_one(&mut connection, lease.fence().get());
            lease.release().await.unwrap();
        }
    });
    soon("the fleet is done", fleet).await;

    let total = (INSTANCES + 1) * CYCLES;
    let counter = server.cli(&["GET", "counter"]).unwrap();
    assert_eq!(counter.text(), Some(total.to_string().as_str()));
    let fences: Vec<u64> = texts(&server.cli(&["LRANGE", "fences", "0", "-1"]).unwrap())
        .iter()
        .map(|text| text.parse().unwrap())
        .collect();
    assert_eq!(fences.len(), total);
    assert!(fences.is_sorted_by(|before, after| before < after), "{fences:?}");
}

#[tokio::test]
async fn an_instance_and_the_native_client_wait_for_each_other() {
    let server = Server::start().unwrap();
    let work = with_component(RedisProvider, async |locks| {
        let manager = open(locks, &server).await;
        let native = leasehold::LockManager::builder();
        let native = native.response_timeout(Duration::from_secs(60)).connect(&server.url()).await.unwrap();
        let reader = native.read_write("doc").read().ttl(Duration::from_secs(600)).acquire().await.unwrap();
        let ours = ok(manager.acquire(Target::Read("doc".into()), long()).await);
        assert!(native.read_write("doc").write().try_acquire().await.unwrap().is_none());
        ok(ours.release().await);
        let leaving = async {
            until("we wait", || waiters(&server, "doc") == 1).await;
            reader.release().await.unwrap();
        };
        let (writer, ()) = tokio::join!(manager.acquire(write("doc"), long()), leaving);
        ok(writer);
        assert!(native.mutex("doc").try_acquire().await.unwrap().is_none());
    });
    work.await.unwrap();
}
