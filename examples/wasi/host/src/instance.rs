//! An instance of the component, and its event loop.

use std::sync::Arc;

use wasmtime::component::{Component, HasSelf, Linker, ResourceTable};
use wasmtime::{Config, Engine, Result, Store};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use crate::bindings::{Lock, leasehold::lock::connection};
use crate::locks::Locks;
use crate::provider::{NoProvider, Provider};

/// The host's state for one instance.
pub(crate) struct State {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) table: ResourceTable,
    wasi: WasiCtx,
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

/// An engine that runs components of WASI 0.3.
///
/// # Errors
/// If this machine can't run such an engine.
pub fn engine() -> Result<Engine> {
    let mut config = Config::new();
    config.wasm_component_model_async(true);
    Engine::new(&config)
}

/// Makes an instance of `lock.wasm` that connects through the provider, and runs `work` inside its event loop. When the
/// work ends, everything that the instance started stops.
///
/// # Errors
/// If the instance trapped.
pub async fn with_provider<R>(
    lock: &Component,
    provider: impl Provider + 'static,
    work: impl AsyncFnOnce(Locks<'_>) -> R,
) -> Result<R> {
    with_context(lock, provider, WasiCtx::builder().build(), work).await
}

/// The same, with your own context. The context decides, for example, what the clocks show.
///
/// # Errors
/// If the instance trapped.
pub async fn with_context<R>(
    lock: &Component,
    provider: impl Provider + 'static,
    wasi: WasiCtx,
    work: impl AsyncFnOnce(Locks<'_>) -> R,
) -> Result<R> {
    let mut linker = linker(lock)?;
    connection::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
    let state = State { provider: Arc::new(provider), table: ResourceTable::new(), wasi };
    run(lock, &linker, state, work).await
}

/// Makes an instance of `leasehold-tcp.wasm`, which connects by itself and needs only standard WASI, the network included.
///
/// # Errors
/// If the instance trapped.
pub async fn with_network<R>(tcp: &Component, work: impl AsyncFnOnce(Locks<'_>) -> R) -> Result<R> {
    let mut wasi = WasiCtx::builder();
    wasi.inherit_network().allow_tcp(true).allow_ip_name_lookup(true);
    let state = State { provider: Arc::new(NoProvider), table: ResourceTable::new(), wasi: wasi.build() };
    run(tcp, &linker(tcp)?, state, work).await
}

fn linker(component: &Component) -> Result<Linker<State>> {
    let mut linker = Linker::<State>::new(component.engine());
    wasmtime_wasi::p3::add_to_linker(&mut linker)?;
    Ok(linker)
}

async fn run<R>(
    component: &Component,
    linker: &Linker<State>,
    state: State,
    work: impl AsyncFnOnce(Locks<'_>) -> R,
) -> Result<R> {
    let mut store = Store::new(component.engine(), state);
    let instance = Lock::instantiate_async(&mut store, component, linker).await?;
    let guest = instance.leasehold_lock_locks();
    store.run_concurrent(async |accessor| work(Locks::new(accessor, guest)).await).await
}
