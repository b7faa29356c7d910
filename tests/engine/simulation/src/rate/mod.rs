//! Runs of a semaphore with a rate: callers of four clients start, wait, give up, die and sleep, and the server and its
//! messages fail. A run like this is a small world of its own, because its callers hold nothing, and its promise is about the
//! server's record of a time.
//!
//! | file | what it has |
//! |---|---|
//! | `world` | the clients, the server, and what goes wrong |
//! | `watch` | the promises |

mod watch;
mod world;

pub use world::RateRun;
