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

#[macro_use]
mod table;

mod client;
mod clock;
mod driver;
mod engine;
mod error;
mod event;
mod ids;
mod labels;
mod lock;
mod options;
#[cfg(feature = "quorum")]
mod quorum;
mod server;
mod session;
mod text;
mod time;
mod wire;

#[cfg(feature = "quorum")]
pub use quorum::Roster;

pub use clock::Clock;
pub use driver::{Call, CallResult, Driven, Event, Operation, Outbox, Table};
pub use engine::Engine;
pub use error::{Error, ErrorCode, Failure, FailureKind, LossReason, Vote, Votes, shown_time, write_message};
pub use event::{Grant, Holder, Input, Inspection, LeaseInfo, Outcome, Output, Reason, ReleaseOutcome, Waiter};
pub use ids::{ByNumber, ClientId, CommandId, LeaseId, LeaseToken, NodeId, OpId};
pub use labels::{BusyHolder, Labels, Question, check_label};
pub use options::{
    AcquireOptions, Bounds, Config, Kind, LOCK_SETTINGS, MANAGER_SETTINGS, Mode, Owner, Replicas, Setting, Wait,
};
pub use server::{check_eviction, check_server};
pub use session::MOST_PAUSES;
pub use time::Instant;
pub use wire::{Command, NO_RIGHT, NOT_READY, Reply, Scalar, hash_slot, slot_tag};

#[cfg(test)]
extern crate std;

/// Only inside the crate, a match over all variants of its types needs no wildcard.
#[cfg(test)]
#[path = "../tests/vectors/coverage.rs"]
mod vectors;
