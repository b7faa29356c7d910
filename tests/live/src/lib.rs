//! What the tests against real servers stand on: clients with short times, other processes, other libraries' clients,
//! and a resource that checks fences. The tests themselves are in `tests/suite`.
//!
//! They run against the server that `leasehold-servers` finds; `LEASEHOLD_SERVER=/path/to/program` chooses another one,
//! which is how `cargo xtask test --full` goes through all versions.

mod clients;
mod foreign;
mod guarded;
mod raw;
mod toy_server;
mod waiting;
mod worker;

pub use clients::{client, quick, shared_server, unique};
pub use foreign::Foreign;
pub use guarded::write_guarded;
pub use raw::{connections, endless_keys, is_there, keys, number, side, subscribed, text, waiters};
pub use toy_server::{OldServer, ToyServer};
pub use waiting::{SOON, begin, soon, until};
pub use worker::Worker;

/// What a test answers.
pub type Tested = Result<(), Box<dyn std::error::Error + Send + Sync>>;
