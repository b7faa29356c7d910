//! Locks over several servers: clients and servers that each have a clock and troubles of their own, on virtual time.
//!
//! What is so is judged by true time, and by each client's own deadline. Where servers restart empty, a lease whose servers
//! forgot it may overlap with the next one until its holder's next renewal tells; fences rise all the same, as long as the
//! servers' clocks differ by less than a restart takes.

mod client;
mod looking;
mod network;
mod strikes;
mod users;
mod watch;
mod world;

pub use world::World;
