use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::{Builder, Error, LockManager, Wait};
use leasehold_servers::Server;

/// The server for tests that don't disturb each other. Its own watchdog stops it when this process ends.
///
/// # Panics
/// If no server can be found or started.
pub fn shared_server() -> &'static Server {
    static SERVER: LazyLock<Server> = LazyLock::new(|| Server::start().unwrap_or_else(|error| panic!("{error}")));
    &SERVER
}

/// A name that no other test uses.
pub fn unique(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{name}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Options for tests: windows and a TTL that a busy machine can keep.
pub fn quick() -> Builder {
    LockManager::builder()
        .ttl(Duration::from_secs(5))
        .claim_window(Duration::from_secs(3))
        .response_timeout(Duration::from_secs(1))
        .wait(Wait::For(Duration::from_secs(20)))
}

/// A client with the options for tests.
///
/// # Errors
/// As [`LockManager::connect`].
pub async fn client(server: &Server) -> Result<LockManager, Error> {
    quick().connect(&server.url()).await
}
