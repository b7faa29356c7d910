//! The layer that runs requests under locks, on a server in memory and on its time.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use leasehold::testing::Server;
use leasehold::tower::LockLayer;
use leasehold::{Error, ErrorCode, Fence, Lease, Lock, LockManager};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

#[derive(Debug)]
struct Request {
    lock: Option<&'static str>,
    takes: Duration,
    fence: Option<Fence>,
}

impl Request {
    const fn new(lock: &'static str, seconds: u64) -> Self {
        Self { lock: Some(lock), takes: Duration::from_secs(seconds), fence: None }
    }
}

/// The answer of the service, or why the lock refused.
type Response = Result<Option<Fence>, ErrorCode>;
type Layer<L> = LockLayer<L, fn(&mut Request, &Lease), fn(Error) -> Response>;

fn layer(locks: &LockManager) -> Layer<impl Fn(&Request) -> Option<Lock> + Clone + Send + use<>> {
    let locks = locks.clone();
    let lock = move |request: &Request| Some(locks.mutex(request.lock?).wait(Duration::from_secs(5)));
    LockLayer::new(lock, |request, lease| request.fence = Some(lease.fence()), |error| Err(error.kind()))
}

/// A service that takes as long as the request says, and answers with the request's fence. A request of 13 seconds fails.
async fn serve(request: Request) -> Result<Response, &'static str> {
    sleep(request.takes).await;
    if request.takes.as_secs() == 13 { Err("bad luck") } else { Ok(Ok(request.fence)) }
}

#[tokio::test(start_paused = true)]
async fn requests_with_one_name_take_turns_and_others_run_at_the_same_time() {
    let service = layer(&LockManager::in_memory().unwrap());
    let service = ServiceBuilder::new().layer(service).service(service_fn(serve));
    let began = Instant::now();
    let answers = tokio::join!(
        service.clone().oneshot(Request::new("a", 2)),
        service.clone().oneshot(Request::new("a", 2)),
        service.clone().oneshot(Request::new("b", 2)),
        service.oneshot(Request { lock: None, ..Request::new("a", 2) }),
    );
    let [first, second, other, without] =
        [answers.0, answers.1, answers.2, answers.3].map(|answer| answer.unwrap().unwrap());
    assert_eq!(began.elapsed().as_secs(), 4);
    assert!(first.unwrap() < second.unwrap() && other.is_some() && without.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_gets_no_lock_is_refused_and_one_without_a_lock_passes() {
    let server = Server::new();
    let (locks, others) = (server.manager().unwrap(), server.manager().unwrap());
    let service = ServiceBuilder::new().layer(layer(&locks)).service(service_fn(serve));
    let lease = others.mutex("a").acquire().await.unwrap();
    assert_eq!(service.clone().oneshot(Request::new("a", 0)).await, Ok(Err(ErrorCode::Busy)));
    let without = Request { lock: None, ..Request::new("a", 0) };
    assert_eq!(service.clone().oneshot(without).await, Ok(Ok(None)));
    lease.release().await.unwrap();
    locks.close().await;
    assert_eq!(service.oneshot(Request::new("a", 0)).await, Ok(Err(ErrorCode::Closed)));
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_service_is_passed_on_and_the_lock_is_free() {
    let locks = LockManager::in_memory().unwrap();
    let service = ServiceBuilder::new().layer(layer(&locks)).service(service_fn(serve));
    assert_eq!(service.oneshot(Request::new("a", 13)).await, Err("bad luck"));
    locks.mutex("a").acquire().await.unwrap().release().await.unwrap();
}

/// Tells when it is dropped.
struct Dropped(Arc<Notify>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// A service that never answers, and what tells that it runs and that it was dropped.
fn endless(
    locks: &LockManager,
) -> (
    impl Service<Request, Response = Response, Error = &'static str, Future: Send> + Clone + Send + use<>,
    Arc<Notify>,
    Arc<Notify>,
) {
    let (runs, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let told = (Arc::clone(&runs), Arc::clone(&dropped));
    let service = service_fn(move |_: Request| {
        let (runs, dropped) = (Arc::clone(&told.0), Dropped(Arc::clone(&told.1)));
        async move {
            let _dropped = dropped;
            runs.notify_one();
            pending().await
        }
    });
    (ServiceBuilder::new().layer(layer(locks)).service(service), runs, dropped)
}

#[tokio::test(start_paused = true)]
async fn a_lost_lock_drops_the_service_and_refuses_the_request() {
    let server = Server::new();
    let (service, runs, dropped) = endless(&server.manager().unwrap());
    let answer = tokio::spawn(service.oneshot(Request::new("a", 0)));
    runs.notified().await;
    assert_eq!(server.expire("a"), Ok(true));
    let answer = timeout(Duration::from_secs(60), answer).await.expect("the request goes on without its lock");
    assert_eq!(answer.unwrap(), Ok(Err(ErrorCode::Lost)));
    dropped.notified().await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_frees_the_lock() {
    let server = Server::new();
    let (service, runs, dropped) = endless(&server.manager().unwrap());
    let answer = tokio::spawn(service.oneshot(Request::new("a", 0)));
    runs.notified().await;
    answer.abort();
    dropped.notified().await;
    server.manager().unwrap().mutex("a").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_service_that_was_ready_gets_the_request() {
    // A limit panics if a service is called that is not ready.
    let service = layer(&LockManager::in_memory().unwrap());
    let mut service = ServiceBuilder::new().layer(service).concurrency_limit(2).service(service_fn(serve));
    for name in ["a", "a", "b"] {
        let answer = service.ready().await.unwrap().call(Request::new(name, 1));
        assert!(answer.await.unwrap().is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_for_a_lock_take_no_place_of_a_limit_below() {
    let server = Server::new();
    let (locks, others) = (server.manager().unwrap(), server.manager().unwrap());
    let service = ServiceBuilder::new().layer(layer(&locks)).concurrency_limit(1).service(service_fn(serve));
    let lease = others.mutex("a").acquire().await.unwrap();
    let waiting = tokio::spawn(service.clone().oneshot(Request::new("a", 1)));
    while others.inspect("a").await.unwrap().waiters.is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    let other = timeout(Duration::from_secs(3), service.clone().oneshot(Request::new("b", 1)));
    assert!(other.await.expect("the limit's place is taken by a request that waits for its lock").unwrap().is_ok());
    // With its lock, the request waits for a place.
    let third = tokio::spawn(service.oneshot(Request::new("c", 1)));
    while locks.inspect("c").await.unwrap().holders.is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    lease.release().await.unwrap();
    let (first, third) = tokio::join!(waiting, third);
    assert!(first.unwrap().unwrap().is_ok() && third.unwrap().unwrap().is_ok());
}
