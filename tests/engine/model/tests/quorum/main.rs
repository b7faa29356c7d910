//! Locks over several servers: the engine's quorum and the real scripts, on virtual time.

mod draining;
mod errors;
mod fences;
mod holding;
mod losing;
mod missing;
mod queue;
mod readers;
mod voting;
mod world;
