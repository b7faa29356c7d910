//! Time in the engine. It is always an argument, because the engine has no clock.

use core::fmt;
use core::ops::{Add, Div, Sub};
use core::time;

/// A moment on the driver's clock, in microseconds since any origin.
///
/// The driver's clock must never go back, and it must go on while the machine is suspended (`CLOCK_BOOTTIME` on Linux),
/// because leases expire on the server meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

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
    pub const fn since(self, earlier: Self) -> api::Duration {
        api::Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// The same, for the engine's own arithmetic.
    pub(crate) const fn time_since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Add<time::Duration> for Instant {
    type Output = Self;
    fn add(self, by: time::Duration) -> Self {
        self + Duration::from(by)
    }
}

impl Sub<time::Duration> for Instant {
    type Output = Self;
    fn sub(self, by: time::Duration) -> Self {
        self - Duration::from(by)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by.0))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(by.0))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}s", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

/// The lengths of time in the crate's API.
pub(crate) mod api {
    /// Without the feature `std-times`, the API has the engine's own times, which take less code.
    #[cfg(not(feature = "std-times"))]
    pub use super::Duration;
    #[cfg(feature = "std-times")]
    pub use core::time::Duration;
}

/// A length of time in microseconds, for the engine's own arithmetic. What is too large for it counts as the greatest one.
///
/// The crate's API has the duration of the standard library. Its seconds and nanoseconds take more code and more time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(u64);

impl Duration {
    /// No time.
    pub const ZERO: Self = Self(0);
    /// The greatest time.
    pub const MAX: Self = Self(u64::MAX);

    /// So many microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// So many milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis).saturating_mul(1_000)
    }

    /// So many seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs).saturating_mul(1_000_000)
    }

    /// The microseconds.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The whole milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000
    }

    /// Whether it is no time.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The sum, or the greatest time.
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The rest, or no time.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// So many times as much, or the greatest time.
    #[cfg_attr(target_family = "wasm", inline(never))]
    pub const fn saturating_mul(self, times: u32) -> Self {
        Self(self.0.saturating_mul(times as u64))
    }

    /// The difference, whichever is greater.
    pub const fn abs_diff(self, other: Self) -> Self {
        Self(self.0.abs_diff(other.0))
    }
}

impl Div<u32> for Duration {
    type Output = Self;
    fn div(self, by: u32) -> Self {
        Self(self.0 / u64::from(by))
    }
}

// In WebAssembly, conversions and multiplications are not inlined, because their code is long.
impl From<time::Duration> for Duration {
    #[cfg_attr(target_family = "wasm", inline(never))]
    fn from(time: time::Duration) -> Self {
        Self::from_secs(time.as_secs()).saturating_add(Self(time.subsec_micros().into()))
    }
}

impl From<Duration> for time::Duration {
    #[cfg_attr(target_family = "wasm", inline(never))]
    fn from(time: Duration) -> Self {
        Self::from_micros(time.0)
    }
}

/// The microseconds of a duration, or `u64::MAX`.
pub(crate) fn micros(time: api::Duration) -> u64 {
    Duration::from(time).as_micros()
}

/// The whole milliseconds of a duration, or `u64::MAX` microseconds.
pub fn millis(time: api::Duration) -> u64 {
    Duration::from(time).as_millis()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_too_large_counts_as_the_greatest_one() {
        assert_eq!(Duration::from(time::Duration::MAX), Duration::MAX);
        assert_eq!(Duration::from_millis(u64::MAX), Duration::MAX);
        assert_eq!(Duration::from_secs(u64::MAX / 1_000), Duration::MAX);
        assert_eq!(Duration::from_secs(1).saturating_mul(u32::MAX), Duration::from_secs(u32::MAX.into()));
        assert_eq!(Instant::from_micros(1) + Duration::MAX, Instant::from_micros(u64::MAX));
    }

    #[test]
    fn times_of_the_api_are_read_to_the_microsecond() {
        let time = time::Duration::new(2, 1_999);
        assert_eq!(Duration::from(time).as_micros(), 2_000_001);
        assert_eq!(time::Duration::from(Duration::from(time)), time::Duration::from_micros(2_000_001));
        assert_eq!(Instant::from_micros(5) + time, Instant::from_micros(2_000_006));
    }
}
