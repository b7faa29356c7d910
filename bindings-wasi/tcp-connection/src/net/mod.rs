//! A connection to one server: its address, the socket, the login and the protocol.
//!
//! Nothing in this folder knows the client that uses it.

mod address;
mod connection;
mod dial;
#[cfg(test)]
mod fuzz;
mod resp;

pub(crate) use address::{Address, AddressError, Closes};
pub(crate) use connection::{Broken, Connection, Input, Output};
pub(crate) use resp::{Parsed, encode};
