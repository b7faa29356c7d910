//! The span of a lease is current in the work that runs under it, so spans that are made there are its children.

use std::convert::Infallible;

use leasehold::tower::LockLayer;
use leasehold::{Error, Lease, LockManager, blocking};
use tokio::task::yield_now;
use tower::{ServiceBuilder, ServiceExt, service_fn};
use tracing::Span;
use tracing_subscriber::Registry;

/// The name of the span that is current.
fn current() -> Option<String> {
    Span::current().metadata().map(|span| span.name().to_owned())
}

fn is_hold(name: Option<String>) {
    assert_eq!(name.as_deref(), Some("leasehold.hold"));
}

#[tokio::test]
async fn the_span_of_a_lease_is_current_in_its_work() {
    let _listening = tracing::subscriber::set_default(Registry::default());
    let locks = LockManager::in_memory().unwrap();
    let seen = locks.mutex("a").run(async |_| {
        yield_now().await;
        Ok::<_, Error>(current())
    });
    is_hold(seen.await.unwrap());
    is_hold(locks.once("b").run(async |_| Ok::<_, Error>(current())).await.unwrap());

    let lock = move |(): &()| Some(locks.mutex("c"));
    let layer = LockLayer::new(lock, |(): &mut (), _: &Lease| {}, |error: Error| Some(error.to_string()));
    let service = service_fn(async |(): ()| {
        yield_now().await;
        Ok::<_, Infallible>(current())
    });
    is_hold(ServiceBuilder::new().layer(layer).service(service).oneshot(()).await.unwrap());
    assert_eq!(current(), None);
}

#[test]
fn the_span_of_a_lease_is_current_in_blocking_work() {
    let _listening = tracing::subscriber::set_default(Registry::default());
    let locks = blocking::LockManager::in_memory().unwrap();
    is_hold(locks.mutex("a").run(|_| Ok::<_, Error>(current())).unwrap());
    is_hold(locks.once("b").run(|_| Ok::<_, Error>(current())).unwrap());
    assert_eq!(current(), None);
}
