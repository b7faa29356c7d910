//! The parts of a simulated world. Every test with engines on virtual time, or with a seed, uses them.
//!
//! A [`Client`] is an engine whose server is the test, or one of [`answers`] that grants everything.
//! A [`World`] has the time, the future events, the random numbers of its seed, and a transcript. Each kind of run puts its
//! own clients, servers and invariants around one.

mod agenda;
pub mod answers;
mod client;
mod clock;
mod rng;
mod transcript;
mod world;

pub use agenda::Agenda;
pub use client::Client;
pub use clock::{Clock, Micros};
pub use rng::Rng;
pub use transcript::Transcript;
pub use world::World;
