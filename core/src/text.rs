//! Texts without `core::fmt`. With it, the engine's WebAssembly would be larger by 6 kB, and commands slower to write.

use alloc::string::{String, ToString};

/// The decimal digits of a number.
pub(crate) struct Digits {
    digits: [u8; 20],
    start: usize,
}

impl Digits {
    pub(crate) fn of(number: impl Into<u64>) -> Self {
        Self::of_number(number.into())
    }

    fn of_number(mut rest: u64) -> Self {
        let (mut digits, mut start) = ([b'0'; 20], 20_usize);
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

/// What `String::from_utf8_lossy` gives, in less code.
pub(crate) fn replaced(mut bytes: &[u8]) -> String {
    let mut text = String::new();
    loop {
        let (valid, next) = match core::str::from_utf8(bytes) {
            Ok(rest) => return text + rest,
            Err(error) => (error.valid_up_to(), error.error_len()),
        };
        text.push_str(bytes.get(..valid).and_then(|valid| core::str::from_utf8(valid).ok()).unwrap_or_default());
        text.push(char::REPLACEMENT_CHARACTER);
        let Some(length) = next else { return text };
        bytes = bytes.get(valid.saturating_add(length)..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_utf8_is_replaced_as_the_standard_library_does() {
        for bytes in [
            &b""[..],
            b"abc",
            "ключ 😀".as_bytes(),
            b"a\xffb\xc3\x28c",
            b"\xf0\x9f\x98",
            b"x\xe2\x82",
            b"\xed\xa0\x80y",
            b"\xff\xff",
        ] {
            assert_eq!(replaced(bytes), String::from_utf8_lossy(bytes), "{bytes:?}");
        }
    }

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
