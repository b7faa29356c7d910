//! The server's replies.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::text::{lossy, signed};

/// An element of a reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// A null reply.
    Nil,
    /// An integer.
    Int(i64),
    /// A simple or bulk string.
    Text(Vec<u8>),
}

/// The reply to a command. Replies are flat, because the scripts return no nested lists.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// A single value.
    One(Scalar),
    /// A flat list.
    List(Vec<Scalar>),
}

impl Reply {
    /// For messages: the first elements of the reply, each shortened to fit on a line.
    pub(crate) fn shown(&self) -> String {
        const WORDS: usize = 8;
        const BYTES: usize = 40;
        let words = match self {
            Self::One(word) => core::slice::from_ref(word),
            Self::List(words) => words,
        };
        let mut shown = String::new();
        for (place, word) in words.iter().enumerate() {
            if place > 0 {
                shown.push_str(", ");
            }
            match word {
                _ if place == WORDS => {
                    shown.push_str("..");
                    break;
                }
                Scalar::Nil => shown.push_str("nil"),
                Scalar::Int(number) => shown.push_str(&signed(*number)),
                Scalar::Text(text) => {
                    let (begin, more) = text.get(..BYTES).map_or((text.as_slice(), "\""), |begin| (begin, "..\""));
                    shown.push('"');
                    shown.push_str(&lossy(begin));
                    shown.push_str(more);
                }
            }
        }
        if shown.is_empty() { "nothing".into() } else { shown }
    }
}

/// For messages: the first elements of the reply, each shortened to fit on a line.
impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;

    use super::{Reply, Scalar};

    #[test]
    fn a_message_shows_what_a_server_answered_and_not_all_of_it() {
        let text = |text: &str| Scalar::Text(text.as_bytes().to_vec());
        assert_eq!(
            Reply::List(vec![text("entered"), Scalar::Int(-1), Scalar::Nil]).to_string(),
            "\"entered\", -1, nil"
        );
        assert_eq!(Reply::List(vec![]).to_string(), "nothing");
        let long = Reply::List(vec![text(&"x".repeat(1 << 20)); 1_000]).to_string();
        assert!(long.starts_with("\"xxx") && long.ends_with("..\", ..") && long.len() < 500, "{long}");
    }
}
