//! The playground behind `docs/playground`: a lock to watch.
//!
//! A [`World`] has three clients with real engines, a server in memory, a resource that checks fences, and a network
//! with delays. All of it runs on a virtual clock that the page advances. [`Playground`] is what the page calls.
//! [`timeline`] draws what happened; the simulation draws its seeds with it too.

mod page;
pub mod scenarios;
pub mod timeline;
mod world;

pub use page::Playground;
pub use world::{Action, Who, World};
