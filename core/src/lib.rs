//! The sans-IO engine of leasehold. It makes all decisions and performs no I/O.
//!
//! Events go in as an [`Input`] with the current time. Actions come out as [`Output`]s. [`Engine::poll_timeout`] says
//! when to call the engine again at the latest. A driver runs this loop:
//!
//! 1. `engine.handle(now, input)`
//! 2. `while let Some(output) = engine.poll_output() { .. }`
//! 3. Wait until `engine.poll_timeout()` or for the next event, then call `engine.handle` with [`Input::Wake`] or that event.
//!
//! The crate has no clock, no I/O and no source of randomness. It is `no_std` with `alloc`, and it never panics.

#![no_std]

extern crate alloc;

mod answer;
mod ask;
mod calls;
mod channels;
mod command;
mod context;
mod convert;
mod engine;
mod error;
mod event;
mod fences;
mod flow;
mod force;
mod grant;
mod inspect;
mod keep;
mod lease;
mod message;
mod name;
mod node;
mod numbering;
mod op;
mod options;
mod pool;
mod queue;
#[cfg(feature = "quorum")]
mod quorum;
mod random;
mod reentrant;
mod releases;
mod renewal;
mod reply;
mod request;
mod resource;
mod resources;
#[cfg(feature = "quorum")]
mod roster;
mod script;
mod server;
mod several;
mod subscription;
mod tenure;
mod time;
mod timers;
mod token;
mod trouble;
mod user;
mod vote;

pub use command::Command;
pub use engine::Engine;
pub use error::{Error, LossReason, shown_time};
pub use event::{
    CallId, Grant, Holder, Input, Inspection, LeaseId, NodeId, OpId, Outcome, Output, Reason, ReleaseOutcome, Waiter,
};
pub use numbering::ByNumber;
pub use options::{AcquireOptions, Config, Kind, Mode, Owner, Wait};
pub use reply::{Failure, Reply, Scalar};
#[cfg(feature = "quorum")]
pub use roster::Roster;
pub use server::{check_eviction, check_server};
pub use time::Instant;
pub use token::ClientId;
pub use vote::{Vote, Votes};
