//! Fuzz targets: the bytes of a server, and the address that an application gives.

use super::address::{Address, Credentials};
use super::resp::{Parsed, Parser, encode};
use crate::bindings::exports::leasehold::lock::connection::Value;

/// How many random inputs a test tries after its corpus.
const RANDOM: usize = 200;
/// The limits that the parser documents.
const MAX_REPLY: usize = 4 << 20;
const MAX_DEPTH: usize = 8;

/// The replies in a stream do not depend on how it is split. They are those of a second, simpler reading of the
/// protocol. Announced lengths take no memory. The first byte of an input is the size of the pieces.
#[test]
fn resp() {
    bolero::check!(name = "resp").with_iterations(RANDOM).for_each(|input| {
        let Some((size, bytes)) = input.split_first() else { return };
        let whole = parsed(bytes, bytes.len().max(1));
        assert_eq!(whole, parsed(bytes, 1), "one byte at a time");
        assert_eq!(whole, parsed(bytes, usize::from(*size) + 1), "{} bytes at a time", usize::from(*size) + 1);
        assert_eq!(whole, expected(bytes), "not what the protocol says");

        let words: Vec<&[u8]> = bytes.split(|byte| *byte == b' ').collect();
        let command = parsed(&encode(&words), 7);
        let texts = words.iter().map(|word| Value::Text(word.to_vec())).collect();
        assert_eq!(command, (vec![shown(&Parsed::Array(texts))], false), "a command is an array of its words");
    });
}

/// Any text is an address or an error. An address that is written out again is the same.
#[test]
fn addresses() {
    bolero::check!(name = "addresses").with_iterations(RANDOM).for_each(|input| {
        let text = String::from_utf8_lossy(input);
        let Ok(address) = Address::parse(&text) else { return };
        let Address { host, port, database, credentials, .. } = &address;
        assert!(!host.is_empty() && *port != 0, "{text}: {address:?}");
        let login = credentials.as_ref().map_or(String::new(), |Credentials { user, password }| {
            assert!(user.is_some() || !password.is_empty(), "{text}: no credentials are none");
            format!("{}:{}@", escaped(user.as_deref().unwrap_or_default()), escaped(password))
        });
        let again = format!("redis://{login}[{host}]:{port}/{database}");
        // A host in brackets ends at the first one, and one without them at a colon.
        if !host.contains(']') {
            assert_eq!(Address::parse(&again).as_ref(), Ok(&address), "{text} and {again}");
        }
    });
}

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// The replies as texts, and whether an error ended them.
fn parsed(bytes: &[u8], size: usize) -> (Vec<String>, bool) {
    let mut parser = Parser::default();
    let (mut replies, mut fed) = (Vec::new(), 0);
    for piece in bytes.chunks(size) {
        parser.feed(piece);
        fed += piece.len();
        loop {
            match parser.next() {
                Ok(Some(reply)) => replies.push(shown(&reply)),
                Ok(None) => break,
                Err(_) => return (replies, true),
            }
        }
        assert!(parser.memory() <= 4_096 + 64 * fed, "{} bytes of memory for {fed} bytes", parser.memory());
    }
    (replies, false)
}

fn shown(reply: &Parsed) -> String {
    format!("{reply:?}")
}

/// The same by recursion over all bytes at once.
fn expected(bytes: &[u8]) -> (Vec<String>, bool) {
    let (mut replies, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        let mut reading = Reading { rest, whole: rest.len() };
        match reading.reply(0) {
            Ok(reply) => replies.push(shown(&reply)),
            Err(end) => return (replies, end == End::Invalid),
        }
        rest = reading.rest;
    }
    (replies, false)
}

#[derive(PartialEq)]
enum End {
    /// More bytes must come.
    Incomplete,
    Invalid,
}

struct Reading<'a> {
    rest: &'a [u8],
    whole: usize,
}

impl<'a> Reading<'a> {
    fn reply(&mut self, depth: usize) -> Result<Parsed, End> {
        let line = self.line()?;
        let (kind, text) = line.split_first().ok_or(End::Invalid)?;
        let single = |value| Ok(Parsed::Single(value));
        match (kind, number(text)) {
            (b'+', _) => single(Value::Text(text.to_vec())),
            (b'-', _) => Ok(Parsed::Error(String::from_utf8_lossy(text).into_owned())),
            (b':', Some(number)) => single(Value::Integer(number)),
            (b'$' | b'*', Some(-1)) => single(Value::Nil),
            (b'$', Some(length)) => single(Value::Text(self.string(length)?.to_vec())),
            (b'*', Some(length)) => self.array(length, depth),
            _ => Err(End::Invalid),
        }
    }

    fn line(&mut self) -> Result<&'a [u8], End> {
        let end = self.rest.iter().position(|byte| *byte == b'\r').ok_or(End::Incomplete)?;
        let (line, after) = self.rest.split_at(end);
        self.rest = ended(after)?;
        Ok(line)
    }

    fn string(&mut self, length: i64) -> Result<&'a [u8], End> {
        let read = self.whole - self.rest.len();
        let length = usize::try_from(length).ok().filter(|length| read + length <= MAX_REPLY).ok_or(End::Invalid)?;
        let (text, after) = self.rest.split_at_checked(length).ok_or(End::Incomplete)?;
        self.rest = ended(after)?;
        Ok(text)
    }

    fn array(&mut self, length: i64, depth: usize) -> Result<Parsed, End> {
        let length = usize::try_from(length).ok().filter(|length| *length <= MAX_REPLY / 3).ok_or(End::Invalid)?;
        if length > 0 && depth >= MAX_DEPTH {
            return Err(End::Invalid);
        }
        let mut values = Some(Vec::new());
        for _ in 0..length {
            match (self.reply(depth + 1)?, &mut values) {
                (Parsed::Single(value), Some(values)) => values.push(value),
                (Parsed::Single(_), None) => {}
                _ => values = None,
            }
        }
        Ok(values.map_or(Parsed::Nested, Parsed::Array))
    }
}

/// What follows a line end.
fn ended(bytes: &[u8]) -> Result<&[u8], End> {
    match bytes {
        [b'\r', b'\n', rest @ ..] => Ok(rest),
        [] | [b'\r'] => Err(End::Incomplete),
        _ => Err(End::Invalid),
    }
}

fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
