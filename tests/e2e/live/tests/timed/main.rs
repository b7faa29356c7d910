//! What has to be measured: delays, load and shares. It needs a quiet machine. `cargo xtask test --timed` runs it, one test
//! after the other.

mod failover;
mod load;
mod losses;
mod mixed_fleet;
