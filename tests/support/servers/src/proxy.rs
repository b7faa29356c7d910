//! A real server behind a proxy that changes what clients ask for. So it answers as another server would, in order.

use std::io::{self, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::requests::{Words, is, list, receive};
use crate::server::Server;

/// What becomes of a command.
pub enum Fate {
    /// The server gets it.
    Passes,
    /// The server gets this command instead.
    Becomes(Words),
    /// The proxy closes the connection.
    Closes,
}

/// A proxy in front of a server. Dropping it ends the server. Its own threads end with their connections.
pub struct Proxy {
    port: u16,
    server: Server,
    asked: Arc<Mutex<Vec<String>>>,
    clients: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    /// Starts one. `fate` says what becomes of each command.
    ///
    /// # Errors
    /// If there is no free port.
    pub fn start(server: Server, fate: fn(&Words) -> Fate) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let (port, address) = (listener.local_addr()?.port(), server.address());
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let clients = Arc::<Mutex<Vec<TcpStream>>>::default();
        let (record, open) = (Arc::clone(&asked), Arc::clone(&clients));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                open.lock().unwrap_or_else(PoisonError::into_inner).extend(client.try_clone());
                let record = Arc::clone(&record);
                thread::spawn(move || serve(client, address, fate, &record));
            }
        });
        Ok(Self { port, server, asked, clients })
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// The server behind it.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Closes all connections. Clients can connect again.
    pub fn cut(&self) {
        for client in self.clients.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = client.shutdown(Shutdown::Both);
        }
    }

    /// How often clients have sent a command.
    #[must_use]
    pub fn asked(&self, name: &str) -> usize {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.iter().filter(|command| command.eq_ignore_ascii_case(name)).count()
    }
}

impl Fate {
    /// The answer is this text.
    #[must_use]
    pub fn telling(text: &str) -> Self {
        Self::Becomes(vec![b"ECHO".to_vec(), text.as_bytes().to_vec()])
    }

    /// The answer is that of a server that doesn't know this command.
    #[must_use]
    pub fn refusing(name: &str) -> Self {
        let script = format!("return redis.error_reply(\"ERR unknown command '{name}'\")");
        Self::Becomes(vec![b"EVAL".to_vec(), script.into_bytes(), b"0".to_vec()])
    }

    /// As twemproxy does with commands that it doesn't know. It knows some more.
    #[must_use]
    pub fn as_of_twemproxy(words: &Words) -> Self {
        let known = ["EVAL", "EVALSHA", "GET", "SET", "DEL", "PING"];
        if known.iter().any(|name| is(words.first(), name)) { Self::Passes } else { Self::Closes }
    }

    /// As Envoy 1.40 does with commands that it doesn't know.
    #[must_use]
    pub fn as_of_envoy(words: &Words) -> Self {
        let unknown = ["ACL", "DBSIZE", "MEMORY", "SUBSCRIBE"];
        let name = unknown.iter().find(|name| is(words.first(), name));
        name.map_or(Self::Passes, |name| Self::refusing(name))
    }
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
