//! The component in wasmtime, against real servers.

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
mod quorum;
mod readers;
mod several;
mod silent;
mod tcp;
mod tls;
mod vectors;
mod world;
