//! A command for a server.

use alloc::vec::Vec;
use core::fmt;

use crate::text::Digits;

/// A command: its words in order, the name first. All words share one buffer, so a driver can copy them cheaply.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Command {
    buffer: Vec<u8>,
    ends: Vec<u32>,
}

impl Command {
    pub(crate) fn with_capacity(bytes: usize, words: usize) -> Self {
        Self { buffer: Vec::with_capacity(bytes), ends: Vec::with_capacity(words) }
    }

    pub(crate) fn push(&mut self, word: &[u8]) {
        self.buffer.extend_from_slice(word);
        self.end_word();
    }

    /// Appends one word that is given in parts.
    pub(crate) fn push_parts(&mut self, parts: &[&str]) {
        self.extend(parts);
        self.end_word();
    }

    /// Begins the next word, or goes on with it.
    pub(crate) fn extend(&mut self, parts: &[&str]) {
        for part in parts {
            self.buffer.extend_from_slice(part.as_bytes());
        }
    }

    pub(crate) fn push_number(&mut self, number: u64) {
        self.push(Digits::of(number).as_bytes());
    }

    fn end_word(&mut self) {
        self.ends.push(u32::try_from(self.buffer.len()).unwrap_or(u32::MAX));
    }

    /// The words in order. The first two are `EVALSHA` and the digest, or `EVAL` and the script. Then come the number
    /// of keys, the keys and the arguments. Without the feature `sources`, both have the beginning of the digest, and the
    /// driver replaces it with the digest or the script's text. The commands without a script have their key as the second word.
    pub fn words(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        (0..self.ends.len()).map(|index| self.word(index))
    }

    /// The word at this position. Empty if there is none.
    fn word(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |end| *end as usize);
        let end = self.ends.get(index).map_or(start, |end| *end as usize);
        self.buffer.get(start..end).unwrap_or_default()
    }

    /// The key that decides which server of a cluster runs the command: the first one, or the channel of a message. None if
    /// it has no key.
    pub fn key(&self) -> Option<&[u8]> {
        if matches!(self.word(0), b"SET" | b"GET" | b"DEL" | b"DELIFEQ" | b"DELEX" | b"PUBLISH") {
            return Some(self.word(1));
        }
        let mut words = self.words().skip(2);
        words.next().filter(|keys| *keys != b"0").and(words.next())
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, word) in self.words().enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            match core::str::from_utf8(word) {
                Ok(text) if text.len() > 100 => f.write_str("<script>")?,
                Ok(text) => f.write_str(text)?,
                Err(_) => f.write_str("<bytes>")?,
            }
        }
        Ok(())
    }
}
