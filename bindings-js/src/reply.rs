//! A server's reply as numbers and one text.

use leasehold_core::{Reply, Scalar};

use crate::number::{integer, whole};

const NIL: f64 = 0.0;
const INTEGER: f64 = 1.0;
const TEXT: f64 = 2.0;

/// Reads a reply. `parts` has two numbers for each scalar: its kind and its value. The value of a text is its length in UTF-16
/// units, as JavaScript counts them; the texts follow each other in `text`.
pub(crate) fn read(list: bool, parts: &[f64], mut text: &str) -> Option<Reply> {
    let (pairs, []) = parts.as_chunks::<2>() else { return None };
    let mut scalars = Vec::with_capacity(pairs.len());
    for [kind, value] in pairs {
        scalars.push(match *kind {
            NIL => Scalar::Nil,
            INTEGER => Scalar::Int(integer(*value)?),
            TEXT => {
                let (head, rest) = text.split_at_checked(bytes_of(text, whole(*value)?)?)?;
                text = rest;
                Scalar::Text(head.as_bytes().to_vec())
            }
            _ => return None,
        });
    }
    match list {
        true => Some(Reply::List(scalars)),
        false => scalars.into_iter().next().map(Reply::One),
    }
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
        for (parts, text) in [
            (&[2.0][..], ""),
            (&[3.0, 0.0], ""),
            (&[1.0, 0.5], ""),
            (&[2.0, 4.0], "abc"),
            (&[2.0, 1.0], "😀"),
            (&[2.0, f64::NAN], "a"),
        ] {
            assert_eq!(read(true, parts, text), None, "{parts:?} {text}");
        }
        assert_eq!(read(false, &[], ""), None);
    }
}
