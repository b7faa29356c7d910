//! A real server behind a proxy that changes what clients ask for. So it answers as another server would, in order.

use std::io::{self, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use leasehold_servers::Server;

use super::resp::{Words, is, list, receive};

/// What becomes of a command.
pub(super) enum Fate {
    Passes,
    /// The server gets this command instead.
    Becomes(Words),
    /// The proxy closes the connection.
    Closes,
}

/// Dropping it ends the server. Its own threads end with their connections.
pub(super) struct Proxy {
    port: u16,
    server: Server,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    pub(super) fn start(server: Server, fate: fn(&Words) -> Fate) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (port, address) = (listener.local_addr().unwrap().port(), server.address());
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let record = Arc::clone(&asked);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let record = Arc::clone(&record);
                thread::spawn(move || serve(client, address, fate, &record));
            }
        });
        Self { port, server, asked }
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    pub(super) fn server(&self) -> SocketAddr {
        self.server.address()
    }

    /// How often clients have sent a command.
    pub(super) fn asked(&self, name: &str) -> usize {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.iter().filter(|command| command.eq_ignore_ascii_case(name)).count()
    }
}

/// A proxy that answers `INFO` with this text.
pub(super) fn telling(info: &str) -> Fate {
    Fate::Becomes(vec![b"ECHO".to_vec(), info.as_bytes().to_vec()])
}

/// What a server says that doesn't know a command.
pub(super) fn refusing(name: &str) -> Fate {
    let script = format!("return redis.error_reply(\"ERR unknown command '{name}'\")");
    Fate::Becomes(vec![b"EVAL".to_vec(), script.into_bytes(), b"0".to_vec()])
}

pub(super) fn is_info(words: &Words) -> bool {
    is(words.first(), "INFO")
}

fn serve(
    client: TcpStream,
    server: SocketAddr,
    fate: fn(&Words) -> Fate,
    asked: &Mutex<Vec<String>>,
) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut server = TcpStream::connect(server)?;
    server.set_nodelay(true)?;
    let (mut replies, mut answers) = (server.try_clone()?, client.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut replies, &mut answers);
        let _ = answers.shutdown(Shutdown::Both);
    });
    let passed = pass_on(&client, &mut server, fate, asked);
    let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
    passed
}

fn pass_on(
    client: &TcpStream,
    server: &mut TcpStream,
    fate: fn(&Words) -> Fate,
    asked: &Mutex<Vec<String>>,
) -> io::Result<()> {
    let mut requests = BufReader::new(client);
    loop {
        let words = receive(&mut requests)?;
        let name = words.first().map(|word| String::from_utf8_lossy(word).into_owned()).unwrap_or_default();
        asked.lock().unwrap_or_else(PoisonError::into_inner).push(name);
        match fate(&words) {
            Fate::Passes => server.write_all(&list(&words))?,
            Fate::Becomes(words) => server.write_all(&list(&words))?,
            Fate::Closes => return Ok(()),
        }
    }
}
