//! A layer for [tower](https://docs.rs/tower) services, such as those of axum and tonic: each request runs under a lock, whose name
//! comes from the request.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;
use tracing::Instrument;

use super::lease::Lease;
use super::lock::Lock;
use crate::errors::Error;

/// Runs requests under locks. You give it three functions:
///
/// - `lock` chooses the lock of a request, with its options. If it returns `None`, the request passes at once, without a lock.
/// - `pass` puts into the request what its handler needs from the lease, such as the [fence](Lease::fence).
/// - `refuse` makes the response if the lock can't be taken or is lost.
///
/// The service runs while the lease is held, as work with [`Lock::run`] does. If the lease is lost or the manager is closed, the
/// service's future is dropped at its next `await`, and `refuse` answers. So a response from the service means that the lease was
/// held until then. An error of the service is passed on.
///
/// The lock is released when the service has returned its response. A body that is streamed after that is not under the lock. If the
/// caller drops the future, as axum does when a client disconnects, the wait ends, or the lease is released in the background.
///
/// A request that waits for its lock counts against a concurrency limit outside of this layer, and not against one inside of it: the
/// inner service must be ready when the request comes, and again when it has its lock.
///
/// ```
/// # #[cfg(feature = "testing")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), std::convert::Infallible> {
/// use std::convert::Infallible;
/// use std::time::Duration;
///
/// use leasehold::tower::LockLayer;
/// use leasehold::{Error, Fence, Lease, LockManager};
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// struct Request {
///     invoice: u64,
///     fence: Option<Fence>, // with the crate `http`: an extension
/// }
///
/// # let locks = LockManager::in_memory().unwrap();
/// let layer = LockLayer::new(
///     move |request: &Request| {
///         let lock = locks.mutex(format!("invoice:{}", request.invoice));
///         Some(lock.wait(Duration::from_millis(500)))
///     },
///     |request: &mut Request, lease: &Lease| request.fence = Some(lease.fence()),
///     // `closed`: this process is shutting down, and another one can serve.
///     |error: Error| match error.is_retryable() || matches!(error, Error::Closed) {
///         true => 503,
///         false => 500,
///     },
/// );
/// let charge = service_fn(|request: Request| async move {
///     println!("charges with {:?}", request.fence);
///     Ok::<_, Infallible>(200)
/// });
/// let service = ServiceBuilder::new().layer(layer).service(charge);
/// assert_eq!(service.oneshot(Request { invoice: 42, fence: None }).await?, 200);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "testing"))]
/// # fn main() {}
/// ```
#[derive(Clone, Copy)]
pub struct LockLayer<L, P, R> {
    lock: L,
    pass: P,
    refuse: R,
}

impl<L, P, R> LockLayer<L, P, R> {
    /// A layer with these functions.
    pub const fn new<Request, Response>(lock: L, pass: P, refuse: R) -> Self
    where
        L: Fn(&Request) -> Option<Lock>,
        P: Fn(&mut Request, &Lease),
        R: Fn(Error) -> Response,
    {
        Self { lock, pass, refuse }
    }
}

impl<L, P, R> fmt::Debug for LockLayer<L, P, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockLayer").finish_non_exhaustive()
    }
}

impl<S, L: Clone, P: Clone, R: Clone> Layer<S> for LockLayer<L, P, R> {
    type Service = LockService<S, L, P, R>;

    fn layer(&self, inner: S) -> Self::Service {
        LockService { inner, layer: self.clone() }
    }
}

/// A service behind a [`LockLayer`].
#[derive(Clone, Copy)]
pub struct LockService<S, L, P, R> {
    inner: S,
    layer: LockLayer<L, P, R>,
}

impl<S: fmt::Debug, L, P, R> fmt::Debug for LockService<S, L, P, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockService").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<Request, S, L, P, R> Service<Request> for LockService<S, L, P, R>
where
    Request: Send + 'static,
    S: Service<Request, Future: Send> + Clone + Send + 'static,
    S::Response: Send,
    S::Error: Send,
    L: Fn(&Request) -> Option<Lock>,
    P: Fn(&mut Request, &Lease) + Clone + Send + 'static,
    R: Fn(Error) -> S::Response + Clone + Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let LockLayer { lock, pass, refuse } = &self.layer;
        let Some(lock) = lock(&request) else { return Box::pin(self.inner.call(request)) };
        let (pass, refuse) = (pass.clone(), refuse.clone());
        // A service that is ready can hold what others wait for, such as a place of a concurrency limit. So it is dropped, and a clone
        // gets ready when this request has its lock. The contract of `Service` allows both.
        self.inner = self.inner.clone();
        let mut inner = self.inner.clone();
        Box::pin(async move {
            let lease = match lock.acquire().await {
                Ok(lease) => lease,
                Err(error) => return Ok(refuse(error)),
            };
            pass(&mut request, &lease);
            let serve = async {
                poll_fn(|context| inner.poll_ready(context)).await?;
                inner.call(request).await
            };
            let response = tokio::select! {
                biased;
                error = lease.interrupted() => return Ok(refuse(error)),
                done = serve.instrument(lease.span()) => done?,
            };
            match lease.release_or_loss().await {
                Ok(()) => Ok(response),
                Err(lost) => Ok(refuse(lost)),
            }
        })
    }
}
