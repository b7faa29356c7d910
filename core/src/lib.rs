//! The engine of leasehold, without I/O. It makes all decisions, and a driver does what it decides.
//!
//! Use the crate `leasehold` for locks. This crate is for those who write a driver for another host.
//!
//! # What "without I/O" means
//!
//! The engine is a state machine for one client. It has no socket, no clock, no task and no random numbers. It is
//! `no_std` with `alloc`, and it never panics. Everything that it knows comes in as an [`Input`] together with the
//! current time: a user's call, a server's reply, a message on a channel, or only that time has passed. Everything
//! that it wants goes out as an [`Output`]: a command to send, a channel to subscribe to, the result of a call, the
//! loss of a lease.
//!
//! So the same engine runs under tokio, in JavaScript and in a WASI component. And a test runs it with any order of
//! replies and at any time, without a server and without waiting.
//!
//! # The loop
//!
//! 1. [`Engine::handle`] takes one input.
//! 2. [`Engine::poll_output`] gives the outputs. Call it until it returns `None`.
//! 3. [`Engine::poll_timeout`] says until when to wait for the next event. If none comes, the input is
//!    [`Input::Wake`].
//!
//! Here the server is one in memory. A real driver writes the words of a command to a connection, and goes on with the
//! loop while it waits for the reply.
//!
//! ```
//! use leasehold_core::{
//!     AcquireOptions, ClientId, Config, Engine, Error, Failure, Input, Instant, OpId, Outcome, Output,
//! };
//! use leasehold_memory::Server;
//!
//! const STARTED: u64 = 1_800_000_000_000_000; // The server's clock, in microseconds.
//! let mut server = Server::default();
//!
//! /// Runs the loop until a call has ended.
//! fn run(engine: &mut Engine, server: &mut Server, now: &mut Instant) -> Result<Outcome, Error> {
//!     loop {
//!         while let Some(output) = engine.poll_output() {
//!             match output {
//!                 Output::Send { id, command, .. } => {
//!                     let words: Vec<&[u8]> = command.words().collect();
//!                     let executed = server.execute(STARTED + now.as_micros(), &words).unwrap();
//!                     // An error of the server is `Refused`. A connection that breaks is `Interrupted`.
//!                     let result = executed.reply.map_err(Failure::Refused);
//!                     engine.handle(*now, Input::Reply { id, result });
//!                 }
//!                 Output::Subscribe { node, channel } => {
//!                     engine.handle(*now, Input::Subscribed { node, channel: &channel });
//!                 }
//!                 Output::Completed { result, .. } => return result,
//!                 Output::Lost { lease, reason } => println!("{lease:?} was lost: {reason:?}"),
//!                 _ => {}
//!             }
//!         }
//!         // Nothing else happens here, so time passes until the engine wants to be woken.
//!         let (at, _) = engine.poll_timeout().expect("a call always has a time limit");
//!         *now = at.max(*now);
//!         engine.handle(*now, Input::Wake);
//!     }
//! }
//!
//! // The id must be random, because tokens begin with it.
//! let mut engine = Engine::new(ClientId::from_random([7; 16]), Config::default())?;
//! let mut now = Instant::from_micros(1);
//! let options = AcquireOptions::default();
//!
//! engine.handle(now, Input::Acquire { op: OpId(1), name: "invoice:42", options: &options });
//! let grant = run(&mut engine, &mut server, &mut now)?.grant().expect("the lock is free");
//! assert!(grant.fence > 0 && engine.valid_until(grant.lease) > Some(now));
//!
//! engine.handle(now, Input::Release { op: OpId(2), lease: grant.lease });
//! assert!(matches!(run(&mut engine, &mut server, &mut now)?, Outcome::Released(_)));
//! # Ok::<_, Error>(())
//! ```
//!
//! # The life of one acquire
//!
//! | input | output | |
//! |---|---|---|
//! | [`Input::Acquire`] | | The driver may have more to say: [`Engine::poll_timeout`] is now. |
//! | [`Input::Wake`] | [`Output::Send`] | A short script, which takes the lock if it is free. |
//! | [`Input::Reply`] | [`Output::Completed`] | It was free: [`Outcome::Acquired`]. Or else: |
//! | | [`Output::Send`] | The lock's own script, which says how long the holder has. |
//! | [`Input::Reply`] | [`Output::Subscribe`] | The caller waits, so the client listens on its channel. |
//! | [`Input::Subscribed`] | [`Output::Send`] | The client joins the queue. Heartbeats keep its place. |
//! | [`Input::Message`] | [`Output::Completed`] | The grant. |
//! | [`Input::Wake`] | [`Output::Send`] | A renewal, at a third of the TTL. |
//! | [`Input::Release`] | [`Output::Send`] | Or the next local caller gets the lease, without a command. |
//! | [`Input::Reply`] | [`Output::Completed`] | [`Outcome::Released`]. |
//!
//! The first of these steps, without a server:
//!
//! ```
//! use leasehold_core::{
//!     AcquireOptions, ClientId, Config, Engine, Input, Instant, OpId, Outcome, Output, Reply, Scalar,
//! };
//!
//! let mut engine = Engine::new(ClientId::from_random([7; 16]), Config::default())?;
//! let (sent, answered) = (Instant::from_micros(1_000), Instant::from_micros(1_500));
//! engine.handle(sent, Input::Acquire { op: OpId(1), name: "invoice:42", options: &AcquireOptions::default() });
//! assert!(engine.poll_output().is_none());
//! assert_eq!(engine.poll_timeout().map(|(at, _)| at), Some(sent));
//!
//! engine.handle(sent, Input::Wake);
//! let Some(Output::Send { id, command, .. }) = engine.poll_output() else { unreachable!() };
//! assert_eq!(command.words().next(), Some(&b"EVALSHA"[..]));
//!
//! // The script answers with the fence.
//! let result = Ok(Reply::One(Scalar::Text(b"1700000000000000".to_vec())));
//! engine.handle(answered, Input::Reply { id, result });
//! let Some(Output::Completed { result, .. }) = engine.poll_output() else { unreachable!() };
//! assert!(matches!(result, Ok(Outcome::Acquired(grant)) if grant.fence == 1_700_000_000_000_000));
//! # Ok::<_, leasehold_core::Error>(())
//! ```
//!
//! # What a driver must do
//!
//! - Give every call an [`OpId`] of its own. Each call ends with one [`Output::Completed`].
//! - Answer each [`Output::Send`] with one [`Input::Reply`]. If there is no reply, the [`Failure`] says whether the
//!   command may have run. Say that it did not (`Unavailable`) only if that is sure.
//! - Never send a command again by itself, and never drop one. The engine decides. A driver only follows `MOVED` and
//!   `ASK`.
//! - Pass each message on with [`Input::Message`], and say what becomes of each subscription: [`Input::Subscribed`] or
//!   [`Input::Unsubscribed`].
//! - When a caller no longer waits for an acquire, give [`Input::Cancel`]. If the acquire has succeeded at that moment,
//!   release the lease.
//! - Before a lock is used, ask the server whether it is one that leasehold supports: [`check_server`] reads its
//!   `INFO`, and [`check_eviction`] its `maxmemory-policy`.
//! - At the end give [`Input::Close`], and go on with the loop until [`Outcome::Closed`]. To let the holders finish first,
//!   give [`Input::Drain`] and wait for [`Outcome::Drained`].
//!
//! [`Driven`] does the part of this that needs no I/O: it keeps the calls, the leases and what is to be sent.
//! [`Labels`] tells people who holds a lock.
//!
//! # Time
//!
//! An [`Instant`] is a number of microseconds since any origin.
//!
//! - The clock never goes back. If an input is earlier than the one before, the engine takes the later time.
//! - The clock goes on while the machine is suspended, because leases on the server go on. On Linux this is
//!   `CLOCK_BOOTTIME`. For hosts without such a clock, [`Clock`] makes one of a monotonic clock and the wall clock.
//! - Timers may stop during a suspension. So don't sleep longer than about a second without reading the clock.
//! - A wake-up may be early or late. A late one costs time, but never safety: [`Engine::valid_until`] holds by the
//!   clock, whether the engine was woken or not.
//!
//! An application may block the thread that the driver runs on. Then answers have arrived that nobody has read, and the
//! server looks silent. A driver that this can happen to calls [`Engine::catch_up`] before each input. If it is late,
//! everything that the server has to answer gets its full time again, at most [`MOST_PAUSES`] times for each command
//! and call. A driver with time limits of its own does the same. Leases still end by the clock.
//!
//! # Cancel safety
//!
//! An input takes effect at once and as a whole, so nothing can be cancelled halfway. When a caller leaves:
//!
//! - [`Input::Cancel`] ends an acquire that waits. It completes with [`Error::Cancelled`], unless it has completed
//!   already. A token that the server may have is given back.
//! - A release goes on when its caller leaves. The engine sends it until the server confirms it or the lease has ended.
//! - Every other call ends by itself, within its time limit. To ignore its result is safe.
//! - A driver that is dropped without [`Input::Close`] leaves its leases to their TTL.
//!
//! # The modules
//!
//! Each imports only those below it:
//!
//! | module | what it has |
//! |---|---|
//! | `driver` | What drivers keep beside the engine: [`Driven`]. |
//! | `labels` | The names of clients and leases, for people: [`Labels`]. |
//! | `engine` | What drivers see: [`Engine`], for one server or a quorum. Waits for replicas. |
//! | `quorum` | Several servers and a vote. A feature. |
//! | `client` | One client of one server: several names, semaphores, force release, shared calls. |
//! | `lock` | The state machine of one name. |
//! | `session` | What all locks share: calls, commands in flight, timers, leases, releases. |
//! | `event` | [`Input`], [`Output`] and [`Outcome`]. |
//! | `wire` | Commands, replies, messages and keys. |
//! | `serial` | How serde writes what users see. A feature. |
//! | `ids`, `options`, `error`, `time`, `clock` | The words that all others use. |
//!
//! # Features
//!
//! - `sources` (default): the texts and digests of the scripts. Without it a command has the first four digits of the digest, and
//!   the driver puts the digest or the text there.
//! - `std-times` (default): the API has the standard library's `Duration`. Without it, it has the engine's own.
//! - `quorum`: locks over several independent servers.
//! - `lease-labels`: labels of leases, and reports of keys without a TTL.
//! - `serde`: what users see, for config files, jobs and logs. [`Driven`] and the like stay out of it.

#![no_std]
// docs.rs shows which feature an item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;

#[macro_use]
mod table;
#[macro_use]
mod settings;

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
#[cfg(feature = "serde")]
pub mod serial;
mod server;
mod session;
mod text;
mod time;
mod wire;

#[cfg(feature = "quorum")]
pub use quorum::Roster;

pub use clock::Clock;
pub use driver::{Abilities, Call, CallResult, Driven, Event, Outbox, Table};
pub use engine::Engine;
pub use error::{
    Ends, Error, ErrorCode, Failure, FailureKind, LossReason, Vote, Votes, because_of, busy_reason, busy_until,
    shown_time, write_message,
};
pub use event::{
    CallFields, CallKind, Field, Grant, Holder, Input, Inspection, Leader, LeaseInfo, Operation, Outcome, OutcomeKind,
    Output, Part, Reason, ReleaseOutcome, Waiter,
};
pub use ids::{ByNumber, ClientId, CommandId, Fence, LeaseId, LeaseToken, NodeId, OpId};
pub use labels::{BusyHolder, LABEL_RULES, Labels, Question, check_label};
pub use options::{
    AcquireOptions, CLOSE_SETTINGS, Config, DEFAULT_KEEP, Family, Kind, KindFields, LOCK_SETTINGS, LONGEST_RESULT,
    MANAGER_SETTINGS, Mode, Owner, Replicas, Wait,
};
pub use server::{
    DeleteIfEqual, KEYDB, NO_SLOTS, PROBE, PROBE_PAUSE, Probed, REFUSED_SERVERS, REFUSES_INFO, SUPPORTED_SERVERS,
    Supported, TOO_OLD, check_eviction, check_probe, check_server, check_slots, is_keydb, refuses_info, slot_counters,
};
pub use session::{MOST_PAUSES, Renewal};
pub use settings::{Bounds, Setter, Setting};
pub use time::Instant;
/// The lengths of time in this API: those of the standard library, unless the feature `std-times` is off.
#[doc(hidden)]
pub use time::{api::Duration, millis};
pub use wire::{
    BAD_FENCE, BROKE, CROSS_SLOT, Command, NO_CLOCK, NO_MORE_CLIENTS, NO_RIGHT, NOT_READY, Reply, SLOT_MOVES,
    SLOTS_OPTION, Scalar, UNREACHED, WRONG_TYPE, hash_slot, is_cross_slot, slot_tag,
};

#[cfg(test)]
extern crate std;

/// Only inside the crate, a match over all variants of its types needs no wildcard.
#[cfg(test)]
#[path = "../tests/vectors/coverage.rs"]
mod vectors;
