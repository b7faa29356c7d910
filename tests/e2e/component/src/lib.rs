//! The built components, and instances of them for the tests.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::{env, fs};

use leasehold_wasmtime_host::{Locks, Provider, with_network, with_provider};
use wasmtime::component::Component;
use wasmtime::{Engine, Result};

/// The engine that all tests share.
///
/// # Panics
/// If this machine can't run it.
pub fn engine() -> &'static Engine {
    // The code is optimised, because in some tests the guest must read faster than a hostile server sends.
    static ENGINE: LazyLock<Engine> =
        LazyLock::new(|| leasehold_wasmtime_host::engine().unwrap_or_else(|error| panic!("{error}")));
    &ENGINE
}

/// `lock.wasm`, compiled once. `LEASEHOLD_LOCK_WASM` is its path.
///
/// # Panics
/// If it is missing or is not a component.
pub fn lock_component() -> &'static Component {
    static COMPONENT: LazyLock<Component> = LazyLock::new(|| load(&lock_path()));
    &COMPONENT
}

/// `leasehold-tcp.wasm`, compiled once.
///
/// # Panics
/// If it is missing or is not a component.
pub fn tcp_component() -> &'static Component {
    static COMPONENT: LazyLock<Component> = LazyLock::new(|| component_beside_lock("leasehold-tcp.wasm"));
    &COMPONENT
}

/// Another component that was built together with `lock.wasm`, compiled once.
///
/// # Panics
/// If it is missing or is not a component.
pub fn component_beside_lock(name: &'static str) -> Component {
    static COMPONENTS: LazyLock<Mutex<HashMap<&'static str, Component>>> = LazyLock::new(Mutex::default);
    let mut components = COMPONENTS.lock().unwrap_or_else(PoisonError::into_inner);
    components.entry(name).or_insert_with(|| load(&lock_path().with_file_name(name))).clone()
}

/// Where `lock.wasm` is.
pub fn lock_path() -> PathBuf {
    env::var_os("LEASEHOLD_LOCK_WASM").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../target/wasi/lock.wasm")),
        PathBuf::from,
    )
}

/// Runs `work` in an instance of `lock.wasm` that uses the provider's connections.
///
/// # Errors
/// If it trapped.
pub async fn with_component<R>(provider: impl Provider + 'static, work: impl AsyncFnOnce(Locks<'_>) -> R) -> Result<R> {
    with_provider(lock_component(), provider, work).await
}

/// Runs `work` in an instance of `leasehold-tcp.wasm`, which has only standard WASI.
///
/// # Errors
/// If it trapped.
pub async fn with_tcp_component<R>(work: impl AsyncFnOnce(Locks<'_>) -> R) -> Result<R> {
    with_network(tcp_component(), work).await
}

fn load(path: &Path) -> Component {
    let advice = "`cargo xtask component` builds it";
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}: {advice}", path.display()));
    Component::new(engine(), bytes).unwrap_or_else(|error| panic!("{}: {error:?}", path.display()))
}
