//! How often a lone lock asks for memory, beside the bare calls. It counts, so it doesn't depend on the machine's speed.

use std::alloc::System;

use leasehold::LockManager;
use leasehold_servers::Server;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Value, cmd};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const CYCLES: usize = 500;

/// The engine, the encoding of its commands, the lease and the metrics need these.
const MORE_THAN_BARE: usize = 10;

const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

fn allocations() -> usize {
    let stats = ALLOCATOR.stats();
    stats.allocations + stats.reallocations
}

async fn bare(connection: &mut MultiplexedConnection, digest: &str) -> Result {
    let token = String::from("00031910-67f0-7a4d-65ea-e6a40234f224");
    let mut set = cmd("SET");
    set.arg("bare").arg(&token).arg(&["NX", "PX", "30000"]);
    set.query_async::<Value>(connection).await?;
    cmd("EVALSHA").arg(digest).arg(1).arg("bare").arg(&token).query_async::<Value>(connection).await?;
    Ok(())
}

#[tokio::test]
async fn a_lone_lock_allocates_little_more_than_bare_calls() -> Result {
    let server = Server::start()?;
    let client = Client::open(server.url())?;
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    let digest: String = cmd("SCRIPT").arg("LOAD").arg(COMPARE_AND_DELETE).query_async(&mut connection).await?;
    let locks = LockManager::connect(client).await?;
    let mutex = locks.mutex("lone");

    let (mut of_bare, mut of_lock) = (usize::MAX, usize::MAX);
    // The least of some rounds, without what is allocated only now and then.
    for _ in 0..5 {
        let before = allocations();
        for _ in 0..CYCLES {
            bare(&mut connection, &digest).await?;
        }
        let between = allocations();
        for _ in 0..CYCLES {
            mutex.acquire().await?.release().await?;
        }
        (of_bare, of_lock) = (of_bare.min(between - before), of_lock.min(allocations() - between));
    }
    let most = of_bare + CYCLES * MORE_THAN_BARE;
    // One more for each ten cycles, for a task of the runtime or a buffer that grows.
    assert!(of_lock <= most + CYCLES / 10, "{of_lock} allocations in {CYCLES} cycles; bare calls need {of_bare}");
    Ok(())
}
