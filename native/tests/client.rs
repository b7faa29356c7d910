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

/// A client that waits only 500 ms for an answer. It connects again until the server has answered in that time.
async fn hasty(server: &Server) -> LockManager {
    loop {
        let hasty = patient().response_timeout(Duration::from_millis(500)).connect(&server.url()).await;
        if let Ok(locks) = hasty {
            return locks;
        }
    }
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
async fn close_ends_waits_and_releases_leases() -> Tested {
    let server = Server::start()?;
    let (first, second) = (client(&server).await?, client(&server).await?);
    let kept = second.mutex("kept").acquire().await?;
    let lease = first.mutex("door").acquire().await?;
    let lock = first.mutex("kept");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    until("it waits", async || second.inspect("kept").await.is_ok_and(|seen| seen.waiters.len() == 1)).await;
    first.close().await;
    assert!(matches!(waiting.await?, Err(Error::Closed)));
    assert!(!lease.is_held());
    assert!(second.mutex("door").try_acquire().await?.is_some(), "the lease was released");
    assert!(matches!(first.mutex("door").acquire().await, Err(Error::Closed)));
    first.close().await;
    assert_eq!(lease.lost().await, LossReason::Closed);
    kept.release().await?;
    Ok(())
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
async fn a_lease_keeps_its_client_alive_and_the_last_handle_ends_it() -> Tested {
    let server = Server::start()?;
    let locks = client(&server).await?;
    let lease = locks.mutex("door").acquire().await?;
    drop(locks);
    lease.extend(LONG * 2).await?;
    assert!(lease.remaining() > LONG && lease.verify().await?);
    drop(lease);
    until("key and connections are gone", async || {
        let free = server.cli(&["EXISTS", "door"]).is_ok_and(|reply| reply.integer() == Some(0));
        let clients = server.cli(&["CLIENT", "LIST"]).ok().and_then(|reply| Some(reply.text()?.lines().count()));
        free && clients == Some(1) // the one that asks
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn a_waiting_caller_survives_a_restart_of_the_server() -> Tested {
    let mut server = Server::start()?;
    let (first, second) = (client(&server).await?, client(&server).await?);
    let lease = first.mutex("door").acquire().await?;
    let lock = second.mutex("door");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    until("it waits", async || first.inspect("door").await.is_ok_and(|seen| seen.waiters.len() == 1)).await;
    server.restart()?;
    assert!(!lease.verify().await?);
    let lost = tokio::time::timeout(SOON, lease.lost()).await?;
    let granted = tokio::time::timeout(SOON, waiting).await???;
    assert!(granted.fence() > lease.fence(), "{lost}");
    until("subscribed again", async || {
        server.cli(&["PUBSUB", "CHANNELS", "leasehold:*"]).is_ok_and(|reply| !reply.list().is_empty())
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn a_cut_connection_is_made_again() -> Tested {
    let server = Server::start()?;
    let locks = client(&server).await?;
    for round in 0..5 {
        let lease = locks.mutex("door").acquire().await?;
        server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])?;
        assert!(lease.verify().await?, "round {round}");
        lease.release().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_server_that_is_gone_ends_every_call() -> Tested {
    let mut server = Server::start()?;
    let locks = hasty(&server).await;
    let held = locks.mutex("held").ttl(Duration::from_secs(1)).acquire().await?;
    server.stop();
    let door = locks.mutex("door").wait(Duration::from_secs(1));
    let error = tokio::time::timeout(SOON, door.acquire()).await?.unwrap_err();
    assert_eq!((error.code(), error.name()), ("unreachable", Some("door")));
    let error = tokio::time::timeout(SOON, locks.inspect("door")).await?.unwrap_err();
    assert_eq!(error.code(), "unreachable");
    tokio::time::timeout(SOON, held.lost()).await?;
    let _ = tokio::time::timeout(SOON, held.release()).await?;
    let _ = tokio::time::timeout(SOON, locks.close()).await?;
    Ok(())
}

#[tokio::test]
async fn a_server_that_hangs_is_left_and_found_again() -> Tested {
    let server = Server::start()?;
    let locks = hasty(&server).await;
    server.pause()?;
    let door = locks.mutex("door").wait(Duration::from_secs(1));
    let error = tokio::time::timeout(SOON, door.acquire()).await?.unwrap_err();
    assert_eq!(error.code(), "unreachable");
    server.resume()?;
    assert!(locks.mutex("door").acquire().await?.fence().get() > 0);
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
