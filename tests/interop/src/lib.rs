//! Real clients of other libraries, to be set beside our own on the same keys.
//!
//! A [`Peer`] is a process that does with a lock what it is told; the language it speaks is in `peers/README.md`.
//! `cargo xtask interop` builds the peers and runs `tests/suite`; `cargo xtask bench --peers` measures with them.

mod library;
mod peer;

pub use library::Library;
pub use peer::{Error, Peer, Reply};
