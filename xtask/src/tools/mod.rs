//! What several commands need: to run programs, to build something once, and to report.

pub(crate) mod background;
pub(crate) mod binaries;
pub(crate) mod cargo;
pub(crate) mod chart;
pub(crate) mod component;
pub(crate) mod error;
pub(crate) mod libfuzzer;
pub(crate) mod log;
pub(crate) mod node;
pub(crate) mod package;
pub(crate) mod peers;
pub(crate) mod playground;
pub(crate) mod quick_package;
pub(crate) mod ratios;
pub(crate) mod report;
pub(crate) mod stamp;
pub(crate) mod steps;
pub(crate) mod wasm;
pub(crate) mod workspace;
