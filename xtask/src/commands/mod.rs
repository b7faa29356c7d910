//! A file for each command. A command may run others.

pub(crate) mod bench;
pub(crate) mod ci;
pub(crate) mod component;
pub(crate) mod demo;
pub(crate) mod docs;
pub(crate) mod examples;
pub(crate) mod fuzz;
pub(crate) mod interop;
pub(crate) mod lint;
pub(crate) mod package;
pub(crate) mod playground;
pub(crate) mod release;
pub(crate) mod simulation;
pub(crate) mod test;
pub(crate) mod timed;
pub(crate) mod torture;
pub(crate) mod wasm;
