//! A proxy that delays, drops, halves and duplicates what it carries.
//!
//! Its address stays the same, and the server behind it can change. Clients keep this address in a failover by hand.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How a proxy treats what passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// It carries everything.
    Pass,
    /// It carries everything later.
    Delay(Duration),
    /// It swallows everything. A connection that has lost something breaks when this is over, because TCP never leaves
    /// a gap.
    Drop,
    /// It carries half of a reply, and then breaks the connection.
    Halve,
    /// It carries every request, and sends it once more after a while, over another connection to the server. The reply
    /// to that goes nowhere. A second copy on the same connection would shift all later replies, because RESP doesn't
    /// number them, and no client could work with that.
    Duplicate,
}

/// A proxy on a free loopback port. Dropping it breaks its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    target: Mutex<SocketAddr>,
    behaviour: Mutex<Behaviour>,
    open: Mutex<Vec<TcpStream>>,
    ended: AtomicBool,
    /// Requests that were sent twice, and replies that were cut.
    struck: AtomicU64,
}

impl Proxy {
    /// Listens on a free port and leads to `target`.
    ///
    /// # Errors
    /// If it can't listen.
    pub fn start(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            target: Mutex::new(target),
            behaviour: Mutex::new(Behaviour::Pass),
            open: Mutex::default(),
            ended: AtomicBool::new(false),
            struck: AtomicU64::new(0),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if accepting.ended.load(Ordering::SeqCst) {
                    return;
                }
                let _ = accepting.serve(client);
            }
        });
        Ok(Self { address, shared })
    }

    /// Its own address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its own URL.
    pub fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    /// Treats everything like this from now on.
    pub fn set(&self, behaviour: Behaviour) {
        *lock(&self.shared.behaviour) = behaviour;
    }

    /// Leads to another server from now on, and breaks the connections to the one before.
    pub fn lead_to(&self, target: SocketAddr) {
        *lock(&self.shared.target) = target;
        self.shared.cut();
    }

    /// Breaks the connections. Needed after [`Behaviour::Drop`], because an idle connection doesn't know what it has lost.
    pub fn cut(&self) {
        self.shared.cut();
    }

    /// How many requests it sent twice and how many replies it cut.
    pub fn struck(&self) -> u64 {
        self.shared.struck.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.shared.cut();
        // Wakes the thread that accepts connections.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn serve(self: &Arc<Self>, client: TcpStream) -> io::Result<()> {
        // Without a server the client's connection ends at once.
        let target = *lock(&self.target);
        let server = TcpStream::connect_timeout(&target, Duration::from_secs(1))?;
        for stream in [&client, &server] {
            stream.set_nodelay(true)?;
            lock(&self.open).push(stream.try_clone()?);
        }
        let (requests, replies) = ((client.try_clone()?, server.try_clone()?), (server, client));
        for (way, (from, to)) in [(Way::Requests, requests), (Way::Replies, replies)] {
            let shared = Arc::clone(self);
            thread::spawn(move || {
                let _ = shared.carry(way, &from, &to);
                for stream in [&from, &to] {
                    let _ = stream.shutdown(Shutdown::Both);
                }
            });
        }
        Ok(())
    }

    /// Carries one direction until it breaks.
    fn carry(&self, way: Way, mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
        let mut buffer = [0; 16_384];
        let mut lost = false;
        loop {
            let length = from.read(&mut buffer)?;
            let bytes = buffer.get(..length).unwrap_or_default();
            let behaviour = *lock(&self.behaviour);
            if bytes.is_empty() || lost && behaviour != Behaviour::Drop {
                return Ok(());
            }
            match behaviour {
                Behaviour::Drop => {
                    lost = true;
                    continue;
                }
                Behaviour::Delay(time) => thread::sleep(time),
                Behaviour::Halve if way == Way::Replies && bytes.len() > 1 => {
                    self.struck.fetch_add(1, Ordering::SeqCst);
                    return to.write_all(bytes.get(..bytes.len() / 2).unwrap_or_default());
                }
                Behaviour::Duplicate if way == Way::Requests => {
                    to.write_all(bytes)?;
                    self.send_again(bytes.to_vec());
                    continue;
                }
                Behaviour::Pass | Behaviour::Halve | Behaviour::Duplicate => {}
            }
            to.write_all(bytes)?;
        }
    }

    /// Sends a request once more, after 1 to 100 ms.
    fn send_again(&self, request: Vec<u8>) {
        const DELAYS: [u64; 5] = [1, 3, 10, 30, 100];
        let number = self.struck.fetch_add(1, Ordering::SeqCst);
        let delay = DELAYS[(number % DELAYS.len() as u64) as usize];
        let target = *lock(&self.target);
        thread::spawn(move || -> io::Result<()> {
            thread::sleep(Duration::from_millis(delay));
            let mut server = TcpStream::connect_timeout(&target, Duration::from_secs(1))?;
            server.set_read_timeout(Some(Duration::from_millis(500)))?;
            server.write_all(&request)?;
            // The server has run it when it answers.
            server.read(&mut [0; 1_024]).map(|_| ())
        });
    }

    fn cut(&self) {
        for stream in lock(&self.open).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// A direction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Requests,
    Replies,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use leasehold_servers::{Connection, Reply, Server};

    use super::*;

    const SOON: Duration = Duration::from_secs(5);

    fn start() -> Result<(Server, Proxy, Connection), Box<dyn std::error::Error>> {
        let server = Server::start()?;
        let proxy = Proxy::start(server.address())?;
        let client = Connection::open(proxy.address(), SOON)?;
        Ok((server, proxy, client))
    }

    #[test]
    fn a_proxy_carries_commands_and_follows_the_server_that_it_leads_to() -> Result<(), Box<dyn std::error::Error>> {
        let (_server, proxy, mut client) = start()?;
        assert_eq!(client.call(&["SET", "a", "1"])?.text(), Some("OK"));
        let other = Server::start()?;
        proxy.lead_to(other.address());
        assert!(client.call(&["GET", "a"]).is_err(), "the connection is broken");
        assert!(Connection::open(proxy.address(), SOON)?.call(&["GET", "a"])?.is_nil());
        Ok(())
    }

    #[test]
    fn a_halved_reply_breaks_the_connection_though_the_command_ran() -> Result<(), Box<dyn std::error::Error>> {
        let (server, proxy, mut client) = start()?;
        client.call(&["SET", "a", "the old value"])?;
        proxy.set(Behaviour::Halve);
        assert!(client.call(&["GETSET", "a", "the new value"]).is_err());
        assert_eq!(server.cli(&["GET", "a"])?.text(), Some("the new value"));
        Ok(())
    }

    #[test]
    fn a_duplicated_request_runs_twice_and_the_client_reads_one_reply() -> Result<(), Box<dyn std::error::Error>> {
        let (server, proxy, mut client) = start()?;
        proxy.set(Behaviour::Duplicate);
        assert_eq!(client.call(&["INCR", "a"])?, Reply::Integer(1));
        let start = std::time::Instant::now();
        while server.cli(&["GET", "a"])?.text() != Some("2") {
            assert!(start.elapsed() < SOON, "it ran once");
            thread::sleep(Duration::from_millis(2));
        }
        proxy.set(Behaviour::Pass);
        assert_eq!(client.call(&["INCR", "a"])?, Reply::Integer(3));
        Ok(())
    }

    #[test]
    fn what_was_dropped_never_arrives_and_its_connection_breaks() -> Result<(), Box<dyn std::error::Error>> {
        let (server, proxy, _client) = start()?;
        let mut client = Connection::open(proxy.address(), Duration::from_millis(200))?;
        proxy.set(Behaviour::Drop);
        assert!(client.call(&["SET", "a", "1"]).is_err(), "no answer");
        proxy.set(Behaviour::Pass);
        proxy.cut();
        assert!(client.call(&["SET", "b", "1"]).is_err(), "the connection is broken");
        assert!(server.cli(&["GET", "a"])?.is_nil());
        Ok(())
    }
}
