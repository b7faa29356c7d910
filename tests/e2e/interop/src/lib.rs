//! Real clients of other libraries, to run together with our own on the same keys.
//!
//! A [`Peer`] is a process that uses a lock as it is told. Its protocol is in `peers/README.md`. `cargo xtask interop`
//! builds the peers and runs `tests/suite`. `cargo xtask bench --peers` measures with them.

mod library;
mod peer;

pub use library::Library;
pub use peer::{Error, Peer, Reply};
