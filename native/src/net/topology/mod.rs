//! Where the servers are, how to connect to them, and whether they are usable.
//!
//! An [`Endpoint`] is one [`Server`], the primary behind Sentinel, or a cluster. An [`Opening`] connects to it, and compares
//! the server with the [`Requirements`]. [`Access`] makes servers of what the user gave: [`Location`]s, a [`Login`] and certificates. The rest
//! leaves this folder for the links only: a [`Cluster`] with its slots, and the checks of a quorum's [`Member`].

#[cfg(feature = "tls-rustls")]
mod certificates;
mod checks;
mod cluster;
mod connect;
mod endpoint;
mod first_ok;
mod followers;
mod given;
mod login;
mod member;
mod opening;
mod probe;
mod recheck;
mod reports;
mod sentinel;
mod server;
mod slots;

#[cfg(feature = "tls-rustls")]
pub(crate) use certificates::Certificates;
pub(in crate::net) use checks::MemberCheck;
pub(crate) use checks::{QUORUM_FIELD, Requirements};
pub(in crate::net) use cluster::Cluster;
pub(crate) use endpoint::Endpoint;
pub(crate) use given::{Access, Location, no_address};
pub(crate) use login::Login;
pub(crate) use member::Member;
pub(crate) use opening::{Opened, Opening, Source};
pub(crate) use probe::Slots;
pub(in crate::net) use slots::{Address, Redirect};
