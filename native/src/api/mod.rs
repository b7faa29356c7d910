//! What users call: the manager, its locks and their leases.
//!
//! Everything that leaves this folder is public.

mod address;
#[cfg(feature = "blocking")]
pub mod blocking;
mod builder;
#[cfg(feature = "cancellation-token")]
mod cancellation;
mod connect;
mod election;
mod host;
mod lease;
mod lease_token;
mod lock;
mod manager;
#[cfg(feature = "once")]
mod once;
mod options;
mod owner;
mod part;
mod query;
mod quorum_member;
#[cfg(feature = "redis-1")]
pub mod redis_1;
mod spans;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "tower")]
pub mod tower;

pub use address::{Address, Connection};
pub use builder::Builder;
pub use election::{Election, Leader, Observer, Term};
pub use lease::Lease;
pub use lease_token::LeaseToken;
pub use lock::{Lock, ReadWrite, Semaphore};
pub use manager::{Closed, LockManager};
#[cfg(feature = "once")]
pub use once::{Begun, Once};
#[cfg(feature = "once")]
pub use options::OnceOptions;
pub use options::{LockOptions, ManagerOptions};
pub use owner::Owner;
pub use part::Part;
pub use query::{LockInfo, Snapshot};
pub use quorum_member::QuorumMember;

#[cfg(all(test, feature = "blocking"))]
mod tests {
    /// The names of the methods that users of a file see.
    fn methods(source: &str) -> impl Iterator<Item = &str> {
        source.lines().filter_map(|line| {
            let line = line.trim_start();
            let method = line.strip_prefix("pub fn ").or_else(|| line.strip_prefix("pub async fn "))?;
            method.split(['(', '<']).next()
        })
    }

    #[test]
    fn the_blocking_api_has_every_name_of_the_async_one() {
        // The module's docs tell why these differ.
        let different = ["lost", "from_connection", "inspect_server", "election"];
        for (asynchronous, blocking) in [
            (include_str!("builder.rs"), include_str!("blocking/builder.rs")),
            (include_str!("connect.rs"), include_str!("blocking/connect.rs")),
            (include_str!("manager.rs"), include_str!("blocking/manager.rs")),
            (include_str!("lock.rs"), include_str!("blocking/lock.rs")),
            (include_str!("lease.rs"), include_str!("blocking/lease.rs")),
            (include_str!("once.rs"), include_str!("blocking/once.rs")),
        ] {
            for name in methods(asynchronous).filter(|name| !different.contains(name)) {
                let known = blocking.contains(&format!("fn {name}(")) || blocking.contains(&format!("fn {name}<"));
                let option = blocking.contains(&format!("Builder: {name}("));
                assert!(known || option, "the blocking API has no `{name}`");
            }
        }
    }
}
