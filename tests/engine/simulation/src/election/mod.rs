//! Runs of an election: five clients campaign for one name, lead, resign, die, sleep and close, while others observe. The
//! server and its messages fail. A run like this is a small world of its own, because the other worlds have nobody who
//! waits for ever, and no observers.
//!
//! | file | what it has |
//! |---|---|
//! | `world` | the clients, the server, and what goes wrong |
//! | `client` | one client: an engine, its clock, and what its user does |
//! | `watch` | the promises |

mod client;
mod watch;
mod world;

pub use world::ElectionRun;
