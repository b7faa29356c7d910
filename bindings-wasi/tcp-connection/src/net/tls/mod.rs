//! TLS, by rustls: what the connection's bytes are on the wire.

mod client;
mod config;
mod problem;
mod random;

pub(super) use client::Tls;
