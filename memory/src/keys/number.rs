//! Numbers in the server's format.

use alloc::string::ToString;
use alloc::vec::Vec;
use core::str::FromStr;

use super::sorted_set::Bound;
use crate::answer::Refusal;

pub(crate) fn integer(word: &[u8]) -> Result<i64, Refusal> {
    let digits = word.strip_prefix(b"-").unwrap_or(word);
    let plain = word == b"0" || matches!(digits.first(), Some(b'1'..=b'9'));
    parse(word).filter(|_| plain).ok_or(Refusal::NOT_AN_INTEGER)
}

pub(crate) fn float(word: &[u8]) -> Result<f64, Refusal> {
    parse(word).filter(|number: &f64| !number.is_nan()).ok_or(Refusal::NOT_A_FLOAT)
}

/// Parses a score. A `(` before it makes the bound exclusive.
pub(crate) fn bound(word: &[u8]) -> Result<Bound, Refusal> {
    let (exclusive, score) = match word.strip_prefix(b"(") {
        Some(score) => (true, score),
        None => (false, word),
    };
    let score = float(score).map_err(|_| Refusal::new("ERR min or max is not a float"))?;
    Ok(Bound { score, exclusive })
}

pub(crate) fn score_text(score: f64) -> Vec<u8> {
    if score.is_infinite() {
        return if score > 0.0 { b"inf".to_vec() } else { b"-inf".to_vec() };
    }
    if score.abs() < 1e17 && score as i64 as f64 == score {
        return (score as i64).to_string().into_bytes();
    }
    score.to_string().into_bytes()
}

fn parse<T: FromStr>(word: &[u8]) -> Option<T> {
    core::str::from_utf8(word).ok()?.parse().ok()
}
