use leasehold_core::{Reply, Scalar};
use leasehold_servers::{Connection, Reply as Raw, Server};

use super::Host;

/// A connection to a real server.
pub(crate) struct Real(pub(crate) Connection);

impl Real {
    pub(crate) fn connect(server: &Server) -> Self {
        Self(server.connect().unwrap())
    }
}

impl Host for Real {
    fn run(&mut self, words: &[&str]) -> Result<Reply, String> {
        match self.0.call(words).unwrap() {
            Raw::Error(text) => Err(text),
            Raw::List(items) => Ok(Reply::List(items.into_iter().map(scalar).collect())),
            single => Ok(Reply::One(scalar(single))),
        }
    }
}

fn scalar(raw: Raw) -> Scalar {
    match raw {
        Raw::Nil => Scalar::Nil,
        Raw::Integer(number) => Scalar::Int(number),
        Raw::Text(text) => Scalar::Text(text.into_bytes()),
        other => panic!("not flat: {other:?}"),
    }
}

/// The next message of a subscribed connection: channel and payload.
pub(crate) fn receive_message(connection: &mut Connection) -> (String, String) {
    let message = connection.receive().unwrap();
    let [.., channel, payload] = message.list() else { panic!("not a message: {message:?}") };
    (channel.text().unwrap().to_owned(), payload.text().unwrap().to_owned())
}
