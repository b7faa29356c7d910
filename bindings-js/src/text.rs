//! Texts that follow each other in one text, with their lengths in UTF-16 units, as JavaScript counts them.

use crate::number::{number, whole};

/// Takes one text after the other.
pub(crate) struct Texts<'a>(&'a str);

impl<'a> Texts<'a> {
    pub(crate) const fn new(text: &'a str) -> Self {
        Self(text)
    }

    /// The next text. None if that isn't one of this length.
    pub(crate) fn take(&mut self, length: f64) -> Option<&'a str> {
        let (head, rest) = self.0.split_at_checked(bytes_of(self.0, whole(length)?)?)?;
        self.0 = rest;
        Some(head)
    }

    pub(crate) const fn rest(&self) -> &'a str {
        self.0
    }
}

/// The length of a text in UTF-16 units: one for each character, two for one of four bytes.
pub(crate) fn length(text: &[u8]) -> f64 {
    let units = if text.is_ascii() {
        text.len()
    } else {
        text.iter().map(|byte| usize::from(byte & 0xC0 != 0x80) + usize::from(*byte >= 0xF0)).sum()
    };
    number(units as u64)
}

/// How many bytes the first `units` UTF-16 units of `text` take.
fn bytes_of(text: &str, units: u64) -> Option<usize> {
    let units = usize::try_from(units).ok()?;
    if text.as_bytes().get(..units)?.is_ascii() {
        return Some(units);
    }
    let mut counted = 0;
    let mut bytes = 0;
    for character in text.chars() {
        if counted >= units {
            break;
        }
        counted += character.len_utf16();
        bytes += character.len_utf8();
    }
    (counted == units).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_as_long_as_in_javascript() {
        for text in ["", "abc", "é", "ключ", "a😀", "\u{FEFF}漢字\u{1F512}"] {
            let units = text.encode_utf16().count();
            assert_eq!(length(text.as_bytes()), f64::from(u8::try_from(units).unwrap()), "{text}");
            let mut texts = Texts::new(text);
            assert_eq!((texts.take(length(text.as_bytes())), texts.rest()), (Some(text), ""));
        }
    }

    #[test]
    fn no_text_ends_inside_a_character() {
        for (text, length) in [("abc", 4.0), ("😀", 1.0), ("a", f64::NAN), ("a", -1.0)] {
            assert_eq!(Texts::new(text).take(length), None, "{text} {length}");
        }
    }
}
