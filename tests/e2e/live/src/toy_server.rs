use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// Stands in for Redis 5.0.14, which is hard to find today. It answers INFO, and OK to everything else.
#[derive(Debug)]
pub struct OldServer(ToyServer);

impl OldServer {
    /// Listens on a free loopback port until the process ends.
    ///
    /// # Errors
    /// If it can't listen.
    pub fn start() -> io::Result<Self> {
        let info = "# Server\r\nredis_version:5.0.14\r\n";
        ToyServer::start(move |words| match words.first() {
            Some(word) if word.eq_ignore_ascii_case("INFO") => format!("${}\r\n{info}\r\n", info.len()),
            _ => "+OK\r\n".to_owned(),
        })
        .map(Self)
    }

    /// Its URL.
    pub fn url(&self) -> String {
        self.0.url()
    }
}

/// The answer of a [`ToyServer`] that closes the connection.
pub const CLOSE: &str = "close";

/// A server that answers as a test wants.
#[derive(Debug)]
pub struct ToyServer {
    address: SocketAddr,
}

impl ToyServer {
    /// Listens on a free loopback port until the process ends. `answer` returns the RESP2 reply to a command's words.
    ///
    /// # Errors
    /// If it can't listen.
    pub fn start(answer: impl Fn(&[String]) -> String + Send + Sync + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let answer = Arc::new(answer);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let answer = Arc::clone(&answer);
                thread::spawn(move || serve(stream, &*answer));
            }
        });
        Ok(Self { address })
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }
}

fn serve(stream: TcpStream, answer: &dyn Fn(&[String]) -> String) -> io::Result<()> {
    let mut answers = stream.try_clone()?;
    let mut requests = BufReader::new(stream);
    loop {
        let words = receive(&mut requests)?;
        match answer(&words) {
            close if close == CLOSE => return Ok(()),
            answer => answers.write_all(answer.as_bytes())?,
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
