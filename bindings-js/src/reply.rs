//! A server's reply as a list of numbers and one text.

use alloc::vec::Vec;
use leasehold_core::{Reply, Scalar};

use crate::codes::{Code, ScalarKind};
use crate::number::integer;
use crate::text::Texts;

/// Reads a reply. `list` has two numbers for each scalar: see [`ScalarKind`]. A reply that is no array is its first scalar.
pub(crate) fn read(is_array: bool, list: &[f64], text: &str) -> Option<Reply> {
    let (pairs, []) = list.as_chunks::<2>() else { return None };
    let mut texts = Texts::new(text);
    let mut scalars = Vec::with_capacity(pairs.len());
    for [kind, value] in pairs {
        scalars.push(match ScalarKind::read(*kind)? {
            ScalarKind::Nil => Scalar::Nil,
            ScalarKind::Integer => Scalar::Int(integer(*value)?),
            ScalarKind::Text => Scalar::Text(texts.take(*value)?.as_bytes().to_vec()),
        });
    }
    match is_array {
        true => Some(Reply::List(scalars)),
        false => scalars.into_iter().next().map(Reply::One),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Scalar {
        Scalar::Text(text.as_bytes().to_vec())
    }

    #[test]
    fn a_list_is_read_part_by_part() {
        let reply = read(true, &[2.0, 4.0, 1.0, -1.0, 0.0, 0.0, 2.0, 2.0], "busyok");
        assert_eq!(reply, Some(Reply::List(vec![text("busy"), Scalar::Int(-1), Scalar::Nil, text("ok")])));
        assert_eq!(read(true, &[], ""), Some(Reply::List(vec![])));
        assert_eq!(read(false, &[1.0, 7.0], ""), Some(Reply::One(Scalar::Int(7))));
    }

    #[test]
    fn texts_are_measured_as_javascript_does() {
        let reply = read(true, &[2.0, 3.0, 2.0, 2.0], "a😀éz");
        assert_eq!(reply, Some(Reply::List(vec![text("a😀"), text("éz")])));
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        for (list, text) in [
            (&[2.0][..], ""),
            (&[3.0, 0.0], ""),
            (&[1.0, 0.5], ""),
            (&[2.0, 4.0], "abc"),
            (&[2.0, 1.0], "😀"),
            (&[2.0, f64::NAN], "a"),
        ] {
            assert_eq!(read(true, list, text), None, "{list:?} {text}");
        }
        assert_eq!(read(false, &[], ""), None);
    }
}
