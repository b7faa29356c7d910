//! The engine for the npm package `leasehold`: exported as it is, one call from JavaScript an input.
//!
//! Inputs are plain arguments: moments in microseconds, durations in milliseconds, numbers as JavaScript has them. Every
//! method answers the address of an `outcome`: the outputs and the next wake-up, as numbers and one text in
//! this module's memory. TypeScript reads them there in a tenth of the time that arrays made from here would take. The
//! null address refuses a number that does not fit.
//!
//! `ts/engine.ts` is the other half, and the only user.

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
