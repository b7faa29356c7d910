//! Texts without `core::fmt`. With it, the engine's WebAssembly would be larger by 6 kB, and commands slower to write.

use alloc::string::{String, ToString};

/// The decimal digits of a number.
pub(crate) struct Digits {
    digits: [u8; 20],
    start: usize,
}

impl Digits {
    pub(crate) fn of(number: impl Into<u64>) -> Self {
        let (mut digits, mut start, mut rest) = ([b'0'; 20], 20_usize, number.into());
        for digit in digits.iter_mut().rev() {
            *digit = digit.saturating_add(u8::try_from(rest % 10).unwrap_or(0));
            start = start.saturating_sub(1);
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        Self { digits, start }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.digits.get(self.start..).unwrap_or_default()
    }

    pub(crate) fn as_str(&self) -> &str {
        core::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

/// A number that may be negative.
pub(crate) fn signed(number: i64) -> String {
    let digits = Digits::of(number.unsigned_abs());
    if number < 0 { ["-", digits.as_str()].concat() } else { digits.as_str().to_string() }
}

/// Bytes as text. If they are not UTF-8, only the ASCII characters are legible.
pub(crate) fn lossy(bytes: &[u8]) -> String {
    let shown = |byte: &u8| if byte.is_ascii() { char::from(*byte) } else { char::REPLACEMENT_CHARACTER };
    core::str::from_utf8(bytes).map_or_else(|_| bytes.iter().map(shown).collect(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_people_write_them() {
        for number in [0, 7, 10, 99, 1_700_000_000_000_000, u64::MAX] {
            assert_eq!(Digits::of(number).as_str(), number.to_string());
        }
        for number in [0, -1, 42, i64::MIN, i64::MAX] {
            assert_eq!(signed(number), number.to_string());
        }
    }
}
