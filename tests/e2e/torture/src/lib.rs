//! Real processes on real servers, under faults. Each process records what it believes and when. A checker judges the
//! histories.
//!
//! - [`history`] is what gets recorded: one event for each line, with the time of a clock that all processes share.
//! - [`checker`] is a pure function from a history to a verdict.
//! - [`worker`] is a client that takes and releases locks, in a process of its own.
//! - [`faults`] is the plan of faults of a seed.
//! - [`drill`] is one job in place of locks of all kinds: an election, work that is done once, or jobs under limits.
//! - [`limits`] are the limits of the last one.
//! - [`topologies`] starts the servers, and strikes them.
//! - [`proxy`] is a connection that delays, drops, halves and duplicates.
//! - [`server_log`] reads from a server in which order it queues and grants.
//! - [`run`] brings everything together, and [`report`] prints what came out.

pub mod checker;
pub mod drill;
pub mod faults;
mod fleet;
pub mod history;
pub mod limits;
pub mod proxy;
pub mod report;
pub mod run;
pub mod server_log;
pub mod topologies;
pub mod worker;
