use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A server's reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A null reply.
    Nil,
    /// An integer.
    Integer(i64),
    /// A status or a string. Bytes that aren't UTF-8 are replaced.
    Text(String),
    /// A list.
    List(Vec<Reply>),
    /// The server's error text.
    Error(String),
}

impl Reply {
    /// The text of a string or status. `None` for any other reply.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number of an integer reply. `None` for any other reply.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// The items of a list. Empty for any other reply.
    pub fn list(&self) -> &[Reply] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }

    /// Whether the reply is null.
    pub fn is_nil(&self) -> bool {
        *self == Self::Nil
    }
}

/// A raw RESP2 connection, which sends commands and reads replies.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Connects. Every later read or write fails if it takes longer than `timeout`.
    ///
    /// # Errors
    /// If there is no server at the address, or it does not answer in time.
    pub fn open(address: SocketAddr, timeout: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends a command and reads its reply. A server's error is also a reply: [`Reply::Error`].
    ///
    /// # Errors
    /// If the connection fails, or the reply is late or not RESP2.
    pub fn call(&mut self, command: &[&str]) -> io::Result<Reply> {
        self.send(command)?;
        self.receive()
    }

    /// Sends a command without waiting for its reply.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn send(&mut self, command: &[&str]) -> io::Result<()> {
        let mut frame = format!("*{}\r\n", command.len()).into_bytes();
        for part in command {
            frame.extend_from_slice(format!("${}\r\n{part}\r\n", part.len()).as_bytes());
        }
        self.stream.get_mut().write_all(&frame)
    }

    /// Reads the next reply or pushed message.
    ///
    /// # Errors
    /// If the connection fails, nothing arrives in time, or it is not RESP2.
    pub fn receive(&mut self) -> io::Result<Reply> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| invalid(line))?;
        match kind {
            "+" => Ok(Reply::Text(rest.to_owned())),
            "-" => Ok(Reply::Error(rest.to_owned())),
            ":" => rest.parse().map(Reply::Integer).map_err(|_| invalid(line)),
            "$" => self.receive_text(length(rest, line)?),
            "*" => self.receive_list(length(rest, line)?),
            _ => Err(invalid(line)),
        }
    }

    fn receive_text(&mut self, length: Option<usize>) -> io::Result<Reply> {
        let Some(length) = length else { return Ok(Reply::Nil) };
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes)?;
        bytes.truncate(length);
        Ok(Reply::Text(String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn receive_list(&mut self, length: Option<usize>) -> io::Result<Reply> {
        let Some(length) = length else { return Ok(Reply::Nil) };
        (0..length).map(|_| self.receive()).collect::<io::Result<_>>().map(Reply::List)
    }
}

/// Parses a length. `-1` stands for a null reply.
fn length(text: &str, line: &str) -> io::Result<Option<usize>> {
    if text == "-1" { Ok(None) } else { text.parse().map(Some).map_err(|_| invalid(line)) }
}

fn invalid(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a RESP2 answer: {line:?}"))
}
