//! Where the servers are and how to connect to them.

pub(crate) mod checks;
pub(crate) mod cluster;
pub(crate) mod endpoint;
pub(crate) mod first_ok;
pub(crate) mod login;
pub(crate) mod sentinel;
pub(crate) mod server;
pub(crate) mod slots;
#[cfg(feature = "tls-rustls")]
pub(crate) mod tls;
