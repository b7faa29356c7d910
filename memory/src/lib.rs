//! The server's half of leasehold in memory: keys, TTLs, scripts and channels on a clock that is passed in.
//!
//! A [`Server`] answers commands as Redis or Valkey does. It has no I/O and no clock, so a test decides when time passes.
//! Each of leasehold's scripts is a Rust function here. A client calls it as on a real server, with `EVALSHA` and the
//! script's digest, or with `EVAL` and its text. Other scripts are refused, because the server has no Lua.
//!
//! ```
//! use leasehold_core::{Reply, Scalar};
//! use leasehold_memory::Server;
//!
//! let mut server = Server::default();
//! let now = 1_800_000_000_000_000; // in microseconds
//! let executed = server.execute(now, &[b"SET", b"greeting", b"hello", b"PX", b"50"])?;
//! assert_eq!(executed.reply, Ok(Reply::One(Scalar::Text(b"OK".to_vec()))));
//! assert_eq!(server.text(now + 49_999, b"greeting"), Some(&b"hello"[..]));
//! assert_eq!(server.text(now + 51_000, b"greeting"), None);
//! # Ok::<_, leasehold_memory::TimeError>(())
//! ```
//!
//! Where servers differ, it answers as Redis 6.2, the oldest one that leasehold supports. Tests run the same commands
//! on this server and on real ones, and compare replies, messages and every key.

#![no_std]

extern crate alloc;

mod answer;
mod commands;
mod keys;
mod scripts;
mod server;
mod state;
mod transaction;

pub use answer::{Answer, Refusal};
pub use server::{Executed, TimeError};
pub use state::{Message, Server};
pub use transaction::{Ended, Transaction, Writes};
