//! The engine for the npm package `leasehold`. Each method is one input of the engine.
//!
//! Inputs are plain arguments: times in microseconds, durations in milliseconds, numbers as `f64`. Every method returns the
//! address of a row (see `outcome`): the outputs and the next wake-up, as numbers and one text in this module's memory.
//! TypeScript reads them there ten times as fast as it would get JavaScript arrays from here. A null address means that a number
//! was out of range.
//!
//! `ts/engine/engine.ts` is the other half, and the only user.

mod config;
mod engine;
mod failure;
mod number;
mod outcome;
#[cfg(feature = "quorum")]
mod quorum;
mod reply;

#[cfg(target_arch = "wasm32")]
#[global_allocator]
static ALLOCATOR: rlsf::SmallGlobalTlsf = rlsf::SmallGlobalTlsf::new();
