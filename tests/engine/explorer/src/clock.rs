//! Time: microseconds since the beginning, and what the clients' clocks and the server's clock show then.

use std::time::Duration;

use leasehold_core::Instant;

/// True time since the beginning, in microseconds.
pub(crate) type Micros = u64;

/// What the clients' clocks show at the beginning. It is far from all other numbers, so a fingerprint knows a time when
/// it sees one.
pub(crate) const CLIENT_ORIGIN: u64 = 1_000_000_000_000_000;
/// What the server's clock shows at the beginning.
pub(crate) const SERVER_ORIGIN: u64 = 1_800_000_000_000_000;

/// What the clients' clocks show. All of them run at the same speed.
pub(crate) const fn client(now: Micros) -> Instant {
    Instant::from_micros(CLIENT_ORIGIN + now)
}

/// What the server's clock shows.
pub(crate) const fn server(now: Micros) -> u64 {
    SERVER_ORIGIN + now
}

/// When the clients' clocks show this.
pub(crate) const fn when(at: Instant) -> Micros {
    at.as_micros().saturating_sub(CLIENT_ORIGIN)
}

/// A duration in microseconds.
pub(crate) const fn micros(duration: Duration) -> Micros {
    duration.as_micros() as Micros
}
