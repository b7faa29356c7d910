//! The model server behind a socket, with its scripts in Lua 5.4. As on Dragonfly, scripts get scores as floats and may
//! touch only the keys that they declare.

use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use leasehold_core::{Reply, Scalar};
use leasehold_model::ModelServer;
use leasehold_servers::requests::{Words, is, list, receive, text};

/// Its thread ends with the last connection, after it was dropped.
pub(super) struct Lua54 {
    address: SocketAddr,
}

impl Lua54 {
    /// `info` is its answer to `INFO`.
    pub(super) fn start(info: &'static str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (events, receiver) = channel();
        thread::spawn(move || Host::new(info).run(&receiver));
        thread::spawn(move || {
            for (id, stream) in listener.incoming().flatten().enumerate() {
                let events = events.clone();
                thread::spawn(move || read(id, stream, &events));
            }
        });
        Self { address }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }
}

enum Event {
    Came(usize, TcpStream),
    Asked(usize, Words),
    Left(usize),
}

fn read(id: usize, stream: TcpStream, events: &Sender<Event>) {
    let Ok(answers) = stream.try_clone() else { return };
    let _ = (answers.set_nodelay(true), events.send(Event::Came(id, answers)));
    let mut requests = BufReader::new(stream);
    while let Ok(words) = receive(&mut requests) {
        let _ = events.send(Event::Asked(id, words));
    }
    let _ = events.send(Event::Left(id));
}

/// The server, in its own thread.
struct Host {
    info: &'static str,
    model: ModelServer,
    clients: BTreeMap<usize, TcpStream>,
    /// Channels, with the clients that listen there.
    channels: BTreeMap<String, Vec<usize>>,
}

impl Host {
    fn new(info: &'static str) -> Self {
        Self { info, model: ModelServer::new(), clients: BTreeMap::new(), channels: BTreeMap::new() }
    }

    fn run(mut self, events: &Receiver<Event>) {
        while let Ok(event) = events.recv() {
            match event {
                Event::Came(id, stream) => drop(self.clients.insert(id, stream)),
                Event::Asked(id, words) => self.answer(id, &words),
                Event::Left(id) => {
                    self.clients.remove(&id);
                    let channels: Vec<String> = self.channels.keys().cloned().collect();
                    channels.iter().for_each(|channel| self.listen(id, channel, false));
                }
            }
        }
    }

    fn answer(&mut self, id: usize, words: &Words) {
        let name = words.first();
        let reply = match () {
            () if is(name, "INFO") => text(self.info.as_bytes()),
            () if is(name, "PING") => b"+PONG\r\n".to_vec(),
            () if is(name, "HELLO") => b"-NOPROTO unsupported protocol version\r\n".to_vec(),
            () if is(name, "CLIENT") || is(name, "SELECT") => b"+OK\r\n".to_vec(),
            () if is(name, "SUBSCRIBE") => self.subscribe(id, &words[1..], "subscribe"),
            () if is(name, "UNSUBSCRIBE") => self.subscribe(id, &words[1..], "unsubscribe"),
            () => self.run_command(words),
        };
        self.send(id, &reply);
    }

    fn run_command(&mut self, words: &Words) -> Vec<u8> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let done = self.model.execute(now.try_into().unwrap(), &words);
        for (channel, payload) in done.published {
            let message = list(&[b"message", channel.as_bytes(), &payload]);
            for listener in self.channels.get(&channel).cloned().unwrap_or_default() {
                self.send(listener, &message);
            }
        }
        match done.reply {
            Ok(Reply::One(one)) => scalar(&one),
            Ok(Reply::List(items)) => {
                let head = format!("*{}\r\n", items.len()).into_bytes();
                head.into_iter().chain(items.iter().flat_map(scalar)).collect()
            }
            Err(error) => format!("-{}\r\n", error.lines().next().unwrap_or_default()).into_bytes(),
        }
    }

    fn subscribe(&mut self, id: usize, channels: &[Vec<u8>], what: &str) -> Vec<u8> {
        let mut reply = Vec::new();
        for name in channels {
            self.listen(id, &String::from_utf8_lossy(name), what == "subscribe");
            reply.extend([b"*3\r\n".to_vec(), text(what.as_bytes()), text(name), b":1\r\n".to_vec()].concat());
        }
        reply
    }

    fn listen(&mut self, id: usize, channel: &str, on: bool) {
        let listeners = self.channels.entry(channel.to_owned()).or_default();
        listeners.retain(|listener| *listener != id);
        if on {
            listeners.push(id);
        }
        self.model.set_listeners(channel, listeners.len().try_into().unwrap());
    }

    fn send(&mut self, id: usize, reply: &[u8]) {
        // A client that is gone also says so.
        let _ = self.clients.get_mut(&id).map(|stream| stream.write_all(reply));
    }
}

fn scalar(value: &Scalar) -> Vec<u8> {
    match value {
        Scalar::Nil => b"$-1\r\n".to_vec(),
        Scalar::Int(number) => format!(":{number}\r\n").into_bytes(),
        Scalar::Text(words) => text(words),
    }
}
