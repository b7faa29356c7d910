//! The component in wasmtime: against servers in memory where time matters, and against real ones where bytes,
//! connections and messages do.

mod adopting;
mod basics;
mod common;
mod contention;
mod dropped_calls;
mod faults;
mod guests;
mod holding;
mod hostile;
mod hostile_server;
mod kinds;
mod limits;
mod lying;
mod memory;
mod once;
mod questions;
mod quorum;
mod rates;
mod readers;
mod several;
mod silent;
mod tcp;
mod vectors;
mod world;
