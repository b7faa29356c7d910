use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;

/// Stands for a Redis 5.0.14, which no machine of today has: it answers INFO, and OK to all else.
#[derive(Debug)]
pub struct OldServer {
    address: SocketAddr,
}

impl OldServer {
    /// Listens on a free loopback port until the process ends.
    ///
    /// # Errors
    /// If it can't listen.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || serve(stream));
            }
        });
        Ok(Self { address })
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }
}

fn serve(stream: TcpStream) -> io::Result<()> {
    let mut answers = stream.try_clone()?;
    let mut requests = BufReader::new(stream);
    loop {
        let words = receive(&mut requests)?;
        let info = "# Server\r\nredis_version:5.0.14\r\n";
        match words.first() {
            Some(word) if word.eq_ignore_ascii_case("INFO") => write!(answers, "${}\r\n{info}\r\n", info.len())?,
            _ => answers.write_all(b"+OK\r\n")?,
        }
    }
}

/// One command: `*<n>`, then n times `$<length>` and the word.
fn receive(requests: &mut impl BufRead) -> io::Result<Vec<String>> {
    let count = length(requests)?;
    let mut words = Vec::new();
    for _ in 0..count {
        let mut word = vec![0; length(requests)? + 2];
        requests.read_exact(&mut word)?;
        words.push(String::from_utf8_lossy(&word).trim_end().to_owned());
    }
    Ok(words)
}

fn length(requests: &mut impl BufRead) -> io::Result<usize> {
    let mut line = String::new();
    if requests.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    line.trim().trim_start_matches(['*', '$']).parse().map_err(io::Error::other)
}
