//! The component in wasmtime, against real servers.
mod basics;
