use leasehold_component_tests::{RedisProvider, ReleaseOutcome, Target, with_component};
use leasehold_servers::Server;

#[tokio::test]
async fn the_first_lock() {
    let server = Server::start().unwrap();
    with_component(RedisProvider, async |locks| {
        let manager = locks.open(&server.url(), None).await.unwrap().unwrap();
        let lease = manager.acquire(Target::Mutex("job".into()), None).await.unwrap().unwrap();
        assert!(lease.fence().await.unwrap() > 1_000_000);
        assert!(lease.is_held().await.unwrap());
        assert_eq!(lease.release().await.unwrap().unwrap(), ReleaseOutcome::Released);
    })
    .await
    .unwrap();
}
