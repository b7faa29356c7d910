//! The service with a real Redis and a real PostgreSQL.

mod postgres;

use std::error::Error;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use futures_util::future::{join_all, poll_immediate};
use leasehold::LockManager;
use leasehold_servers::Server;
use leasehold_service::{Accounts, Receipt, Refusal, Service, Withdrawal, app, serve};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tower::ServiceExt as _;

/// Longer than any other request takes, also on a busy machine.
const LONG: Duration = Duration::from_secs(60);

type Tested = Result<(), Box<dyn Error + Send + Sync>>;

/// A service on servers of its own.
struct World {
    app: Router,
    locks: LockManager,
    accounts: Accounts,
    _redis: Server,
    _postgres: postgres::Postgres,
}

impl World {
    async fn start(patience: Duration) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let (redis, postgres) = (Server::start()?, postgres::Postgres::start()?);
        let locks = LockManager::connect(redis.url()).await?;
        let accounts = Accounts::new(postgres.pool().await?).await?;
        let app = app(Service { locks: locks.clone(), accounts: accounts.clone(), patience });
        Ok(Self { app, locks, accounts, _redis: redis, _postgres: postgres })
    }

    async fn withdraw(
        &self,
        user: i64,
        amount: i64,
    ) -> Result<Result<Receipt, (StatusCode, String)>, Box<dyn Error + Send + Sync>> {
        let request =
            Request::post(format!("/users/{user}/withdrawals")).header(header::CONTENT_TYPE, "application/json");
        let request = request.body(Body::from(serde_json::to_vec(&Withdrawal { amount })?))?;
        let response = self.app.clone().oneshot(request).await?;
        let status = response.status();
        let body = to_bytes(response.into_body(), 10_000).await?;
        Ok(match status {
            StatusCode::OK => Ok(serde_json::from_slice(&body)?),
            status => Err((status, String::from_utf8_lossy(&body).into_owned())),
        })
    }
}

#[tokio::test]
async fn requests_of_one_user_take_turns_and_none_is_forgotten() -> Tested {
    let world = World::start(LONG).await?;
    world.accounts.open(1, 100).await?;
    world.accounts.open(2, 100).await?;
    let requests = (0..10).map(|number| world.withdraw(1 + number % 2, 10));
    let mut receipts = [Vec::new(), Vec::new()];
    for (number, answer) in join_all(requests).await.into_iter().enumerate() {
        receipts[number % 2].push(answer?.map_err(|(status, text)| format!("{status}: {text}"))?);
    }
    for mut of_user in receipts {
        of_user.sort_by_key(|receipt| receipt.fence);
        let left: Vec<_> = of_user.iter().map(|receipt| receipt.balance).collect();
        assert_eq!(left, [90, 80, 70, 60, 50], "in the order of the fences");
    }
    Ok(())
}

#[tokio::test]
async fn a_holder_that_was_paused_for_too_long_can_not_write() -> Tested {
    let world = World::start(LONG).await?;
    world.accounts.open(1, 100).await?;
    let paused = world.locks.mutex("user:1").acquire().await?;
    let old = paused.fence();
    assert_eq!(world.accounts.claim(1, old).await.ok(), Some(100));

    // An operator takes the lock away, and the next request is in.
    world.locks.force_release("user:1").await?;
    let receipt = world.withdraw(1, 30).await?.map_err(|(status, text)| format!("{status}: {text}"))?;
    assert!(receipt.balance == 70 && receipt.fence > old.get());

    let late = world.accounts.write(1, 0, old).await;
    assert!(matches!(late, Err(Refusal::Stale)), "{late:?}");
    assert!(matches!(world.accounts.claim(1, old).await, Err(Refusal::Stale)));
    assert_eq!(world.withdraw(1, 70).await?.map(|receipt| receipt.balance), Ok(0));
    Ok(())
}

#[tokio::test]
async fn a_request_is_told_what_is_wrong() -> Tested {
    let world = World::start(Duration::from_millis(100)).await?;
    world.accounts.open(1, 100).await?;
    let status = |answer: Result<Receipt, (StatusCode, String)>| answer.map_err(|(status, _)| status);
    assert_eq!(status(world.withdraw(1, 101).await?), Err(StatusCode::UNPROCESSABLE_ENTITY));
    assert_eq!(status(world.withdraw(7, 1).await?), Err(StatusCode::NOT_FOUND));
    let lease = world.locks.mutex("user:1").acquire().await?;
    let (status, text) = world.withdraw(1, 1).await?.expect_err("the lock is held");
    assert!(status == StatusCode::SERVICE_UNAVAILABLE && text.contains("busy"), "{status}: {text}");
    lease.release().await?;
    Ok(())
}

#[tokio::test]
async fn at_its_end_a_running_request_finishes_and_a_waiting_one_is_sent_to_another_process() -> Tested {
    let world = World::start(LONG).await?;
    world.accounts.open(1, 100).await?;
    let service = Service { locks: world.locks.clone(), accounts: world.accounts.clone(), patience: LONG };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let (end, ended) = oneshot::channel();
    let serving = tokio::spawn(serve(listener, service, async { _ = ended.await }, LONG));
    let running = world.locks.mutex("user:1").acquire().await?;
    let mut waiting = pin!(world.withdraw(1, 10));
    assert!(poll_immediate(&mut waiting).await.is_none(), "the lock is held");

    _ = end.send(());
    let (status, text) = waiting.await?.expect_err("this process takes no new locks");
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{text}");
    assert_eq!(world.accounts.claim(1, running.fence()).await.ok(), Some(100), "the running work goes on");
    running.release().await?;
    let closed = serving.await??;
    assert_eq!((closed.lost, closed.unreleased), (0, 0));
    Ok(())
}
