//! What the fuzz targets share. The targets are in `tests/targets`, one file for each.
//!
//! An input is a text, so people can read and write it. A target that takes steps reads one from each line: its first
//! word says what happens, and the others are its arguments. A line that makes no sense is left out. So every input
//! means something, and a small change of an input is a small change of what happens.

mod backing;
mod names;
mod script;
mod world;

pub use names::NAMES;
pub use script::{Step, Words, scalar, steps};
pub use world::{Answering, World};
