//! The keys of a server and the commands on them. Each command is a method of [`Keyspace`] that takes typed arguments;
//! [`commands`](crate::commands) reads them from a client's words.

mod generic;
mod hashes;
mod keyspace;
pub(crate) mod number;
mod sorted_set;
mod sorted_sets;
mod strings;

pub(crate) use keyspace::{Data, Entry, Keyspace};
pub(crate) use sorted_set::{Bound, Range, SortedSet};
pub(crate) use strings::{Lifetime, SetOptions};
