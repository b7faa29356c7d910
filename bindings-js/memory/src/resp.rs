//! Replies and messages as bytes, in the protocol of Redis.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::str;

use leasehold_core::{Reply, Scalar};

pub(crate) fn write_reply(to: &mut Vec<u8>, reply: &Reply) {
    match reply {
        Reply::One(scalar) => write_scalar(to, scalar),
        Reply::List(scalars) => {
            write_line(to, b'*', scalars.len() as i64);
            for scalar in scalars {
                write_scalar(to, scalar);
            }
        }
    }
}

pub(crate) fn write_scalar(to: &mut Vec<u8>, scalar: &Scalar) {
    match scalar {
        Scalar::Nil => write_line(to, b'$', -1),
        Scalar::Int(number) => write_line(to, b':', *number),
        Scalar::Text(bytes) => {
            write_line(to, b'$', bytes.len() as i64);
            to.extend_from_slice(bytes);
            to.extend_from_slice(b"\r\n");
        }
    }
}

/// An error is one line, so line breaks in its text become spaces.
pub(crate) fn write_error(to: &mut Vec<u8>, text: &str) {
    to.push(b'-');
    to.extend(text.bytes().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
    to.extend_from_slice(b"\r\n");
}

fn write_line(to: &mut Vec<u8>, kind: u8, number: i64) {
    to.push(kind);
    to.extend_from_slice(alloc::format!("{number}\r\n").as_bytes());
}

/// Reads replies and error texts. Ends at the first bytes that are none.
pub(crate) fn read_replies(mut from: &[u8]) -> Vec<Result<Reply, String>> {
    core::iter::from_fn(|| read_reply(&mut from)).collect()
}

fn read_reply(from: &mut &[u8]) -> Option<Result<Reply, String>> {
    match from.split_first()? {
        (b'-', _) => Some(Err(str::from_utf8(read_line(from)?.get(1..)?).ok()?.to_owned())),
        (b'*', _) => {
            let count = number(read_line(from)?)?;
            let items: Option<Vec<Scalar>> = (0..count).map(|_| read_scalar(from)).collect();
            Some(Ok(Reply::List(items?)))
        }
        _ => read_scalar(from).map(Reply::One).map(Ok),
    }
}

fn read_scalar(from: &mut &[u8]) -> Option<Scalar> {
    let line = read_line(from)?;
    let number = number(line)?;
    match line.first()? {
        b':' => Some(Scalar::Int(number)),
        b'$' if number < 0 => Some(Scalar::Nil),
        b'$' => {
            let (text, rest) = from.split_at_checked(usize::try_from(number).ok()?)?;
            *from = rest.strip_prefix(b"\r\n")?;
            Some(Scalar::Text(text.to_vec()))
        }
        _ => None,
    }
}

fn read_line<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = from.windows(2).position(|pair| pair == b"\r\n")?;
    let (line, rest) = from.split_at_checked(end)?;
    *from = rest.get(2..)?;
    Some(line)
}

/// The number after the first byte.
fn number(line: &[u8]) -> Option<i64> {
    str::from_utf8(line.get(1..)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_as_they_were_written() {
        let replies = [
            Reply::One(Scalar::Nil),
            Reply::List(vec![Scalar::Int(-7), Scalar::Text(b"a\r\n".to_vec())]),
            Reply::List(vec![]),
        ];
        let mut bytes = Vec::new();
        replies.iter().for_each(|reply| write_reply(&mut bytes, reply));
        write_error(&mut bytes, "ERR no");
        bytes.extend(b"*2\r\n:1\r\n");
        let read: Vec<_> = replies.into_iter().map(Ok).chain([Err("ERR no".to_owned())]).collect();
        assert_eq!(read_replies(&bytes), read, "and a list without its end is nothing");
    }

    #[test]
    fn replies_are_written_as_a_server_writes_them() {
        let mut to = Vec::new();
        write_reply(&mut to, &Reply::List(vec![Scalar::Int(-7), Scalar::Nil, Scalar::Text(b"a\r\n".to_vec())]));
        write_reply(&mut to, &Reply::List(vec![]));
        write_error(&mut to, "ERR two\nlines");
        assert_eq!(to, b"*3\r\n:-7\r\n$-1\r\n$3\r\na\r\n\r\n*0\r\n-ERR two lines\r\n");
    }
}
