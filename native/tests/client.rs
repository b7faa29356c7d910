//! A client's life on a real server: beginning, breaks and end.

use std::time::Duration;

use leasehold::{Builder, Error, LockManager, LossReason, Wait, redis_1};
use leasehold_servers::Server;

type Tested = Result<(), Box<dyn std::error::Error>>;

/// The longest time that a test waits for something. Only a test that fails waits that long.
const SOON: Duration = Duration::from_secs(60);
/// Longer than any test takes, even on a slow machine.
const LONG: Duration = Duration::from_secs(600);

/// A client whose times are all longer than a test takes. `durations.rs` and `outages.rs` test durations, on virtual
/// time.
async fn client(server: &Server) -> Result<LockManager, Error> {
    patient().connect(&server.url()).await
}

fn patient() -> Builder {
    LockManager::builder().ttl(LONG).response_timeout(SOON).claim_window(SOON).wait(LONG)
}

/// Waits until `condition` holds.
async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let wait = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(SOON, wait).await.unwrap_or_else(|_| panic!("not in time: {what}"));
}

#[tokio::test]
async fn close_ends_the_work_of_run() -> Tested {
    let server = Server::start()?;
    let locks = client(&server).await?;
    let closer = locks.clone();
    let lock = locks.mutex("door");
    let work = lock.run(async |_| {
        closer.close().await;
        std::future::pending::<Result<(), Error>>().await
    });
    assert!(matches!(tokio::time::timeout(SOON, work).await?, Err(Error::Closed)));
    Ok(())
}

#[tokio::test]
async fn a_server_that_accepts_and_never_answers_is_unreachable() -> Tested {
    let silent = std::net::TcpListener::bind("127.0.0.1:0")?;
    let url = format!("redis://{}/", silent.local_addr()?);
    let connecting = LockManager::builder().response_timeout(Duration::from_millis(100)).connect(&url);
    let error = tokio::time::timeout(SOON, connecting).await?.unwrap_err();
    assert_eq!(error.code(), "unreachable");
    Ok(())
}

#[tokio::test]
async fn a_connection_that_the_caller_brings_polls_and_stays_open() -> Tested {
    let server = Server::start()?;
    let connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    let polling =
        patient().claim_window(Duration::from_secs(1)).from_connection(redis_1::connection(connection.clone())).await?;
    let holder = client(&server).await?;
    let lease = holder.mutex("door").acquire().await?;
    let lock = polling.mutex("door");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    until("it waits", async || holder.inspect("door").await.is_ok_and(|seen| seen.waiters.len() == 1)).await;
    lease.release().await?;
    let lease = tokio::time::timeout(SOON, waiting).await???;
    lease.release().await?;
    polling.close().await;
    let mut connection = connection;
    let pong: String = redis::cmd("PING").query_async(&mut connection).await?;
    assert_eq!(pong, "PONG");
    Ok(())
}

#[tokio::test]
async fn what_can_be_known_at_once_is_refused_at_once() -> Tested {
    let server = Server::builder().password("secret").start()?;
    let code = async |url: &str| LockManager::connect(url).await.err().map(|error| error.code());
    assert_eq!(code("nonsense").await, Some("invalid-option"));
    assert_eq!(code("redis://127.0.0.1:1/").await, Some("unreachable"));
    let port = server.port();
    assert_eq!(code(&format!("redis://:wrong@127.0.0.1:{port}/")).await, Some("auth"));
    assert_eq!(code(&format!("redis://127.0.0.1:{port}/")).await, Some("auth"));
    let builder = || patient().prefix("test:");
    let field = |error: Error| match error {
        Error::InvalidOption { field, .. } => field,
        other => panic!("{other:?}"),
    };
    let url = format!("redis://:secret@127.0.0.1:{port}/");
    let error = builder().claim_window(Duration::ZERO).connect(&url).await.unwrap_err();
    assert_eq!(field(error), "claim_window");
    let locks = builder().connect(&url).await?;
    assert_eq!(field(locks.mutex("").acquire().await.unwrap_err()), "name");
    assert_eq!(field(locks.mutex("door").ttl(Duration::ZERO).acquire().await.unwrap_err()), "ttl");
    assert_eq!(field(locks.mutex("door").wait(Wait::For(Duration::ZERO)).acquire().await.unwrap_err()), "wait");
    Ok(())
}

#[test]
fn a_runtime_that_ends_with_a_lease_held_harms_nobody() -> Tested {
    let server = Server::start()?;
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build();
    let first = runtime()?;
    let (locks, lease) = first.block_on(async {
        let locks = client(&server).await?;
        let lease = locks.mutex("door").ttl(Duration::from_secs(2)).acquire().await?;
        Ok::<_, Error>((locks, lease))
    })?;
    let lost = lease.lost();
    drop(first);
    let told = runtime()?.block_on(async { tokio::time::timeout(SOON, lost).await })?;
    assert_eq!(told, LossReason::Expired, "nobody renews it any more");
    assert!(!lease.is_held() && lease.remaining().is_zero(), "what was told lost is not held");
    assert!(matches!(runtime()?.block_on(locks.mutex("window").acquire()), Err(Error::Closed)));
    drop(lease);
    drop(locks);
    Ok(())
}

#[test]
fn without_a_runtime_there_is_an_error_and_no_panic() {
    let connecting = std::pin::pin!(LockManager::connect("redis://127.0.0.1:1/"));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(Err(error)) = connecting.poll(&mut context) else { panic!("no error") };
    assert_eq!(error.code(), "unsupported");
}

/// A program's helper often has a runtime of its own. When it ends, tokio drops the client's task, even before its first poll.
#[test]
fn calls_of_a_manager_whose_runtime_has_ended_fail_at_once() -> Tested {
    let server = Server::start()?;
    let runtimes = [tokio::runtime::Builder::new_current_thread(), tokio::runtime::Builder::new_multi_thread()];
    for mut builder in runtimes {
        let other = builder.enable_all().build()?;
        let locks = other.block_on(LockManager::connect(&server.url()))?;
        drop(other);
        let outcome = tokio::runtime::Runtime::new()?
            .block_on(async { tokio::time::timeout(SOON, locks.mutex("door").acquire()).await });
        assert!(matches!(outcome?, Err(Error::Closed)));
    }
    Ok(())
}
