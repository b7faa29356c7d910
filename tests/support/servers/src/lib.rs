//! Real servers for tests. They are found or installed, run on a free loopback port, and are always stopped.
//!
//! ```
//! # fn main() -> Result<(), leasehold_servers::Error> {
//! let mut server = leasehold_servers::Server::start()?;
//! server.cli(&["SET", "greeting", "hello"])?;
//! assert_eq!(server.cli(&["GET", "greeting"])?.text(), Some("hello"));
//! server.restart()?; // the same port, and empty
//! assert!(server.cli(&["GET", "greeting"])?.is_nil());
//! # Ok(())
//! # }
//! ```
//!
//! The server stops when its [`Server`] is dropped, and also when the test process is killed.

mod certificate;
mod cluster;
mod emulated;
mod error;
mod install;
mod locate;
mod process;
mod proxy;
mod replication;
pub mod requests;
mod resp;
mod server;
mod version;
mod wait;

pub use certificate::Certificate;
pub use cluster::{Cluster, SlotMove};
pub use emulated::has_pexpiretime;
pub use error::Error;
pub use install::{envoy, promtool, twemproxy, wasmtime};
pub use locate::{find, find_version};
pub use process::Process;
pub use proxy::{Fate, Proxy};
pub use replication::{PRIMARY, Sentinel, follow, promote, stay_primary};
pub use resp::{Connection, Reply};
pub use server::{Builder, Server};
pub use version::Version;
