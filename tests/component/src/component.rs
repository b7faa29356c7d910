//! The component, and one instance of it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::{env, fs};

use wasmtime::component::{Component, HasSelf, Linker, ResourceTable};
use wasmtime::{Config, Engine, Result, Store};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use crate::bindings::{Lock, leasehold::lock::connection};
use crate::locks::Locks;
use crate::provider::Provider;

/// What belongs to one instance.
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

/// The engine that all tests share.
///
/// # Panics
/// If this machine can't run it.
pub fn engine() -> &'static Engine {
    static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
        let mut config = Config::new();
        config.wasm_component_model_async(true);
        Engine::new(&config).unwrap_or_else(|error| panic!("{error}"))
    });
    &ENGINE
}

/// `lock.wasm`, compiled once. `LEASEHOLD_LOCK_WASM` says where it is.
///
/// # Panics
/// If it is not there or is no component.
pub fn lock_component() -> &'static Component {
    static COMPONENT: LazyLock<Component> = LazyLock::new(|| load(&lock_path()));
    &COMPONENT
}

/// Another component that was built together with `lock.wasm`.
///
/// # Panics
/// If it is not there or is no component.
pub fn component_beside_lock(name: &str) -> Component {
    load(&lock_path().with_file_name(name))
}

fn lock_path() -> PathBuf {
    env::var_os("LEASEHOLD_LOCK_WASM").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/wasi/lock.wasm")),
        PathBuf::from,
    )
}

fn load(path: &Path) -> Component {
    let advice = "`cargo xtask component` builds it";
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}: {advice}", path.display()));
    Component::new(engine(), bytes).unwrap_or_else(|error| panic!("{}: {error:?}", path.display()))
}

/// Makes an instance whose connections are the provider's, and runs `work` inside its event loop. What the instance began
/// stops when the work ends.
///
/// # Errors
/// If the instance trapped.
pub async fn with_component<R>(provider: impl Provider + 'static, work: impl AsyncFnOnce(Locks<'_>) -> R) -> Result<R> {
    let mut linker = Linker::<State>::new(engine());
    wasmtime_wasi::p3::add_to_linker(&mut linker)?;
    connection::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
    let state = State { provider: Arc::new(provider), table: ResourceTable::new(), wasi: WasiCtx::builder().build() };
    let mut store = Store::new(engine(), state);
    let instance = Lock::instantiate_async(&mut store, lock_component(), &linker).await?;
    let guest = instance.leasehold_lock_locks();
    store.run_concurrent(async |accessor| work(Locks::new(accessor, guest)).await).await
}
