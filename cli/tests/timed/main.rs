//! Tests that measure on real clocks, for example that a command is dead before the next holder's command begins. They
//! need a quiet machine. `cargo xtask test --timed` runs them, one after the other.
#![cfg(unix)]

#[path = "../suite/common.rs"]
#[allow(dead_code, reason = "shared with the suite")]
mod common;
#[path = "../suite/job.rs"]
#[allow(dead_code, reason = "shared with the suite")]
mod job;

mod latency;
mod overlaps;
