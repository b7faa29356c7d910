//! The clock that the engine is given.

use leasehold_core::Instant;

use crate::net::Origin;

/// The clock of a client.
#[derive(Clone)]
pub(crate) enum Clock {
    System,
    /// The clock of a server in memory.
    #[cfg(feature = "testing")]
    Testing(crate::net::testing::Clock),
}

impl Clock {
    pub(super) fn of(origin: &Origin) -> Self {
        match origin {
            Origin::Servers(_) | Origin::Pushes(_) => Self::System,
            #[cfg(feature = "testing")]
            Origin::Memory(server) => Self::Testing(server.clock()),
        }
    }

    pub(super) fn now(&self) -> Instant {
        match self {
            Self::System => now(),
            #[cfg(feature = "testing")]
            Self::Testing(clock) => clock.now(),
        }
    }
}

/// The current time of a clock that keeps running while the machine is suspended, because leases expire in that time too.
/// Nobody can set it.
#[cfg(any(
    target_os = "linux",
    target_os = "android",
    target_os = "fuchsia",
    target_os = "openbsd",
    target_vendor = "apple"
))]
pub(crate) fn now() -> Instant {
    use rustix::time::{ClockId, clock_gettime};

    // Apple's monotonic clock is the one that counts a suspension.
    #[cfg(target_vendor = "apple")]
    const CLOCK: ClockId = ClockId::Monotonic;
    #[cfg(not(target_vendor = "apple"))]
    const CLOCK: ClockId = ClockId::Boottime;

    let time = clock_gettime(CLOCK);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Instant::from_micros(seconds.saturating_mul(1_000_000).saturating_add(nanos / 1_000))
}

/// The same. On Windows, the clock of the standard library (`QueryPerformanceCounter`) counts a suspension.
///
/// <https://learn.microsoft.com/en-us/windows/win32/sysinfo/acquiring-high-resolution-time-stamps>
#[cfg(windows)]
pub(crate) fn now() -> Instant {
    use std::sync::LazyLock;
    use std::time::Instant as Monotonic;

    static ORIGIN: LazyLock<Monotonic> = LazyLock::new(Monotonic::now);
    Instant::from_micros(u64::try_from(ORIGIN.elapsed().as_micros()).unwrap_or(u64::MAX))
}

/// The current time. On these platforms, no monotonic clock is sure to count a suspension, so the wall clock decides
/// whether there was one. If the wall clock is set forward, leases end early.
#[cfg(not(any(
    target_os = "linux",
    target_os = "android",
    target_os = "fuchsia",
    target_os = "openbsd",
    target_vendor = "apple",
    windows
)))]
pub(crate) fn now() -> Instant {
    use std::sync::{LazyLock, Mutex, PoisonError};
    use std::time::{Instant as Monotonic, SystemTime, UNIX_EPOCH};

    use leasehold_core::Clock;

    static CLOCK: LazyLock<(Monotonic, Mutex<Clock>)> = LazyLock::new(|| (Monotonic::now(), Mutex::default()));
    let (origin, clock) = &*CLOCK;
    let mut clock = clock.lock().unwrap_or_else(PoisonError::into_inner);
    let monotonic = origin.elapsed();
    clock.now(monotonic, SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_clock_counts_microseconds_and_never_goes_back() {
        let before = super::now();
        std::thread::sleep(std::time::Duration::from_millis(5));
        let passed = super::now().since(before);
        assert!(passed >= std::time::Duration::from_millis(5), "{passed:?}");
        // Not nanoseconds: those would be 5,000 s.
        assert!(passed < std::time::Duration::from_secs(1_000), "{passed:?}");
    }
}
