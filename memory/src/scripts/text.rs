//! The forms of values and records.

use alloc::string::ToString;
use alloc::vec::Vec;

use leasehold_core::Scalar;

/// The greatest whole number that every smaller one is next to in a Lua number.
pub(crate) const GREATEST: i64 = 1 << 53;

/// A value of N: `<holder> <fence>`, with `*` in place of the space if clients wait.
pub(crate) struct Value<'a> {
    pub(crate) holder: &'a [u8],
    pub(crate) marked: bool,
    /// The digits of the fence.
    pub(crate) fence: &'a [u8],
}

impl<'a> Value<'a> {
    /// None if another library wrote it.
    pub(crate) fn read(value: &'a [u8]) -> Option<Self> {
        let at = value.iter().position(|byte| is_separator(*byte)).filter(|at| *at > 0)?;
        let (holder, rest) = value.split_at_checked(at)?;
        let (separator, fence) = rest.split_first()?;
        number(fence)?;
        Some(Self { holder, marked: *separator == b'*', fence })
    }
}

/// The holder in a value of N of any form.
pub(crate) fn holder_of(value: &[u8]) -> &[u8] {
    value.split(|byte| is_separator(*byte)).next().unwrap_or_default()
}

const fn is_separator(byte: u8) -> bool {
    matches!(byte, b' ' | b'*')
}

/// A waiter's record: `<mode> <ttl> <claim window> <block> <callers> <heartbeat's expiry>`. A mode can have spaces.
pub(crate) struct Record {
    pub(crate) mode: Vec<u8>,
    pub(crate) ttl: i64,
    pub(crate) claim: i64,
    pub(crate) block: i64,
    pub(crate) callers: i64,
    pub(crate) expiry: i64,
}

impl Record {
    pub(crate) fn read(record: &[u8]) -> Option<Self> {
        let mut words = record.rsplitn(6, |byte| *byte == b' ');
        let [expiry, callers, block, claim, ttl] = core::array::from_fn(|_| words.next().and_then(number));
        let mode = words.next().filter(|mode| !mode.is_empty())?.to_vec();
        Some(Self { mode, ttl: ttl?, claim: claim?, block: block?, callers: callers?, expiry: expiry? })
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let mut text = self.mode.clone();
        for number in [self.ttl, self.claim, self.block, self.callers, self.expiry] {
            text.push(b' ');
            push_number(&mut text, number);
        }
        text
    }
}

/// What precedes the first white space, as Lua's `%s` has it.
pub(crate) fn first_word(text: &[u8]) -> &[u8] {
    text.split(|byte| matches!(byte, b' ' | 9..=13)).next().unwrap_or_default()
}

/// A whole text of decimal digits. A great number is answered as more than [`GREATEST`].
pub(crate) fn number(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0_i64, |sum, digit| sum.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    Some(value.min(2 * GREATEST))
}

/// The permits and the limit of a semaphore's mode.
pub(crate) fn counts(mode: &[u8]) -> Option<(i64, i64)> {
    let at = mode.iter().position(|byte| *byte == b'/')?;
    Some((number(mode.get(..at)?)?, number(mode.get(at + 1..)?)?))
}

/// The number that a text begins with.
pub(crate) fn leading_number(text: &[u8]) -> Option<i64> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    number(text.get(..end)?)
}

/// The number that a text ends with.
pub(crate) fn trailing_number(text: &[u8]) -> Option<i64> {
    let start = text.iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |at| at + 1);
    number(text.get(start..)?)
}

/// Whether a holder's text is one of our tokens: `<uuid>:<number>`.
pub(crate) fn is_token(holder: &[u8]) -> bool {
    let Some((uuid, rest)) = holder.split_at_checked(36) else { return false };
    let fits = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    uuid.iter().enumerate().all(fits)
        && rest.split_first().is_some_and(|(colon, digits)| *colon == b':' && number(digits).is_some())
}

/// The client of one of our tokens.
pub(crate) fn client_of(token: &[u8]) -> &[u8] {
    token.split(|byte| *byte == b':').next().unwrap_or_default()
}

pub(crate) fn push_number(text: &mut Vec<u8>, number: i64) {
    text.extend_from_slice(number.to_string().as_bytes());
}

pub(crate) fn number_text(number: i64) -> Vec<u8> {
    number.to_string().into_bytes()
}

/// An element of an answer.
pub(crate) fn word(text: &str) -> Scalar {
    Scalar::Text(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_another_library_is_no_holder_and_fence() {
        assert!(Value::read(b"shared 5").is_some_and(|value| !value.marked && value.fence == b"5"));
        assert!(Value::read(b"shared*5").is_some_and(|value| value.marked));
        for foreign in [&b"somebody"[..], b"", b" 5", b"a ", b"a b 5", b"a 5x"] {
            assert!(Value::read(foreign).is_none(), "{foreign:?}");
        }
    }

    #[test]
    fn a_record_has_a_mode_and_five_numbers() {
        let record = Record::read(b"exclusive 30000 3000 1 4 1800000000000").map(|record| record.write());
        assert_eq!(record.as_deref(), Some(&b"exclusive 30000 3000 1 4 1800000000000"[..]));
        assert!(Record::read(b"leader a b 1 2 3 4 5").is_some_and(|record| record.mode == b"leader a b"));
        for wrong in [&b"30000 3000 1 4 1800000000000"[..], b" 1 2 3 4 5", b"a 1 2 3 4 x", b""] {
            assert!(Record::read(wrong).is_none(), "{wrong:?}");
        }
    }
}
