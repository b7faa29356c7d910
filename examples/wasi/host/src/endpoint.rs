//! The `connection` interface for the component, over any [`Provider`](crate::Provider).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use wasmtime::component::{Accessor, Destination, HasSelf, Resource, StreamProducer, StreamReader, StreamResult};
use wasmtime::{Result, StoreContextMut};

use crate::bindings::leasehold::lock::connection::{
    Failure, Host, HostEndpoint, HostEndpointWithStore, Reply, Servers,
};
use crate::instance::State;
use crate::provider::{Endpoint, Messages};

/// The endpoint behind a handle of the component.
#[allow(unreachable_pub, reason = "the bindings name it")]
pub struct Handle(Arc<dyn Endpoint>);

impl Host for State {}

impl HostEndpoint for State {
    fn drop(&mut self, handle: Resource<Handle>) -> Result<()> {
        self.table.delete(handle)?;
        Ok(())
    }
}

impl<T: Send> HostEndpointWithStore<T> for HasSelf<State> {
    async fn open(
        store: &Accessor<T, Self>,
        servers: Servers,
        response_timeout_ms: u64,
    ) -> Result<std::result::Result<Resource<Handle>, Failure>> {
        let opening =
            store.with(|mut view| view.get().provider.open(servers, Duration::from_millis(response_timeout_ms)));
        match opening.await {
            Ok(endpoint) => Ok(Ok(store.with(|mut view| view.get().table.push(Handle(endpoint)))?)),
            Err(failure) => Ok(Err(failure)),
        }
    }

    async fn call(
        store: &Accessor<T, Self>,
        handle: Resource<Handle>,
        command: Vec<Vec<u8>>,
    ) -> Result<std::result::Result<Reply, Failure>> {
        let calling =
            store.with(|mut view| Ok::<_, wasmtime::Error>(view.get().table.get(&handle)?.0.call(command)))?;
        Ok(calling.await)
    }

    async fn subscribe(
        store: &Accessor<T, Self>,
        handle: Resource<Handle>,
        channel: String,
    ) -> Result<std::result::Result<StreamReader<Vec<u8>>, Failure>> {
        let subscribing =
            store.with(|mut view| Ok::<_, wasmtime::Error>(view.get().table.get(&handle)?.0.subscribe(channel)))?;
        match subscribing.await {
            Ok(messages) => Ok(Ok(store.with(|view| StreamReader::new(view, Stream(messages)))?)),
            Err(failure) => Ok(Err(failure)),
        }
    }
}

/// The messages of a subscription, as a stream that the component reads.
struct Stream(Messages);

impl<D> StreamProducer<D> for Stream {
    type Item = Vec<u8>;
    type Buffer = Option<Vec<u8>>;

    fn poll_produce<'a>(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        _store: StoreContextMut<'a, D>,
        mut destination: Destination<'a, Vec<u8>, Option<Vec<u8>>>,
        finish: bool,
    ) -> Poll<Result<StreamResult>> {
        match self.0.poll_recv(context) {
            Poll::Ready(Some(message)) => {
                destination.set_buffer(Some(message));
                Poll::Ready(Ok(StreamResult::Completed))
            }
            Poll::Ready(None) => Poll::Ready(Ok(StreamResult::Dropped)),
            Poll::Pending if finish => Poll::Ready(Ok(StreamResult::Cancelled)),
            Poll::Pending => Poll::Pending,
        }
    }
}
