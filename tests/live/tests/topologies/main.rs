//! What users rely on where the locks are on more than one server, or behind TLS. What takes long is ignored by default, and
//! runs in `cargo xtask test --full`.

mod cluster;
mod cluster_moving;
mod cluster_trouble;
mod failover;
mod login;
mod replicas;
mod sentinel;
mod tls;
