//! Redis's protocol, version 2 (RESP2). The parser is strict and takes bounded memory: whatever a server sends becomes a
//! reply or an error.
//!
//! <https://redis.io/docs/latest/develop/reference/protocol-spec/>

use crate::bindings::exports::leasehold::lock::connection::Value;

/// The most bytes of one reply. `inspect` returns about this much for a lock with ten thousand waiters.
const MAX_REPLY: usize = 4 << 20;
/// The longest line. An error's text is one line.
const MAX_LINE: usize = 64 << 10;
/// How deep arrays may be nested. The scripts' replies are flat.
const MAX_DEPTH: usize = 8;
/// The fewest bytes that a value takes.
const MIN_VALUE: usize = 3;

/// The bytes of a command: an array of its words.
pub(crate) fn encode<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words.iter().map(AsRef::as_ref) {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// A whole reply.
#[derive(Debug)]
pub(crate) enum Parsed {
    Single(Value),
    Array(Vec<Value>),
    /// An error of the server. Its text begins with the code word.
    Error(String),
    /// An array that is not flat.
    Nested,
}

/// The bytes are not a reply, so the parser can't read what follows either.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) String);

/// Takes bytes as they arrive, and returns replies.
#[derive(Debug, Default)]
pub(super) struct Parser {
    bytes: Vec<u8>,
    /// The bytes before this index are parsed.
    read: usize,
    /// There is no line end before this index.
    searched: usize,
    /// How many bytes of the current reply are parsed.
    reply_bytes: usize,
    /// A string of this length comes next.
    string: Option<usize>,
    array: Option<Array>,
}

#[derive(Debug)]
struct Array {
    /// How many values are still missing in each open array. The outermost array is first.
    missing: Vec<usize>,
    values: Vec<Value>,
    flat: bool,
}

enum Element {
    Value(Value),
    Error(String),
    Array(usize),
}

impl Parser {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.read);
        self.searched = self.searched.saturating_sub(self.read);
        self.read = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next reply. None until more bytes arrive.
    pub(super) fn next(&mut self) -> Result<Option<Parsed>, Malformed> {
        while let Some(element) = self.element()? {
            if let Some(reply) = self.add(element)? {
                self.reply_bytes = 0;
                return Ok(Some(reply));
            }
        }
        Ok(None)
    }

    fn element(&mut self) -> Result<Option<Element>, Malformed> {
        if let Some(length) = self.string {
            return self.string(length);
        }
        let Some(line) = self.line()? else { return Ok(None) };
        let Some((kind, text)) = line.split_first() else { return Err(malformed("an empty line")) };
        match kind {
            b'+' => Ok(Some(Element::Value(Value::Text(text.to_vec())))),
            b'-' => Ok(Some(Element::Error(String::from_utf8_lossy(text).into_owned()))),
            b':' => Ok(Some(Element::Value(Value::Integer(number(text)?)))),
            b'$' => match length(text)? {
                None => Ok(Some(Element::Value(Value::Nil))),
                Some(length) if self.reply_bytes.saturating_add(length) <= MAX_REPLY => {
                    self.string = Some(length);
                    self.string(length)
                }
                Some(length) => Err(malformed(&format!("a string of {length} bytes"))),
            },
            b'*' => match length(text)? {
                None => Ok(Some(Element::Value(Value::Nil))),
                Some(length) if length <= MAX_REPLY / MIN_VALUE => Ok(Some(Element::Array(length))),
                Some(length) => Err(malformed(&format!("an array of {length} values"))),
            },
            _ => Err(malformed(&format!("`{}`", excerpt(&line)))),
        }
    }

    /// The rest of a string, after its length.
    fn string(&mut self, length: usize) -> Result<Option<Element>, Malformed> {
        let rest = self.bytes.get(self.read..).unwrap_or_default();
        let Some((text, after)) = rest.split_at_checked(length) else { return Ok(None) };
        match after {
            [b'\r', b'\n', ..] => {
                let text = text.to_vec();
                self.string = None;
                self.advance(length.saturating_add(2))?;
                Ok(Some(Element::Value(Value::Text(text))))
            }
            [] | [b'\r'] => Ok(None),
            _ => Err(malformed("a string that is longer than announced")),
        }
    }

    /// A line without its end.
    fn line(&mut self) -> Result<Option<Vec<u8>>, Malformed> {
        let from = self.searched.max(self.read);
        let unsearched = self.bytes.get(from..).unwrap_or_default();
        let end = unsearched.iter().position(|byte| *byte == b'\r').map(|at| from.saturating_add(at));
        let so_far = end.unwrap_or(self.bytes.len()).saturating_sub(self.read);
        if so_far > MAX_LINE {
            return Err(malformed("a line that is too long"));
        }
        let Some(end) = end else {
            self.searched = self.bytes.len();
            return Ok(None);
        };
        self.searched = end;
        match self.bytes.get(end.saturating_add(1)) {
            None => Ok(None),
            Some(b'\n') => {
                let line = self.bytes.get(self.read..end).unwrap_or_default().to_vec();
                self.advance(line.len().saturating_add(2))?;
                Ok(Some(line))
            }
            Some(_) => Err(malformed("a line that does not end with CR LF")),
        }
    }

    fn advance(&mut self, length: usize) -> Result<(), Malformed> {
        self.read = self.read.saturating_add(length);
        self.reply_bytes = self.reply_bytes.saturating_add(length);
        // The line end after the last string doesn't count.
        if self.reply_bytes <= MAX_REPLY.saturating_add(2) {
            Ok(())
        } else {
            Err(malformed("a reply that is too long"))
        }
    }

    /// Adds a value to its reply. Returns the reply if that completes it.
    fn add(&mut self, element: Element) -> Result<Option<Parsed>, Malformed> {
        let Some(array) = &mut self.array else {
            return Ok(match element {
                Element::Value(value) => Some(Parsed::Single(value)),
                Element::Error(text) => Some(Parsed::Error(text)),
                Element::Array(0) => Some(Parsed::Array(Vec::new())),
                Element::Array(length) => {
                    self.array = Some(Array { missing: vec![length], values: Vec::new(), flat: true });
                    None
                }
            });
        };
        match element {
            Element::Value(value) => {
                if array.flat {
                    array.values.push(value);
                }
                array.count_value();
            }
            Element::Error(_) | Element::Array(0) => {
                array.mark_nested();
                array.count_value();
            }
            Element::Array(_) if array.missing.len() >= MAX_DEPTH => {
                return Err(malformed("arrays that are nested too deeply"));
            }
            Element::Array(length) => {
                array.mark_nested();
                array.missing.push(length);
            }
        }
        if !array.missing.is_empty() {
            return Ok(None);
        }
        Ok(self.array.take().map(|array| if array.flat { Parsed::Array(array.values) } else { Parsed::Nested }))
    }
}

#[cfg(test)]
impl Parser {
    /// How many bytes of memory it holds at most.
    pub(super) fn memory(&self) -> usize {
        let values = self.array.as_ref().map_or(0, |array| array.values.capacity());
        self.bytes.capacity() + values * size_of::<Value>()
    }
}

impl Array {
    /// Drops the values, because only flat arrays are returned.
    fn mark_nested(&mut self) {
        self.flat = false;
        self.values = Vec::new();
    }

    /// Counts one more value, and closes all arrays that end with it.
    fn count_value(&mut self) {
        while let Some(missing) = self.missing.last_mut() {
            *missing = missing.saturating_sub(1);
            if *missing > 0 {
                return;
            }
            self.missing.pop();
        }
    }
}

fn number(text: &[u8]) -> Result<i64, Malformed> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| malformed(&format!("the number `{}`", excerpt(text))))
}

/// None if the value is null.
fn length(text: &[u8]) -> Result<Option<usize>, Malformed> {
    match number(text)? {
        -1 => Ok(None),
        length => usize::try_from(length).map(Some).map_err(|_| malformed(&format!("the length {length}"))),
    }
}

fn malformed(what: &str) -> Malformed {
    Malformed(format!("the server does not speak Redis's protocol: it sent {what}"))
}

/// The first bytes, for an error message.
fn excerpt(bytes: &[u8]) -> String {
    bytes.iter().take(40).map(|byte| byte.escape_ascii().to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All replies in these bytes as texts, and the error at the end.
    fn parsed(bytes: &[u8], pieces: usize) -> (Vec<String>, Option<Malformed>) {
        let mut parser = Parser::default();
        let mut replies = Vec::new();
        for piece in bytes.chunks(pieces) {
            parser.feed(piece);
            loop {
                match parser.next() {
                    Ok(Some(reply)) => replies.push(format!("{reply:?}")),
                    Ok(None) => break,
                    Err(malformed) => return (replies, Some(malformed)),
                }
            }
        }
        (replies, None)
    }

    #[test]
    fn a_command_is_an_array_of_its_words() {
        assert_eq!(encode(&[b"GET".as_slice(), b"", b"\r\n"]), b"*3\r\n$3\r\nGET\r\n$0\r\n\r\n$2\r\n\r\n\r\n");
    }

    #[test]
    fn replies_are_parsed_from_pieces_of_any_size() {
        let bytes = b"+OK\r\n-ERR no\r\n:-12\r\n$5\r\nhe\r\nl\r\n$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n\
            *3\r\n:1\r\n$-1\r\n+x\r\n*2\r\n*1\r\n*0\r\n:5\r\n*1\r\n-ERR\r\n+after\r\n";
        let (whole, end) = parsed(bytes, bytes.len());
        assert_eq!(end, None);
        let single = |value: Value| format!("{:?}", Parsed::Single(value));
        let text = |text: &str| Value::Text(text.into());
        assert_eq!(whole[0], single(text("OK")));
        assert_eq!(whole[1], format!("{:?}", Parsed::Error("ERR no".into())));
        assert_eq!(whole[2], single(Value::Integer(-12)));
        assert_eq!(whole[3], single(text("he\r\nl")));
        assert_eq!(whole[4], single(text("")));
        assert_eq!(whole[5..7], [single(Value::Nil), single(Value::Nil)]);
        assert_eq!(whole[7], format!("{:?}", Parsed::Array(vec![])));
        assert_eq!(whole[8], format!("{:?}", Parsed::Array(vec![Value::Integer(1), Value::Nil, text("x")])));
        assert_eq!(whole[9..], ["Nested".to_owned(), "Nested".to_owned(), single(text("after"))]);
        for pieces in 1..bytes.len() {
            assert_eq!(parsed(bytes, pieces), (whole.clone(), None), "{pieces} bytes at a time");
        }
    }

    #[test]
    fn invalid_bytes_are_an_error_at_once() {
        let wrong: [&[u8]; 17] = [
            b"HTTP/1.1 400 Bad Request\r\n",
            b"\r\n",
            b"\n",
            b":\r\n",
            b":1 \r\n",
            b":9223372036854775808\r\n",
            b"+OK\rno",
            b"$2\r\nabc\r\n",
            b"$-2\r\n",
            b"$x\r\n",
            b"$4194305\r\n",
            b"$9223372036854775807\r\n",
            b"*-2\r\n",
            b"*1000000000\r\n",
            b"%1\r\n+a\r\n+b\r\n",
            b"_\r\n",
            b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
        ];
        for bytes in wrong {
            let (replies, end) = parsed(bytes, 1);
            assert_eq!(replies, [""; 0], "{}", excerpt(bytes));
            // A lone line feed is the beginning of a line that may still end.
            assert!(end.is_some() || bytes == b"\n", "{}", excerpt(bytes));
        }
    }

    #[test]
    fn lines_and_arrays_without_an_end_are_errors() {
        let mut parser = Parser::default();
        parser.feed(&vec![b'+'; MAX_LINE + 2]);
        assert!(parser.next().is_err());
        let mut parser = Parser::default();
        parser.feed(b"*1000000\r\n");
        let string = encode(&[&[b'x'; 1000][..]]);
        // Without the array header, this is one string of a reply.
        let string = &string[4..];
        let fed = (0..10_000).take_while(|_| {
            parser.feed(string);
            parser.next().is_ok()
        });
        assert_eq!(fed.count(), MAX_REPLY / string.len(), "strings of the array that were read");
    }

    #[test]
    fn the_announced_length_of_an_array_takes_no_memory() {
        let mut parser = Parser::default();
        parser.feed(b"*1000000\r\n");
        assert!(matches!(parser.next(), Ok(None)));
        assert_eq!(parser.array.as_ref().map(|array| array.values.capacity()), Some(0));
        assert!(parser.bytes.capacity() < 100);
    }

    #[test]
    fn random_bytes_never_panic() {
        let mut seed = 1_u64;
        let alphabet = b"+-:$*012345\r\n\r\nx";
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..40)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    alphabet[(seed >> 33) as usize % alphabet.len()]
                })
                .collect();
            assert_eq!(parsed(&bytes, 1), parsed(&bytes, 7), "{}", excerpt(&bytes));
        }
    }
}
