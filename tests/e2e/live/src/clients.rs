use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::{Builder, Error, LockManager, QuorumMember, Wait};
use leasehold_servers::Server;

use crate::waiting::until;

/// A TTL that is longer than any test takes, even on a slow machine. So a free lock was released.
pub const LONG: Duration = Duration::from_secs(600);
/// The TTL of a lease whose renewal a test awaits. The renewal comes after a third of the TTL. The rest is for a slow
/// machine.
pub const RENEWED: Duration = Duration::from_secs(15);
/// How long an answer may take, and how long a waiter keeps its place without asking: the longest that a client
/// accepts. So no client sends a command again because the machine is slow.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The claim window of a waiter that has to ask, because it gets no message. It asks three times in this time. On a
/// slow machine it may lose its place in the queue, but nothing else.
pub const ASKING: Duration = Duration::from_secs(1);

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

/// Options for tests. All times are longer than a test takes. A test sets a shorter time only to await its end.
pub fn options() -> Builder {
    LockManager::builder()
        .ttl(LONG)
        .claim_window(PATIENCE)
        .response_timeout(PATIENCE)
        .node_timeout(PATIENCE)
        .wait(Wait::For(LONG))
}

/// A client with the options for tests.
///
/// # Errors
/// As [`LockManager::connect`].
pub async fn client(server: &Server) -> Result<LockManager, Error> {
    options().connect(&server.url()).await
}

/// A client that waits only this long for an answer, for tests of servers that are silent or gone. It connects again
/// until the server has answered in that time. A test must not rely on later answers, except when the client waits for
/// a lock.
///
/// # Panics
/// If the server never answers in time.
pub async fn hasty(server: &Server, timeout: Duration) -> LockManager {
    let mut locks = None;
    until("a connection", async || {
        locks = options().response_timeout(timeout).connect(&server.url()).await.ok();
        locks.is_some()
    })
    .await;
    locks.unwrap_or_else(|| unreachable!())
}

/// A client of a quorum that waits only 500 ms for an answer of a member, for tests of members that are silent or gone.
/// It connects again until a majority has answered in that time. On a slow machine, later calls may fail.
///
/// # Panics
/// If the members never answer in time.
pub async fn hasty_quorum<M: Into<QuorumMember>, I: IntoIterator<Item = M>>(members: impl Fn() -> I) -> LockManager {
    let hasty = || options().node_timeout(Duration::from_millis(500)).response_timeout(Duration::from_secs(1));
    let mut locks = None;
    until("a connection", async || {
        locks = hasty().quorum(members()).await.ok();
        locks.is_some()
    })
    .await;
    locks.unwrap_or_else(|| unreachable!())
}
