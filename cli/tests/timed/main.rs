//! What has to be measured: that a command is dead before the next holder's begins, on real clocks. It needs a quiet machine.
//! `cargo xtask test --timed` runs it, one test after the other.
#![cfg(unix)]

#[path = "../suite/common.rs"]
#[allow(dead_code, reason = "shared with the suite")]
mod common;
#[path = "../suite/job.rs"]
#[allow(dead_code, reason = "shared with the suite")]
mod job;

mod latency;
mod overlaps;
