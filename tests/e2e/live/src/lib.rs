//! The helpers of the tests against real servers: clients, other processes, clients of other
//! libraries, and a resource that checks fences. The tests themselves are in `tests/suite`.
//!
//! They run against the server that `leasehold-servers` finds. `LEASEHOLD_SERVER=/path/to/program` chooses another one.
//! `cargo xtask test --full` uses it to test all versions.

mod clients;
mod foreign;
mod guarded;
mod messages;
mod raw;
mod toy_server;
mod waiting;
mod watched;
mod worker;

pub use clients::{ASKING, LONG, PATIENCE, RENEWED, client, hasty, hasty_quorum, options, shared_server, unique};
pub use foreign::Foreign;
pub use guarded::write_guarded;
pub use messages::{hands_over_by_message, introduce, labels};
pub use raw::{FENCE, connections, endless_keys, is_there, keys, number, side, subscribed, text, waiters};
pub use toy_server::{CLOSE, OldServer, ToyServer};
pub use waiting::{SOON, all_have, begin, busy, is_busy, queued, renewed, soon, until, until_blocking};
pub use watched::Watched;
pub use worker::Worker;

/// The result of a test.
pub type Tested = Result<(), Box<dyn std::error::Error + Send + Sync>>;
