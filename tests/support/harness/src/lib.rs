//! The parts of a simulated world. Every test with engines on virtual time, or with a seed, uses them.
//!
//! A [`World`] has the time, the future events, the random numbers of its seed, and a transcript. Each kind of run puts its
//! own clients, servers and invariants around one.

mod agenda;
mod clock;
mod rng;
mod transcript;
mod world;

pub use agenda::Agenda;
pub use clock::{Clock, Micros};
pub use rng::Rng;
pub use transcript::Transcript;
pub use world::World;
