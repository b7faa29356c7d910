//! Checked conversions between JavaScript's numbers and the engine's.

use leasehold_core::Duration;

/// The greatest integer that JavaScript represents exactly (`Number.MAX_SAFE_INTEGER`).
const MAX: f64 = 9_007_199_254_740_991.0;

/// A whole number, 0 or greater.
pub(crate) fn whole(number: f64) -> Option<u64> {
    truncated(number).filter(|whole| self::number(*whole) == number)
}

/// A number that the engine told before, or a time. Anything else becomes the nearest whole number.
#[cfg(not(feature = "quorum"))]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
pub(crate) const fn told(number: f64) -> u64 {
    number as u64
}

/// A number, 0 or greater, without what is behind the point.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
fn truncated(number: f64) -> Option<u64> {
    (0.0..=MAX).contains(&number).then_some(number as u64)
}

/// A whole number, positive or negative.
pub(crate) fn integer(number: f64) -> Option<i64> {
    let size = i64::try_from(whole(if number < 0.0 { -number } else { number })?).ok()?;
    Some(if number < 0.0 { -size } else { size })
}

/// A whole number that fits in a smaller type.
pub(crate) fn small<T: TryFrom<u64>>(number: f64) -> Option<T> {
    T::try_from(whole(number)?).ok()
}

/// The reading of a clock in milliseconds, to the microsecond. A time before the clock's origin counts as the origin.
pub(crate) fn reading(millis: f64) -> Option<Duration> {
    if millis < 0.0 { Some(Duration::ZERO) } else { truncated(millis * 1000.0 + 0.5).map(Duration::from_micros) }
}

/// A duration in milliseconds, rounded to the microsecond.
pub(crate) fn duration(millis: f64) -> Option<Duration> {
    let whole = truncated(millis)?;
    let micros = truncated((millis - number(whole)) * 1000.0 + 0.5)?;
    Some(Duration::from_millis(whole).saturating_add(Duration::from_micros(micros)))
}

/// Converts a number of the engine for JavaScript. It is exact up to 2^53; ids, times and fences stay below that.
#[expect(clippy::cast_precision_loss, reason = "numbers above 2^53 don't occur")]
pub(crate) const fn number(value: u64) -> f64 {
    value as f64
}

/// A duration in whole milliseconds, rounded down.
#[inline(never)] // Every answer has some durations, and the code for a division is long.
pub(crate) fn millis(duration: Duration) -> f64 {
    number(leasehold_core::millis(duration))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_of_the_kind_is_refused() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.5, MAX + 1.0] {
            assert_eq!(whole(bad), None, "{bad}");
        }
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.5, -MAX - 1.0] {
            assert_eq!(integer(bad), None, "{bad}");
        }
        for bad in [f64::NAN, f64::INFINITY, -0.5, -1.0, MAX + 1.0] {
            assert_eq!(duration(bad), None, "{bad}");
        }
        for bad in [f64::NAN, f64::INFINITY, MAX] {
            assert_eq!(reading(bad), None, "{bad}");
        }
        assert_eq!(small::<u16>(65_536.0), None);
    }

    #[test]
    fn what_fits_is_exact() {
        assert_eq!(whole(MAX), Some(9_007_199_254_740_991));
        assert_eq!(integer(-3.0), Some(-3));
        assert_eq!(reading(1.75), Some(Duration::from_micros(1_750)));
        assert_eq!(reading(1_001.001), Some(Duration::from_micros(1_001_001)));
        assert_eq!(reading(1_800_000_000_000.0), Some(Duration::from_secs(1_800_000_000)));
        assert_eq!(reading(-1.0), Some(Duration::ZERO));
        assert_eq!(duration(1.5), Some(Duration::from_micros(1_500)));
        assert_eq!(duration(0.0), Some(Duration::ZERO));
        assert_eq!(duration(MAX), Some(Duration::from_millis(9_007_199_254_740_991)));
        assert_eq!(millis(Duration::from_micros(1_999)), 1.0);
    }
}
