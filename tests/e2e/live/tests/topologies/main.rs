//! What users rely on with more than one server, or with TLS. Slow tests are ignored by default. `cargo xtask ci`
//! and `cargo xtask test --full` run them.

mod cluster;
mod cluster_moving;
mod cluster_trouble;
mod failover;
mod login;
mod no_clock;
mod quorum_members;
mod replicas;
mod sentinel;
mod tls;
