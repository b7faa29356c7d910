//! Engines and model servers on virtual time, with faults and invariants. One seed makes one run.
//!
//! A run has clients with real engines and clocks that disagree, servers that run the real scripts, and a network that
//! loses, delays, duplicates and reorders. There are three kinds: a [`ClusterRun`] has every kind of lock, a
//! [`QuorumRun`] has locks over several servers, or leases of several names on one, and an [`ElectionRun`] has one leader. A [`RateRun`] has callers of a rate. The [`invariants`] know
//! the true time and check every step. A [`Bench`] runs seeds; `cargo xtask simulate` runs many of them.

#[macro_use]
mod listed;

mod adopting;
pub mod campaign;
mod channels;
mod checks;
pub mod cli;
mod client;
pub mod coverage;
mod detaching;
mod driver;
pub mod election;
mod fault_injection;
pub mod faults;
mod foreign;
pub mod injected_bugs;
pub mod invariants;
mod kinds;
mod mix;
pub mod mutants;
mod network;
mod observe_clients;
mod observe_kinds;
mod observe_outcomes;
mod observe_scripts;
mod process;
pub mod quorum;
mod rate;
pub mod run;
pub mod seeds;
mod servers;
pub mod slices;
pub mod theme;
mod timers;
mod users;
mod watch;
mod wire;
pub mod world;

pub use election::ElectionRun;
pub use quorum::QuorumRun;
pub use rate::RateRun;
pub use run::{Bench, Report};
pub use world::ClusterRun;
