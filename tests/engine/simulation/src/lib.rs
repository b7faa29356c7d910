//! Engines and model servers on virtual time, with faults and invariants. One seed makes one run.
//!
//! A run has clients with real engines and clocks that disagree, servers that run the real scripts, and a network that
//! loses, delays, duplicates and reorders. There are three kinds: a [`ClusterRun`] has every kind of lock, a
//! [`QuorumRun`] has locks over several servers, and a `SeveralRun` has leases of several names. The [`invariants`] know
//! the true time and check every step. A [`Bench`] runs seeds; `cargo xtask simulate` runs many of them.

pub mod campaign;
pub mod channels;
pub mod cli;
pub mod client;
pub mod coverage;
mod driving;
pub mod faults;
pub mod foreign;
mod hearing;
pub mod invariants;
pub mod kinds;
mod looking;
pub mod mix;
pub mod mutants;
mod network;
mod observing;
mod permitting;
pub mod quorum;
pub mod run;
mod sending;
pub mod servers;
mod several;
pub mod slices;
mod strikes;
pub mod tampering;
pub mod theme;
pub mod users;
mod waking;
mod watch;
pub mod wire;
pub mod world;

pub use quorum::QuorumRun;
pub use run::{Bench, Report};
pub use world::ClusterRun;
