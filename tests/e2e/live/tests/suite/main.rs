//! What users rely on, on real servers.

mod acl;
mod bad_input;
mod breaks;
mod connecting;
mod contention;
mod crashes;
mod data_loss;
mod eviction;
mod force;
mod foreign;
mod keys;
mod leaks;
mod leases;
mod lingering;
mod load;
mod losses;
mod memory;
mod outages;
mod pauses;
mod readers;
mod reentrant;
mod semaphore;
mod several;
mod spans;
mod waiting;
mod wrong_kind;
