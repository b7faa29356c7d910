//! Tests that measure delays, load and fairness. They need a quiet machine. `cargo xtask test --timed` runs them, one
//! after the other.

mod failover;
mod load;
mod losses;
mod mixed_fleet;
