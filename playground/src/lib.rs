//! The playground behind `docs/playground`: a lock to watch.
//!
//! A [`World`] has three clients with real engines, a server in memory, a resource that checks fences, and a network
//! with delays. All of it runs on a virtual clock that the page advances. [`Playground`] is what the page calls.
//! [`timeline`] draws what happened. [`transcript`] draws the simulation's seeds with it.

mod page;
pub mod scenarios;
pub mod timeline;
pub mod transcript;
mod world;

pub use page::Playground;
pub use world::{Action, Who, World};
