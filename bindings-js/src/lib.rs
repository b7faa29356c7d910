//! The engine for the npm package `leasehold`.
//!
//! Every input is one call. Its numbers arrive in a record in this module's memory (see `input`), its text as an argument. The
//! call returns the address of another record (see `output`), with the outputs and the next wake-up. TypeScript writes and reads
//! these records ten times as fast as it would pass JavaScript arrays. `codes` declares the numbers that both sides must know.
//!
//! `ts/engine/engine.ts` is the other half, and the only user.

#![cfg_attr(target_arch = "wasm32", no_std)]

extern crate alloc;

#[cfg(test)]
mod bounds;
mod codes;
mod config;
mod engine;
mod failure;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod generated;
mod input;
#[cfg(test)]
mod interfaces;
mod number;
mod output;
#[cfg(feature = "quorum")]
mod quorum;
#[cfg(test)]
mod refusals;
mod reply;
#[cfg(test)]
mod surfaces;
mod text;

#[cfg(target_arch = "wasm32")]
#[global_allocator]
static ALLOCATOR: rlsf::SmallGlobalTlsf = rlsf::SmallGlobalTlsf::new();

/// The engine never panics, and an allocation that fails can't be reported. Without the standard library's handler, which
/// would format a message for nobody, the module is smaller.
#[cfg(target_arch = "wasm32")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}
