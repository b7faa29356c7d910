//! The component in wasmtime, against real servers.

mod basics;
mod common;
mod contention;
mod dropped_calls;
mod faults;
mod holding;
mod hostile;
mod readers;
mod vectors;
mod world;
