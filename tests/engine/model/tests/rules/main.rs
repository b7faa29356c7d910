//! The promises of the scripts, one test each, on the model: real Lua, and a clock that the test moves.

mod acquire;
mod adopt;
mod batch;
mod clock;
#[path = "../common/mod.rs"]
mod common;
mod convert;
mod fast;
mod faults;
mod fences;
mod foreign;
mod grants;
mod mark;
mod max_waiters;
mod moving;
mod multi;
mod queue;
mod rate;
mod readers;
mod release;
mod renew;
mod texts;
