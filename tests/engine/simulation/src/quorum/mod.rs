//! Locks over several servers, or leases of several names on a single one, on virtual time. Each client and each server has
//! its own clock and its own faults.
//!
//! The watchers judge by true time and by each client's own deadline. If servers restart empty, a lease that they
//! forgot may overlap with the next one until its holder's next renewal. The fences still rise, as long as the servers'
//! clocks differ by less than a restart takes.

mod attempts;
mod checks;
mod client;
mod fault_injection;
mod network;
mod users;
mod watch;
mod world;

pub use world::{Manner, QuorumRun};
