//! The fuzz targets. Each test replays its corpus, and then tries a few random inputs.
//!
//! `cargo xtask fuzz` looks for new inputs: it builds this program with libFuzzer, which keeps the inputs that reach new
//! code. The corpus of a target is in `__fuzz__`.

mod commands;
mod messages;
mod options;
mod replies;
mod steps;
mod urls;

/// How many random inputs a test tries after its corpus. Few of them mean anything, because nothing guides them.
pub(crate) const RANDOM: usize = 200;
