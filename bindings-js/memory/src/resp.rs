//! Replies and messages as bytes, in the protocol of Redis.

use alloc::vec::Vec;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_written_as_a_server_writes_them() {
        let mut to = Vec::new();
        write_reply(&mut to, &Reply::List(vec![Scalar::Int(-7), Scalar::Nil, Scalar::Text(b"a\r\n".to_vec())]));
        write_reply(&mut to, &Reply::List(vec![]));
        write_error(&mut to, "ERR two\nlines");
        assert_eq!(to, b"*3\r\n:-7\r\n$-1\r\n$3\r\na\r\n\r\n*0\r\n-ERR two lines\r\n");
    }
}
