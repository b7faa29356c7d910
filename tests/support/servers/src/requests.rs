//! Requests as a server reads them, and replies as it writes them.

use std::io::{self, BufRead};

/// The words of a command.
pub type Words = Vec<Vec<u8>>;

/// One command: `*<n>`, then n times `$<length>` and the word.
///
/// # Errors
/// If the connection has ended, or if this is no command.
pub fn receive(requests: &mut impl BufRead) -> io::Result<Words> {
    let count = length(requests)?;
    (0..count)
        .map(|_| {
            let mut word = vec![0; length(requests)? + 2];
            requests.read_exact(&mut word)?;
            word.truncate(word.len() - 2);
            Ok(word)
        })
        .collect()
}

fn length(requests: &mut impl BufRead) -> io::Result<usize> {
    let mut line = String::new();
    if requests.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    line.trim().trim_start_matches(['*', '$']).parse().map_err(io::Error::other)
}

/// A command, or a reply that is a list of texts.
#[must_use]
pub fn list<T: AsRef<[u8]>>(words: &[T]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    words.iter().for_each(|word| bytes.extend(text(word.as_ref())));
    bytes
}

/// A reply that is a text.
#[must_use]
pub fn text(text: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat()
}

/// Whether a word is this one, in upper or lower case.
#[must_use]
pub fn is(word: Option<&Vec<u8>>, name: &str) -> bool {
    word.is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()))
}
