//! Time in the engine. It is always an argument, because the engine has no clock.

use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;

/// A moment on the driver's clock, in microseconds since any origin.
///
/// The driver's clock must never go back, and it must go on while the machine is suspended (`CLOCK_BOOTTIME` on Linux),
/// because leases expire on the server meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

// In WebAssembly, arithmetic and conversions are not inlined. They multiply and divide, and have a hundred callers.
impl Instant {
    /// The moment `micros` microseconds after the clock's origin.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the clock's origin.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The time since `earlier`. Zero if `earlier` is later than this moment.
    #[cfg_attr(target_family = "wasm", inline(never))]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    #[cfg_attr(target_family = "wasm", inline(never))]
    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(micros(by)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    #[cfg_attr(target_family = "wasm", inline(never))]
    fn sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(micros(by)))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}s", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

/// The microseconds of a duration, or `u64::MAX`.
#[cfg_attr(target_family = "wasm", inline(never))]
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The whole milliseconds of a duration, or `u64::MAX`.
#[cfg_attr(target_family = "wasm", inline(never))]
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
