//! Reads an input: lines of words.

use leasehold_core::Scalar;

/// An input with more steps would only take longer.
const MOST_STEPS: usize = 200;

/// A line: what happens, and its arguments.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The first word.
    pub verb: &'a str,
    /// What follows it.
    pub rest: &'a str,
}

/// The arguments of a step.
pub type Words<'a> = std::str::SplitAsciiWhitespace<'a>;

impl<'a> Step<'a> {
    /// The arguments.
    pub fn words(&self) -> Words<'a> {
        self.rest.split_ascii_whitespace()
    }
}

/// The steps of an input. A line that is not UTF-8 is none.
pub fn steps(input: &[u8]) -> impl Iterator<Item = Step<'_>> {
    let lines = input.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
    lines.filter(|line| !line.is_empty()).take(MOST_STEPS).map(|line| {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        Step { verb, rest }
    })
}

/// A word of a reply: `nil`, an integer, or a text. A quote makes a text of what follows it: `"7`.
pub fn scalar(word: &str) -> Scalar {
    if word == "nil" {
        return Scalar::Nil;
    }
    match (word.strip_prefix('"'), word.parse()) {
        (Some(text), _) => Scalar::Text(text.into()),
        (None, Ok(number)) => Scalar::Int(number),
        (None, Err(_)) => Scalar::Text(word.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_step_and_other_bytes_are_none() {
        let read: Vec<_> = steps(b"acquire a\n\xff\n\npass").map(|step| (step.verb, step.rest)).collect();
        assert_eq!(read, [("acquire", "a"), ("pass", "")]);
    }

    #[test]
    fn a_word_is_what_a_server_may_send() {
        assert_eq!(scalar("nil"), Scalar::Nil);
        assert_eq!(scalar("-7"), Scalar::Int(-7));
        assert_eq!(scalar("\"7"), Scalar::Text(b"7".to_vec()));
        assert_eq!(scalar("busy"), Scalar::Text(b"busy".to_vec()));
    }
}
